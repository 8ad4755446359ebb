"""Tumbling, hopping and calendar windows, record by record.

Law: a record enters each window that holds its event time, unless its own stream time has reached the window's end plus
grace. A window is final when every partition's stream time has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.description import CalendarWindows, TimeWindows
from headrace.description.calendars import (
    FAR_MS,
    LAST,
    first_date,
    local_date,
    midnight_ms,
    next_date,
    zone_of,
)
from headrace.description.clocks import WALL
from headrace.oracle.aggregates import Group
from headrace.oracle.fates import LATE, OPEN, USED, refused
from headrace.oracle.log import Log, Results, Row, Values, reached
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate
    from headrace.description.windows import WindowKind


def windows(node: WindowedAggregate, log: Log) -> Results:
    """The windows that the logs lead to."""
    found = Results()
    contents: dict[tuple[Identity, int], Group] = {}
    last_of: Counter[tuple[Identity, int]] = Counter()  # how many records each window is the last to hold
    times = log.lowest
    reached_ms = log.last_ms if node.clock == WALL else times[-1][1] if times else -1
    for row in log.rows:
        fate = refused(row, node.aggregates)
        if fate is None:
            entered = starts(node, row)
            is_open = bool(entered) and end_of(node, entered[-1]) + node.grace_ms > reached_ms
            fate = LATE if not entered else OPEN if is_open else USED
            for start in every_start(node, row):
                if start not in entered:
                    found.missed(row, start, end_of(node, start))
            for start in entered:
                at = identity(row.values[name] for name in node.by), start
                contents.setdefault(at, Group(node.by, node.aggregates)).add(row)
                last_of[at] += start == entered[-1]
        found.met(row, fate)
    for (key, start), group in contents.items():
        window = shown(node, group, start) | {"__records": last_of[key, start]}
        end = end_of(node, start)
        by_wall = end if end <= log.last_ms else None
        final_at = by_wall if node.clock == WALL else reached(times, end + node.grace_ms)
        found.windowed(window, final_at)
    return found


def shown(node: WindowedAggregate, group: Group, start: int) -> Values:
    """A window as a row."""
    return group.window(start, end_of(node, start)) | {"__timestamp": group.event_ms}


def starts(node: WindowedAggregate, row: Row) -> list[int]:
    """The starts of the windows that a record enters, rising."""
    now_ms = row.at_ms if node.clock == WALL else row.stream_ms or 0
    return [start for start in every_start(node, row) if end_of(node, start) + node.grace_ms > now_ms]


def every_start(node: WindowedAggregate, row: Row) -> Iterator[int]:
    """The starts of all windows that hold a record's event time, or its commit time; none lies before 1970."""
    time_ms = row.at_ms if node.clock == WALL else row.time_ms
    if node.window.unit:
        if time_ms >= 0:
            yield _unit(node.window, time_ms)[0]
        return
    assert isinstance(node.window, TimeWindows)
    advance = node.window.advance_ms
    first = max(0, (time_ms - node.window.size_ms) // advance + 1) * advance
    yield from range(first, time_ms + 1, advance)


def end_of(node: WindowedAggregate, start: int) -> int:
    """The end of the window that starts then."""
    if node.window.unit:
        return _unit(node.window, start)[1]
    assert isinstance(node.window, TimeWindows)
    return start + node.window.size_ms


def _unit(window: WindowKind, time_ms: int) -> tuple[int, int]:
    """Begin and end of the day, week or month of a time, by the zone's clocks; it begins at the last midnight before."""
    assert isinstance(window, CalendarWindows)
    zone = zone_of(window.zone)
    first = first_date(local_date(time_ms, zone), window.unit)
    if first >= LAST:
        return midnight_ms(LAST, zone), FAR_MS
    after = next_date(first, window.unit)
    while midnight_ms(after, zone) <= time_ms:  # clocks may show an hour before midnight twice
        first, after = after, next_date(after, window.unit)
    return midnight_ms(first, zone), midnight_ms(min(after, LAST), zone)
