"""Durations as people write them: "2 minutes", "1 hour 30 minutes", "500 ms".

Law: a duration is a whole number of milliseconds, never negative, whatever the calendar says.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache

from headrace.description.wording import a_value, did_you_mean
from headrace.errors import DescriptionError

Duration = str | timedelta | int

DURATION_MAX_MS = 36_525 * 86_400_000

_UNITS: dict[str, Fraction] = {
    unit: Fraction(ms)
    for units, ms in (
        ("us microsecond microseconds", "1/1000"),
        ("ms milli millis millisecond milliseconds", "1"),
        ("s sec secs second seconds", "1000"),
        ("m min mins minute minutes", "60000"),
        ("h hr hrs hour hours", "3600000"),
        ("d day days", "86400000"),
        ("w week weeks", "604800000"),
    )
    for unit in units.split()
}
_CALENDAR_UNIT = re.compile(r"(mon|month|quarter|y|yr|year)s?", re.IGNORECASE)
_PART = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([^\W\d_]+)\s*")
_SPOKEN = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000))
_EXAMPLES = "Write for example '2 minutes', '1 hour 30 minutes' or '500 ms'."


def duration_ms(text: Duration, what: str) -> int:
    """A duration in milliseconds.

    In: text such as "10 seconds", a timedelta, or a number of milliseconds that is a multiple of 500, for people who write
        300 or 3600 mean seconds; `what` names it in errors.
    Out: milliseconds, from 0 to 100 years.
    Raises: DescriptionError when it is negative, too long, finer than a millisecond, a number without a unit, or no duration
    """
    if isinstance(text, int) and not isinstance(text, bool) and text > 0 and text % 500:
        raise DescriptionError(
            f"{what}: {text} has no unit, and a plain number is milliseconds.",
            hint=f"Write '{text} seconds', or '{text} ms' if that is meant.",
        )
    return exact_ms(text, what)


def optional_ms(text: Duration | None, what: str) -> int | None:
    """As `duration_ms`; None of None."""
    return None if text is None else duration_ms(text, what)


def exact_ms(text: Duration, what: str) -> int:
    """As `duration_ms`, for values whose name says that they are milliseconds, as `size_ms`."""
    if isinstance(text, str):
        exact = _parsed(text, what)
    elif isinstance(text, timedelta):
        exact = Fraction(text // timedelta(microseconds=1), 1000)
    elif isinstance(text, int) and not isinstance(text, bool):
        exact = Fraction(text)
    else:
        raise DescriptionError(f"{what}: {a_value(text)} is not a duration.", hint=_EXAMPLES)
    return _whole(exact, text, what)


def positive_ms(text: Duration, what: str) -> int:
    """As `exact_ms`. Raises: DescriptionError also for 0."""
    ms = exact_ms(text, what)
    if ms == 0:
        raise DescriptionError(f"{what}: 0 ms is too short.", hint="The shortest is '1 ms'.")
    return ms


def require_ms(ms: int, what: str) -> None:
    """Raise DescriptionError for anything but a whole number of milliseconds."""
    if exact_ms(ms, what) != ms:
        raise DescriptionError(f"{what}_ms: {a_value(ms)} is not a number of milliseconds.")


@lru_cache(maxsize=1024)
def _parsed(text: str, what: str) -> Fraction:
    total, position, stripped = Fraction(0), 0, text.strip()
    while part := _PART.match(stripped, position):
        total += Fraction(part[1]) * _unit_ms(part[2], text, what)
        position = part.end()
        if part[1].startswith("-"):
            raise DescriptionError(f"{what}: {text!r} is negative.", hint="The shortest is '0 seconds'.")
    if position == 0 or position < len(stripped):
        raise DescriptionError(f"{what}: {text!r} is not a duration.", hint=_EXAMPLES)
    return total


def _unit_ms(unit: str, text: str, what: str) -> Fraction:
    known = _UNITS.get(unit.lower())
    if known is not None:
        return known
    if _CALENDAR_UNIT.fullmatch(unit):
        raise DescriptionError(
            f"{what}: {text!r} has no fixed length, because a {unit.lower().removesuffix('s')} has none.",
            hint="Say it in days, for example '30 days'.",
        )
    raise DescriptionError(
        f"{what}: {text!r} has an unknown unit '{unit}'; units are ms, seconds, minutes, hours, days, weeks.",
        hint=did_you_mean(unit, [name for name in _UNITS if len(name) > 3]) or _EXAMPLES,
    )


def _whole(exact: Fraction, duration: Duration, what: str) -> int:
    if exact < 0:
        raise DescriptionError(
            f"{what}: {a_value(duration)} is negative.", hint="The shortest is '0 seconds'."
        )
    if exact.denominator != 1:
        raise DescriptionError(
            f"{what}: {a_value(duration)} is finer than a millisecond.",
            hint="Round it to whole milliseconds.",
        )
    if exact > DURATION_MAX_MS:
        raise DescriptionError(
            f"{what}: {a_value(duration)} is longer than 100 years.", hint="Is the unit right?"
        )
    return int(exact)


def format_duration(ms: int) -> str:
    """Milliseconds as people write them, as `duration_ms` reads them back: 5400000 is "1 hour 30 minutes"."""
    parts, rest = [], ms
    for unit, unit_ms in _SPOKEN:
        count, rest = divmod(rest, unit_ms)
        if count:
            parts.append(f"{count} {unit}" + ("s" if count > 1 else ""))
    if rest or not parts:
        parts.append(f"{rest} ms")
    return " ".join(parts)
