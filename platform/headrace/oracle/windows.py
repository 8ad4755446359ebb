"""Tumbling and hopping windows, record by record.

Law: a record enters each window that holds its event time, unless its own stream time has reached the window's end plus
grace. A window is final when every partition's stream time has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.description import TimeWindows
from headrace.description.clocks import WALL
from headrace.oracle.aggregates import Group
from headrace.oracle.fates import LATE, OPEN, USED, refused
from headrace.oracle.log import Log, Results, Row, Values, reached
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate


def windows(node: WindowedAggregate, log: Log) -> Results:
    """The windows that the logs lead to."""
    found = Results()
    contents: dict[tuple[Identity, int], Group] = {}
    last_of: Counter[tuple[Identity, int]] = Counter()  # how many records each window is the last to hold
    times = log.lowest
    reached_ms = log.last_ms if node.clock == WALL else times[-1][1] if times else -1
    closed_ms = reached_ms - size_ms(node) - node.grace_ms  # starts up to here are closed
    for row in log.rows:
        fate = refused(row, node.aggregates)
        if fate is None:
            entered = starts(node, row)
            fate = LATE if not entered else OPEN if entered[-1] > closed_ms else USED
            for start in every_start(node, row):
                if start not in entered:
                    found.missed(row, start, start + size_ms(node))
            for start in entered:
                at = identity(row.values[name] for name in node.by), start
                contents.setdefault(at, Group(node.by, node.aggregates)).add(row)
                last_of[at] += start == entered[-1]
        found.met(row, fate)
    for (key, start), group in contents.items():
        window = shown(node, group, start) | {"__records": last_of[key, start]}
        end = start + size_ms(node)
        by_wall = end if end <= log.last_ms else None
        final_at = by_wall if node.clock == WALL else reached(times, end + node.grace_ms)
        found.windowed(window, final_at)
    return found


def shown(node: WindowedAggregate, group: Group, start: int) -> Values:
    """A window as a row."""
    return group.window(start, start + size_ms(node)) | {"__timestamp": group.event_ms}


def starts(node: WindowedAggregate, row: Row) -> list[int]:
    """The starts of the windows that a record enters, rising."""
    wait = size_ms(node) + node.grace_ms
    now_ms = row.at_ms if node.clock == WALL else row.stream_ms or 0
    return [start for start in every_start(node, row) if start + wait > now_ms]


def every_start(node: WindowedAggregate, row: Row) -> Iterator[int]:
    """The starts of all windows that hold a record's event time, or its commit time; none lies before 1970."""
    assert isinstance(node.window, TimeWindows)
    advance, time_ms = node.window.advance_ms, row.at_ms if node.clock == WALL else row.time_ms
    first = max(0, (time_ms - node.window.size_ms) // advance + 1) * advance
    yield from range(first, time_ms + 1, advance)


def size_ms(node: WindowedAggregate) -> int:
    """The length of a window."""
    assert isinstance(node.window, TimeWindows)
    return node.window.size_ms
