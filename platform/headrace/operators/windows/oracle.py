"""Tumbling, hopping and calendar windows, record by record.

Law: a record enters each window that holds its event time, unless its own stream time has reached the window's end plus
grace. A window is final when every partition's stream time has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.description import CalendarWindows, SlidingWindows, TimeWindows
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
from headrace.operators.windows.oracle_sliding import sliding
from headrace.oracle import fates
from headrace.oracle.aggregates import Group, updated
from headrace.oracle.fates import LATE, OPEN, USED
from headrace.oracle.log import Log, Results, Row, Values, reached
from headrace.oracle.relations import Grown, Rows, Version, rows_through
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate
    from headrace.description.windows import WindowKind

__all__ = ["refused", "results", "rows_at", "starts", "updated", "value_of"]


def results(node: WindowedAggregate, log: Log) -> Results:
    """The windows that the logs lead to."""
    if isinstance(node.window, SlidingWindows):
        return sliding(node, log)
    found = Results()
    contents: dict[tuple[Identity, int], Group] = {}
    last_of: Counter[tuple[Identity, int]] = Counter()  # how many records each window is the last to hold
    times = log.lowest
    reached_ms = log.last_ms if node.clock == WALL else times[-1][1] if times else -1
    for row in log.rows:
        fate = refused(node, row)
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


def rows_at(node: WindowedAggregate, log: Log, upto_ms: int, part: str) -> Rows:
    """Windows that records have entered; with `suppress` those that are closed."""
    groups: dict[tuple[Identity, int], Grown] = {}
    for row in rows_through(log, upto_ms, part):
        if refused(node, row) is None:
            for start in starts(node, row):
                key = identity(row.values[name] for name in node.by), start
                groups.setdefault(key, Grown(node)).add(row)
    lowest = max((ms for at_ms, ms in log.lowest if at_ms <= upto_ms), default=-1)
    rows: Rows = {}
    for (key, start), of in groups.items():
        closed = end_of(node, start) + node.grace_ms <= lowest
        if closed or node.suppression is None:
            made_of = tuple(of.places) if node.suppression is None else "closed"
            value = value_of(node, of.group, start)
            rows[(*key, *identity([value["window_start"]]))] = Version(made_of, value)
    return rows


def refused(node: WindowedAggregate, row: Row) -> str | None:
    """The fate of a record that no window takes, whatever its time; None: it goes by its time."""
    return fates.refused(row, node.aggregates)


def value_of(node: WindowedAggregate, group: Group, start: int) -> Values:
    """A window as a row, with the columns of the node alone."""
    window = shown(node, group, start)
    return {name: window[name] for name in node.columns}


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
