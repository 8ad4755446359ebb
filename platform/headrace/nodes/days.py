"""The days that the rows of a node's table belong to: those of UTC, or of the calendar by which its windows go.

Law: the day of a window of a calendar is the date that its zone's clocks show at the window's start.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description.calendars import date_shifts, local_date, midnight_ms, zone_of
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr

    from headrace.description import Node


def day_of_row(node: Node) -> Expr:
    """The day of each row, as DATE."""
    assert node.day_column is not None
    calendar = node.calendar
    if calendar is None:
        return F.to_date(node.day_column)
    start_ms = F.unix_millis(node.day_column)
    shift = F.lit(None).cast("long")
    for from_ms, shift_ms in date_shifts(calendar.unit, calendar.zone):
        shift = F.when(start_ms >= from_ms, F.lit(shift_ms).cast("long")).otherwise(shift)
    return F.to_date(F.timestamp_millis(start_ms + shift))


def first_ms_of(node: Node, day: dt.date) -> int:
    """The first moment of a day of a node's table."""
    calendar = node.calendar
    return midnight_ms(day, dt.UTC if calendar is None else zone_of(calendar.zone))


def day_at(node: Node, ms: int) -> dt.date:
    """The day of a node's table that a moment lies in."""
    calendar = node.calendar
    return local_date(ms, dt.UTC if calendar is None else zone_of(calendar.zone))


def last_complete_day(node: Node, closed_ms: int | None, read_ms: int | None = None) -> dt.date | None:
    """Find the latest day with all its windows or batches closed.

    In:  closed_ms  every window with end + grace at or before it is closed; None: none is
         read_ms    commit time through which the log is folded; None: nothing is
    Out: None too for batches without a longest wait and for sessions: one of them may stay open for ever
    """
    from_ms = operator_for(node).open_from_ms(closed_ms, read_ms)
    return None if from_ms is None else day_at(node, from_ms) - dt.timedelta(days=1)
