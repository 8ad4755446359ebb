"""Values that JSON writes as texts or numbers, one at a time: dates, times, decimals, bytes.

Law: for each text that `text_columns` or Arrow takes, the same value; others are taken here or by nobody. Each function
gives None for a text that is no value of the type.
"""

from __future__ import annotations

import binascii
import decimal
import re
from datetime import date, timedelta

import pyarrow as pa

DAY_US = 86_400_000_000
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999  # of the years 1 and 9999
_DATE = r"\+?(?P<year>\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
_DATE_ONLY = re.compile(_DATE + r"(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(
    _DATE
    + r"(?:[ T](?:(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?)?"
    r"[ ]?(?P<zone>Z|UTC|GMT|UT|(?:UTC|GMT|UT)?[+-](?:\d{1,2}(?::\d{2}){0,2}|\d{4}|\d{6}))?)?)?)?)?",
    re.ASCII,
)
_ZONE = re.compile(r"[A-Z]*(?P<sign>[+-])(?P<hour>\d{1,2})(?::?(?P<minute>\d{2}))?(?::?(?P<second>\d{2}))?")
_DECIMAL = re.compile(r"(?P<digits>[+-]?(?:\d+\.?\d*|\.\d+))(?:[eE](?P<exponent>[+-]?\d+))?", re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_EXPONENT_DIGITS_MAX = 16  # Python takes no more; a number with such an exponent is 0, or fits no type
_EPOCH = date(1970, 1, 1)
_BLANKS = "".join(map(chr, range(33)))  # what Spark trims from dates and times


def days_of(text: str) -> int | None:
    """A date as days since 1970: "2024-05-01", also shortened ("2024-5", "2024"), or the date of a time."""
    found = _DATE_ONLY.fullmatch(text.strip(_BLANKS))
    return None if found is None else _days(found)


def micros_of(text: str, *, zoned: bool) -> int | None:
    """A time in microseconds since 1970: a date as above, then "T" or a blank, "12:30[:15[.123456]]", and a zone.

    In: zoned  TIMESTAMP: without a zone the time is UTC. Else TIMESTAMP_NTZ, which has none
    """
    found = _TIMESTAMP.fullmatch(text.strip(_BLANKS))
    days = None if found is None else _days(found)
    if found is None or days is None or (found["zone"] and not zoned):
        return None
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    offset_s = _offset_s(found["zone"] or "")
    if hour > 23 or minute > 59 or second > 59 or offset_s is None:
        return None
    fraction = int((found["fraction"] or "")[:6].ljust(6, "0"))
    micros = (hour * 3600 + minute * 60 + second - offset_s) * 1_000_000 + fraction
    return within_the_calendar(days * DAY_US + micros)


def within_the_calendar(micros: int) -> int | None:
    """The time if it lies in the years 1 to 9999: beyond them it cannot be written."""
    return micros if FIRST_US <= micros <= LAST_US else None


def decimal_of(text: str, precision: int, scale: int) -> decimal.Decimal | None:
    """A number with as many decimals as its type has, rounded half up; None if it has too many digits."""
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return None
    exponent = found["exponent"] or "0"
    if len(exponent) > _EXPONENT_DIGITS_MAX:
        exponent = ("-" if exponent.startswith("-") else "") + (exponent.lstrip("+-").lstrip("0") or "0")
        exponent = exponent if len(exponent) <= _EXPONENT_DIGITS_MAX else exponent[0] + "9" * 16
    context = decimal.Context(precision, decimal.ROUND_HALF_UP, decimal.MIN_EMIN, decimal.MAX_EMAX)
    try:
        number = decimal.Decimal(f"{found['digits']}e{exponent}")
        return number.quantize(decimal.Decimal((0, (1,), -scale)), context=context)
    except decimal.InvalidOperation:
        return None


def float_of(text: str) -> float:
    """The FLOAT that is nearest to a number; infinite beyond the largest."""
    nearest: float = pa.scalar(text).cast(pa.float32()).as_py()
    return nearest


def bytes_of(text: str) -> bytes | None:
    """Bytes in base64: RFC 4648, section 4, padded."""
    return binascii.a2b_base64(text) if _BASE64.fullmatch(text) else None


def _days(match: re.Match[str]) -> int | None:
    try:
        day = date(int(match["year"]), int(match["month"] or 1), int(match["day"] or 1))
    except ValueError:
        return None
    return (day - _EPOCH) // timedelta(days=1)


def _offset_s(zone: str) -> int | None:
    found = _ZONE.fullmatch(zone)
    if found is None:
        return 0
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    offset_s = hour * 3600 + minute * 60 + second
    if minute > 59 or second > 59 or offset_s > 18 * 3600:
        return None
    return -offset_s if found["sign"] == "-" else offset_s
