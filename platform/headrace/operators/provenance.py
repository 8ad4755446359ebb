"""Which records of a key may take part in one row of a node, and how far a record missed it, as each operator states it.

Law: `headrace why` proves the statement each time. It blanks every other record, and the oracle's row has to be equal.
Where a kind of node states nothing, the engine goes by recomputation alone (see `explain.recomputation`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.description import (
    RunningAggregate,
    SessionWindows,
    SlidingWindows,
    StreamJoin,
    WindowedAggregate,
)
from headrace.description.clocks import WALL
from headrace.description.distinct import Distinct
from headrace.description.windows import END, START
from headrace.oracle.values import EPOCH, identity

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.oracle.log import Row


def may_take_part(node: Node, row: Mapping[str, Any], record: Row) -> bool | None:
    """Whether a record may take part in a row of the table, by its key and time; None: the operator states nothing."""
    match node:
        case RunningAggregate():
            return _same(node.by, row, record)
        case WindowedAggregate():
            return _same(node.by, row, record) and _within(node, row, record)
    return None


def late_by_ms(node: Node, record: Row, end_ms: int) -> int | None:
    """By how much a record came too late for what ends then; None: the operator knows no grace.

    Law: with a grace that is longer by more than that, the record counts.
    """
    if not isinstance(node, WindowedAggregate | Distinct | StreamJoin) or record.stream_ms is None:
        return None
    is_session = isinstance(node, WindowedAggregate) and isinstance(node.window, SessionWindows)
    gap_ms = node.window.gap_ms if is_session else 0  # type: ignore[union-attr]
    return record.stream_ms - end_ms - gap_ms - node.grace_ms


def _same(by: tuple[str, ...], row: Mapping[str, Any], record: Row) -> bool:
    return identity(row[name] for name in by) == identity(record.values[name] for name in by)


def _within(node: WindowedAggregate, row: Mapping[str, Any], record: Row) -> bool:
    """Whether the window of a row holds the time of a record. Ends of sessions and sliding windows belong to them."""
    time_ms = record.at_ms if node.clock == WALL else record.event_ms
    start_ms, end_ms = (_milliseconds(row[name]) for name in (START, END))
    if time_ms is None:
        return False
    if isinstance(node.window, SessionWindows):
        return start_ms <= time_ms <= end_ms
    is_late = (
        node.clock != WALL and record.stream_ms is not None and end_ms + node.grace_ms <= record.stream_ms
    )
    last_ms = end_ms if isinstance(node.window, SlidingWindows) else end_ms - 1
    return start_ms <= time_ms <= last_ms and not is_late


def _milliseconds(at: dt.datetime) -> int:
    of_utc = at if at.tzinfo is not None else at.replace(tzinfo=dt.UTC)
    return (of_utc - EPOCH) // dt.timedelta(milliseconds=1)
