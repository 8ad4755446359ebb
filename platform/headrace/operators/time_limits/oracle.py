"""Suppression by a time limit, update by update; each partition by itself.

Law: a record is put first; then what is due leaves, then what does not fit, the oldest first. An entry (a key; with windows
a key and a window) waits from its first update until the partition's time, less the limit, has reached that update's
timestamp. The partition's time is the highest stream time of its rows, or timestamp of its updates. Limits that are set are
in force from their row on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import groupby
from typing import TYPE_CHECKING, Any

from headrace.description.clocks import WALL
from headrace.description.suppression import EMIT_EARLY
from headrace.operators.time_limits.oracle_updates import (
    Entry,
    can_have,
    first_limits,
    limits_of_entry,
    updated,
    updates_of,
    value_of,
)
from headrace.operators.time_limits.oracle_wall import wall_limit
from headrace.oracle.fates import OPEN, SET_LIMITS, TICK
from headrace.oracle.log import Log, Results, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.description import Suppressed
    from headrace.oracle.values import Identity


@dataclass
class Wait:
    """An entry that waits: the update that opened it, the last one, and the records that it holds."""

    opened_ms: int
    opened_offset: int | None
    event_ms: int = 0
    size_bytes: int = 0
    records: set[int] = field(default_factory=set)


@dataclass
class Buffer:
    """The entries that wait in one partition.

    limits     in force: `limit_ms` and the bounds
    time_ms    the partition's time; was_ms: that before the row at hand
    expiry_ms  the highest that the time less the limit has been
    worth      of each entry what it is worth: the totals of its records, or its last record
    """

    limits: dict[str, int | None]
    time_ms: int | None = None
    was_ms: int | None = None
    expiry_ms: int | None = None
    queue: list[tuple[int, Entry]] = field(default_factory=list)
    waits: dict[Entry, Wait] = field(default_factory=dict)
    worth: dict[Entry, Any] = field(default_factory=dict)
    size_bytes: int = 0

    def move(self, ms: int | None) -> None:
        """A row has this stream time, or an update this timestamp; None: it has none."""
        if ms is not None:
            self.time_ms = ms if self.time_ms is None else max(self.time_ms, ms)
        if self.time_ms is not None:
            now = self.time_ms - (self.limits["limit_ms"] or 0)
            self.expiry_ms = now if self.expiry_ms is None else max(self.expiry_ms, now)

    def put(self, entry: Entry, row: Row, event_ms: int) -> None:
        """An update of an entry."""
        if entry not in self.waits:
            self.waits[entry] = Wait(event_ms, row.offset)
            heappush(self.queue, (event_ms, entry))
        wait = self.waits[entry]
        self.size_bytes += row.size_bytes - wait.size_bytes
        wait.event_ms, wait.size_bytes = event_ms, row.size_bytes
        wait.records.add(row.offset or 0)

    def leaving(self, *, early: bool) -> Iterator[tuple[Entry, Wait, bool]]:
        """The entries that leave now, in order, and whether a bound lets it. In: early  whether bounds do so."""
        while self.queue and self.expiry_ms is not None and self.queue[0][0] <= self.expiry_ms:
            yield (*self._leave(), False)
        while early and self._is_full():
            yield (*self._leave(), True)

    def clock_ms(self, wait: Wait, row: Row, *, early: bool) -> int | None:
        """The clock of a row that leaves (L32): the end of its wait, as far as the log has not been beyond it before."""
        assert self.time_ms is not None
        if early:
            return self.time_ms
        if wait.opened_offset == row.offset:
            return row.stream_ms
        over_ms = wait.opened_ms + (self.limits["limit_ms"] or 0)
        return over_ms if self.was_ms is None else max(over_ms, self.was_ms)

    def _is_full(self) -> bool:
        records, size = self.limits["max_records"], self.limits["max_bytes"]
        return (records is not None and len(self.waits) > records) or (
            size is not None and self.size_bytes > size
        )

    def _leave(self) -> tuple[Entry, Wait]:
        _, entry = heappop(self.queue)
        wait = self.waits.pop(entry)
        self.size_bytes -= wait.size_bytes
        return entry, wait


def results(node: Suppressed, log: Log) -> Results:
    """The rows that have left, in the order in which sinks get them.

    Rows are made for `log.wanted` alone. The records of other keys move the time, and fill what is bounded.
    """
    if node.clock == WALL:
        return wall_limit(node, log)
    found = Results()
    everything = [*log.rows]
    said = sorted({(row.at_ms, row.reason) for row in everything if row.fate == SET_LIMITS and row.reason})
    by_partition = sorted(everything, key=lambda row: (row.topic, row.partition, row.place))
    for place, rows in groupby(by_partition, key=lambda row: (row.topic, row.partition)):
        _partition(node, place, [*rows], said, log.wanted, found)
    found.rows.sort(key=lambda row: (row["__sequence"], row["__partition"]))  # stable
    return found


def _partition(
    node: Suppressed,
    place: tuple[str, int],
    rows: list[Row],
    entries: list[tuple[int, str]],
    wanted: Callable[[Identity], bool],
    results: Results,
) -> None:
    topic, partition = place
    early = node.policy.bound.when_full == EMIT_EARLY
    buffer = Buffer(first_limits(node))
    waiting = iter(entries)
    following = next(waiting, None)

    def leave(row: Row, sub: int) -> None:
        for entry, wait, by_bound in buffer.leaving(early=early):
            shown = value_of(node, entry, buffer.worth[entry])
            place = {"__sequence": row.at_ms, "__partition": partition, "__offset": row.offset, "__sub": sub}
            opened = {"__opened_ms": wait.opened_ms, "__opened_offset": wait.opened_offset}
            clock_ms = buffer.clock_ms(wait, row, early=by_bound)
            own = {
                "__topic": topic,
                "__early": by_bound,
                "__timestamp": wait.event_ms,
                "__clock_ms": clock_ms,
            }
            if wanted(entry[0]):
                results.rows.append({**shown, **place, **opened, **own})

    for row in rows:
        while following is not None and following[0] <= row.at_ms:
            _set(node, buffer, following[1])  # limits are in force in partitions to come, too
            following = next(waiting, None)
        buffer.was_ms = buffer.time_ms
        fate, updates = updates_of(node, row)
        results.met(row, fate)
        if not updates and (row.offset is not None or row.fate in (TICK, SET_LIMITS)):
            buffer.move(row.stream_ms)
            leave(row, 0)
        for key, start in updates:
            entry = (key, start)
            event_ms = updated(node, buffer.worth, entry, row, keep=early or wanted(key))
            buffer.move(event_ms if row.stream_ms is None else max(event_ms, row.stream_ms))
            if early or wanted(key):
                buffer.put(entry, row, event_ms)
            leave(row, start)
        results.waiting[partition, row.at_ms] = len(buffer.waits), buffer.size_bytes
    for wait in buffer.waits.values():
        for offset in wait.records:
            results.fates[topic, partition, offset] = OPEN


def _set(node: Suppressed, buffer: Buffer, entry: str) -> None:
    """Put limits in force, unless they are another node's or ones that this node cannot have."""
    asked = limits_of_entry(node, entry)
    if asked is not None and can_have(node, buffer.limits, asked):
        buffer.limits |= asked
