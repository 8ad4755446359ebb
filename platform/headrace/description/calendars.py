"""Days, weeks and months of a time zone, as moments.

Law: a day, or the first day of a week (Monday) or month, begins when the zone's clocks first show midnight, or pass over it.
The rules are those of the package `tzdata`, which the project's lock pins, never those of the machine. The last unit
holds all times from the year 2200 on.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from headrace.description.epoch_time import milliseconds
from headrace.description.wording import a_value, did_you_mean, listed
from headrace.errors import DescriptionError

DAY, WEEK, MONTH = "day", "week", "month"
UNITS = (DAY, WEEK, MONTH)
LAST = dt.date(2200, 1, 1)  # from here on is one unit
FAR_MS = 253_402_300_800_000  # its end, the year 10000
DAY_MS = 86_400_000
EPOCH = dt.date(1970, 1, 1)


def check_unit(unit: object) -> None:
    """Raise DescriptionError when this is no unit of a calendar."""
    if unit not in UNITS:
        raise DescriptionError(
            f"calendar: {a_value(unit)} is no unit; there are {listed(UNITS)}.",
            hint="Write hr.calendar('day', zone='Europe/Berlin'), or hr.tumbling('1 hour').",
        )


@cache
def zone_of(name: str) -> ZoneInfo:
    """The zone of a name, by the rules of the package `tzdata`.

    Raises: DescriptionError when there is none such
    """
    names = _names()
    if name not in names:
        raise DescriptionError(
            f"calendar: there is no time zone {a_value(name)}.",
            hint=did_you_mean(name, names) if isinstance(name, str) else "Write zone='Europe/Berlin'.",
        )
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def midnight_ms(date: dt.date, zone: dt.tzinfo) -> int:
    """The moment at which a date begins in a zone, in ms since 1970."""
    return milliseconds(dt.datetime(date.year, date.month, date.day, tzinfo=zone))


def first_date(date: dt.date, unit: str) -> dt.date:
    """The first date of the unit that a date is in."""
    if unit == MONTH:
        return date.replace(day=1)
    return date - dt.timedelta(days=date.weekday()) if unit == WEEK else date


def next_date(first: dt.date, unit: str) -> dt.date:
    """The first date of the unit after the one that begins with `first`."""
    if unit == MONTH:
        return (first + dt.timedelta(days=31)).replace(day=1)
    return first + dt.timedelta(days=7 if unit == WEEK else 1)


@cache
def starts_of(unit: str, zone: str) -> tuple[int, ...]:
    """Where the units of a zone begin, in ms since 1970, rising: from the one that holds the beginning of 1970 to LAST."""
    rules = zone_of(zone)
    starts = sorted({midnight_ms(first, rules) for first in _first_dates(unit)})
    lowest = max(at for at, start in enumerate(starts) if start <= 0)
    return tuple(starts[lowest:])


@cache
def date_shifts(unit: str, zone: str) -> tuple[tuple[int, int], ...]:
    """From which start on how many ms make a start a moment of its own date in UTC, in as few steps as possible."""
    rules, found = zone_of(zone), list[tuple[int, int]]()
    begins, lowest, highest = 0, 0, -1
    for start in starts_of(unit, zone):
        own = (local_date(start, rules) - EPOCH).days * DAY_MS - start
        if max(lowest, own) > min(highest, own + DAY_MS - 1):
            begins, lowest, highest = start, own, own + DAY_MS - 1
            found.append((begins, lowest))
        lowest, highest = max(lowest, own), min(highest, own + DAY_MS - 1)
        found[-1] = (begins, lowest)
    return tuple(found)


def local_date(ms: int, zone: dt.tzinfo) -> dt.date:
    """The date that clocks of a zone show at a moment."""
    return (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)).astimezone(zone).date()


def _first_dates(unit: str) -> Iterator[dt.date]:
    first = first_date(dt.date(1969, 12, 1), unit)
    while first < LAST:
        yield first
        first = next_date(first, unit)
    yield LAST


@cache
def _names() -> tuple[str, ...]:
    return tuple(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())
