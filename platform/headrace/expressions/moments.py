"""Functions of dates and times. The session's zone is UTC, so a day has 24 hours.

Source: Spark 4.1, `datetimeExpressions.scala`, `DateTimeUtils`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.casts import DAY_US, SECOND_US, cast, floored, moments_of
from headrace.expressions.term import SparkNeededError, Term, lifted, on_arrays
from headrace.expressions.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_integral,
)

_PARTS = {
    "YEAR": pc.year, "QUARTER": pc.quarter, "MONTH": pc.month, "DAY": pc.day, "DAYOFYEAR": pc.day_of_year,
    "WEEK": pc.iso_week,
}  # fmt: skip
_OF_DAY = {"HOUR": pc.hour, "MINUTE": pc.minute, "SECOND": pc.second}
_UNITS_US = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": SECOND_US, "MINUTE": 60 * SECOND_US, "HOUR": 3_600 * SECOND_US,
    "DAY": DAY_US,
}  # fmt: skip
_CALENDAR = {"WEEK": "week", "MONTH": "month", "QUARTER": "quarter", "YEAR": "year"}
_DAYS_OF = {"DAYOFWEEK": (6, 1), "WEEKDAY": (0, 0)}  # the day that begins a week, from Monday, and its number


def part_of(term: Term, part: str) -> Term | None:
    """A part of a date or a time as INT, such as `year(term)`. In: part  a name in upper case."""
    if part in _OF_DAY:
        moment = _as_moment(term)
        if moment is None:
            return None
        compute = _OF_DAY[part]
        return on_arrays(INT, lambda value: _checked(compute, value), moment)
    day = as_date(term)
    if day is None:
        return None
    if part in _DAYS_OF:
        first, begins = _DAYS_OF[part]
        return on_arrays(INT, lambda value: _day_of_week(value, first, begins), day)
    return on_arrays(INT, lambda value: _checked(_PARTS[part], value), day) if part in _PARTS else None


def _day_of_week(value: pa.Array, first: int, begins: int) -> pa.Array:
    days = np.asarray(pc.cast(value, INT).fill_null(0)).astype(np.int64)
    return pa.array(((days + 3 - first) % 7 + begins).astype(np.int32), INT, mask=np.asarray(value.is_null()))


def _checked(compute: pc.Function, value: pa.Array) -> pa.Array:
    """The result as INT, for years of four digits."""
    _refuse_far(value)
    return pc.cast(compute(value), INT)


def _refuse_far(value: pa.Array) -> None:
    """Raise SparkNeededError for a time outside the years 1 to 9999."""
    wide = pc.cast(value, pa.timestamp("us")) if value.type == DATE else value
    us = pc.cast(wide, BIGINT)
    ends = pc.min_max(us).as_py()
    if ends["min"] is not None and (
        ends["min"] < -62_135_596_800 * SECOND_US or ends["max"] >= 253_402_300_800 * SECOND_US
    ):
        raise SparkNeededError


def _as_moment(term: Term) -> Term | None:
    if term.type in (TIMESTAMP, TIMESTAMP_NTZ):
        return lifted(TIMESTAMP_NTZ, lambda value: pc.cast(pc.cast(value, BIGINT), TIMESTAMP_NTZ), term)
    if term.type == DATE:
        return cast(term, TIMESTAMP_NTZ)
    return Term(TIMESTAMP_NTZ) if term.type == STRING else None


def as_date(term: Term) -> Term | None:
    """`to_date(term)` and `date(term)`."""
    if term.type == STRING:
        return Term(DATE)
    return cast(term, DATE) if term.type in (DATE, TIMESTAMP, TIMESTAMP_NTZ) else None


def since_1970(term: Term, unit: str) -> Term | None:
    """`unix_seconds`, `unix_millis` and `unix_micros` of a TIMESTAMP."""
    if term.type != TIMESTAMP:
        return cast(term, TIMESTAMP) and Term(BIGINT)
    size = _UNITS_US[unit]
    return on_arrays(BIGINT, lambda value: floored(value, size), term)


def moment_from(term: Term, unit: str) -> Term | None:
    """`timestamp_seconds`, `timestamp_millis` and `timestamp_micros` of an integer."""
    if not is_integral(term.type):
        return Term(TIMESTAMP) if unit == "SECOND" and term.type == DOUBLE else None
    size = _UNITS_US[unit]
    return on_arrays(TIMESTAMP, lambda value: moments_of(value, size), term)


def truncated(term: Term, unit: str) -> Term | None:
    """`date_trunc(unit, term)`: a TIMESTAMP."""
    moment = term if term.type == TIMESTAMP else cast(term, TIMESTAMP)
    if moment is None or term.type not in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return Term(TIMESTAMP) if term.type == STRING else None
    if unit in _UNITS_US:
        size = _UNITS_US[unit]
        return on_arrays(TIMESTAMP, lambda value: _floor(value, size), moment)
    if unit not in _CALENDAR:
        return Term(TIMESTAMP)
    name = _CALENDAR[unit]
    return on_arrays(TIMESTAMP, lambda value: _begin_of(value, name), moment)


def _floor(value: pa.Array, size: int) -> pa.Array:
    units = np.asarray(floored(value, size).fill_null(0)) * size
    return pa.array(units, BIGINT, mask=np.asarray(value.is_null())).cast(TIMESTAMP)


def _begin_of(value: pa.Array, unit: str) -> pa.Array:
    _refuse_far(value)
    plain = pc.cast(pc.cast(value, BIGINT), TIMESTAMP_NTZ)
    begin = pc.floor_temporal(plain, unit=unit, week_starts_monday=True)
    return pc.cast(pc.cast(begin, BIGINT), TIMESTAMP)


def shifted(term: Term, number: int, unit: str) -> Term | None:
    """A time plus an interval. In: unit  DAY or shorter, in upper case; number  of units, maybe negative."""
    if unit not in _UNITS_US:
        if unit in ("MONTH", "YEAR") and term.type in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
            return Term(term.type)
        return None
    if term.type == DATE:
        return lifted(DATE, lambda value: _days_later(value, number), term) if unit == "DAY" else None
    if term.type not in (TIMESTAMP, TIMESTAMP_NTZ):
        return None
    by = number * _UNITS_US[unit]
    return on_arrays(term.type, lambda value: _later(value, by), term)


def _later(value: pa.Array, by_us: int) -> pa.Array:
    _refuse_far(value)
    if abs(by_us) > 1 << 60:
        raise SparkNeededError
    return pc.cast(pc.add(pc.cast(value, BIGINT), by_us), value.type)


def _days_later(value: pa.Array, days: int) -> pa.Array:
    return pc.cast(pc.add(pc.cast(value, INT), pa.scalar(days, INT)), DATE)


def days_later(term: Term, days: Term) -> Term | None:
    """`date_add(term, days)`; days wrap."""
    day = as_date(term)
    if day is None or days.type not in (INT, pa.int16(), pa.int8()):
        return None
    number = cast(days, INT)
    assert number is not None
    return lifted(DATE, lambda one, by: pc.cast(pc.add(pc.cast(one, INT), by), DATE), day, number)


def days_between(end: Term, start: Term) -> Term | None:
    """`datediff(end, start)`: an INT."""
    sides = as_date(end), as_date(start)
    if sides[0] is None or sides[1] is None:
        return None
    return lifted(
        INT, lambda one, other: pc.subtract(pc.cast(one, INT), pc.cast(other, INT)), sides[0], sides[1]
    )
