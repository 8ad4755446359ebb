"""Which records of a key may take part in one row of a node, and how far a record missed it, as each operator states it.

Law: `headrace why` proves the statement each time. It blanks every other record, and the oracle's row has to be equal.
Where a kind of node states nothing, the engine goes by recomputation alone (see `explain.recomputation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description import (
    Lookup,
    RunningAggregate,
    SessionWindows,
    SlidingWindows,
    Table,
    WindowedAggregate,
)
from headrace.description.clocks import WALL
from headrace.description.distinct import Distinct
from headrace.description.epoch_time import milliseconds
from headrace.description.windows import END, START
from headrace.operators.registry import operator_for
from headrace.oracle.values import identity

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


@dataclass(frozen=True)
class Miss:
    """A window, or another stretch of time, that a record came too late for.

    late_ms         by how much
    setting         what bounds lateness: a node's "grace", or another time of its description
    counts_from_ms  the least value of it with which the record counts there
    """

    start_ms: int
    end_ms: int
    late_ms: int
    setting: str
    counts_from_ms: int


def miss_of(node: Node, record: Row, start_ms: int, end_ms: int) -> Miss | None:
    """How a record missed what ends then; None: the operator knows no time that bounds lateness.

    Law: with the setting that the miss states, the record counts there. A millisecond less, and it misses that stretch.
    """
    setting, length_ms = operator_for(node).lateness
    if length_ms is None or record.stream_ms is None:
        return None
    gap_ms = 0
    if isinstance(node, WindowedAggregate) and isinstance(node.window, SessionWindows):
        gap_ms = node.window.gap_ms
    since_ms = record.time_ms if isinstance(node, Lookup | Table) else end_ms
    behind_ms = record.stream_ms - since_ms - gap_ms
    # A lookup takes a record that is exactly as old as its history; other nodes do not take what has reached the bound.
    least_ms = behind_ms if isinstance(node, Lookup) else behind_ms + 1
    return Miss(start_ms, end_ms, behind_ms - length_ms, setting, least_ms)


def late_by_ms(node: Node, record: Row, end_ms: int) -> int | None:
    """By how much a record came too late for what ends then; None: the operator knows no grace."""
    miss = miss_of(node, record, end_ms, end_ms)
    return None if miss is None else miss.late_ms


def passed_before(node: Node, record: Row, earlier: Iterable[Row]) -> Row | None:
    """The record of which another one is a copy. In: earlier  the records that passed, in the order of the log."""
    if not isinstance(node, Distinct):
        return None
    return next(
        (
            each
            for each in earlier
            if _same(node.by, record.values, each) and abs(each.time_ms - record.time_ms) < node.within_ms
        ),
        None,
    )


def _same(by: tuple[str, ...], row: Mapping[str, Any], record: Row) -> bool:
    return identity(row[name] for name in by) == identity(record.values[name] for name in by)


def _within(node: WindowedAggregate, row: Mapping[str, Any], record: Row) -> bool:
    """Whether the window of a row holds the time of a record. Ends of sessions and sliding windows belong to them."""
    time_ms = record.at_ms if node.clock == WALL else record.event_ms
    start_ms, end_ms = (milliseconds(row[name]) for name in (START, END))
    if time_ms is None:
        return False
    if isinstance(node.window, SessionWindows):
        return start_ms <= time_ms <= end_ms
    is_late = (
        node.clock != WALL and record.stream_ms is not None and end_ms + node.grace_ms <= record.stream_ms
    )
    last_ms = end_ms if isinstance(node.window, SlidingWindows) else end_ms - 1
    return start_ms <= time_ms <= last_ms and not is_late
