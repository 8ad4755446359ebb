"""Sliding windows, by their definition. A window of end e is [e - difference, e].

Law: a window is open to a record when end + grace lies beyond the record's own stream time. A record makes the window that
ends with it (never before `difference`); and, if a window that could hold it is open to it, the one that begins just after
it. A window exists when it holds a record. It is final when every partition's stream time has reached end + grace.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from headrace.description import SlidingWindows
from headrace.oracle.aggregates import Group
from headrace.oracle.fates import LATE, OPEN, USED, refused
from headrace.oracle.log import Log, Results, Row, reached
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate


def sliding(node: WindowedAggregate, log: Log) -> Results:
    """The windows that the logs lead to."""
    found = Results()
    groups: dict[Identity, list[Row]] = defaultdict(list)
    for row in log.rows:
        fate = refused(row, node.aggregates)
        if fate is None:
            groups[identity(row.values[name] for name in node.by)].append(row)
        else:
            found.met(row, fate)
    times = log.lowest
    for rows in groups.values():
        _of_group(node, rows, times, found)
    return found


def _of_group(
    node: WindowedAggregate, rows: list[Row], times: list[tuple[int, int]], results: Results
) -> None:
    assert isinstance(node.window, SlidingWindows)
    difference, grace = node.window.difference_ms, node.grace_ms
    lowest = times[-1][1] if times else -1
    ends = set()
    for row in rows:
        own, last = max(row.time_ms, difference), row.time_ms + difference
        ends |= {own} if own + grace > _stream(row) else set()
        ends |= {last + 1} if last + grace > _stream(row) else set()
    holds = {
        end: entered
        for end in sorted(ends)
        if (entered := [r for r in rows if 0 <= end - r.time_ms <= difference and end + grace > _stream(r)])
    }
    for end, entered in holds.items():
        group = Group(node.by, node.aggregates)
        for row in entered:
            group.add(row)
        window = group.window(end - difference, end)
        window |= {"__timestamp": group.event_ms, "__records": group.records}
        results.windowed(window, reached(times, end + grace))
    for row in rows:
        own, last = max(row.time_ms, difference), row.time_ms + difference
        within = [end for end in holds if 0 <= end - row.time_ms <= difference]
        entered_any = any(end + grace > _stream(row) for end in within)
        for end in {*within, own}:
            if end + grace <= _stream(row):
                results.missed(row, end - difference, end)
        may_enter = last + grace > max(_stream(row), lowest)
        results.met(row, OPEN if may_enter else USED if entered_any else LATE)


def _stream(row: Row) -> int:
    return row.stream_ms or 0
