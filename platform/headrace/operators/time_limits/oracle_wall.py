"""Suppression by a time limit of wall-clock time, update by update; each partition by itself.

Law: an entry (a key; with windows a key and a window) waits from the commit time of its first update, as long as the limit
says that is in force there. An update that was committed before that is over replaces the value; a later one opens another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.operators.time_limits.oracle_updates import (
    Entry,
    can_have,
    first_limits,
    limits_of_entry,
    updated,
    updates_of,
    value_of,
)
from headrace.oracle.fates import OPEN, SET_LIMITS
from headrace.oracle.log import Log, Results, Row
from headrace.oracle.values import Identity

if TYPE_CHECKING:
    from headrace.description import Suppressed


@dataclass
class WallWait:
    """An entry that waits: since when, and until when; the rows that it holds; what it is worth, and how recent that is."""

    opened_ms: int
    due_ms: int
    rows: list[Row] = field(default_factory=list)
    worth: Any = None
    event_ms: int = 0


def wall_limit(node: Suppressed, log: Log) -> Results:
    """The rows that have left, in the order in which sinks get them; for `log.wanted` alone."""
    found = Results()
    rows = sorted(log.rows, key=lambda row: row.place)
    said = sorted({(row.at_ms, row.reason) for row in rows if row.fate == SET_LIMITS and row.reason})
    for partition in sorted({row.partition for row in rows}):
        mine = [row for row in rows if row.partition == partition]
        waits = _waits(node, mine, said, log.wanted, found)
        _note_waits(node, partition, mine, waits, log.last_ms, found)
    found.rows.sort(key=lambda row: (row["__sequence"], row["__partition"]))  # stable
    return found


def _waits(
    node: Suppressed,
    rows: Sequence[Row],
    limit_entries: Sequence[tuple[int, str]],
    wanted: Callable[[Identity], bool],
    results: Results,
) -> list[tuple[Entry, WallWait]]:
    """All waits of a partition, in the order of their openings."""
    everything: list[tuple[Entry, WallWait]] = []
    newest: dict[Entry, WallWait] = {}
    worth: dict[Entry, Any] = {}
    limits = first_limits(node)
    waiting = [*limit_entries]
    for row in rows:
        while waiting and waiting[0][0] <= row.at_ms:
            asked = limits_of_entry(node, waiting.pop(0)[1])
            if asked is not None and can_have(node, limits, asked):
                limits |= asked
        fate, entries = updates_of(node, row)
        results.met(row, fate)
        for key, start in entries:
            entry = (key, start)
            if not wanted(key):
                continue
            event_ms = updated(node, worth, entry, row)
            wait = newest.get(entry)
            if wait is None or row.at_ms >= wait.due_ms:
                wait = newest[entry] = WallWait(row.at_ms, row.at_ms + (limits["limit_ms"] or 0))
                everything.append((entry, wait))
            wait.rows.append(row)
            wait.worth, wait.event_ms = value_of(node, entry, worth[entry]), event_ms
    return everything


def _note_waits(
    node: Suppressed,
    partition: int,
    rows: Sequence[Row],
    waits: Sequence[tuple[Entry, WallWait]],
    last_ms: int,
    results: Results,
) -> None:
    """Note the rows that have left, the records that have not, and how much waited after each log commit."""
    for _, wait in sorted(waits, key=lambda each: each[1].due_ms):
        first = wait.rows[0]
        if wait.due_ms > last_ms:
            for row in wait.rows:
                results.fates[row.topic, row.partition, row.offset or 0] = OPEN
            continue
        left = {"__sequence": wait.due_ms, "__partition": partition, "__offset": None, "__sub": 0}
        opened = {"__opened_ms": wait.opened_ms, "__opened_offset": first.offset}
        own = {"__topic": first.topic, "__early": False, "__timestamp": wait.event_ms}
        results.rows.append({**wait.worth, **left, **opened, **own})
    for at_ms in {row.at_ms for row in rows} | {w.due_ms for _, w in waits if w.due_ms <= last_ms}:
        there = [wait for _, wait in waits if wait.opened_ms <= at_ms < wait.due_ms]
        last = [next(row for row in reversed(wait.rows) if row.at_ms <= at_ms) for wait in there]
        results.waiting[partition, at_ms] = len(there), sum(row.size_bytes for row in last)
