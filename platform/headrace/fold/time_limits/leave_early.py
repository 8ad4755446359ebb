"""Waits where the oldest leave early: one pass over a partition's rows in the log's order, in plain Python.

What leaves depends on all entries of a partition together, so no other order will do.

Law: after each row, put first, what is due leaves, then the oldest (by timestamp, then by the entry's bytes) until the bound
in force at the row holds; a row that sets limits is such a row. What is due is older than what is not, so whatever leaves is
always the oldest.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

Entry = tuple[bytes, int]  # the group's canonical bytes, and the start of the window (0: no window)


@dataclass(frozen=True)
class Row:
    """A row of a partition; a tick, or a row that sets limits, has no entry.

    number                  of the row; what leaves is named by it
    after_ms                the expiry time after it
    stamp_ms                timestamp of the update
    size_bytes              of its raw key and value
    max_records, max_bytes  the bound in force
    """

    number: int
    after_ms: int
    max_records: int | None
    max_bytes: int | None
    entry: Entry | None = None
    stamp_ms: int = 0
    size_bytes: int = 0


@dataclass(frozen=True)
class Left:
    """A wait that ended: its entry, the row that ended it, and whether a bound did that."""

    entry: Entry
    opener: int
    number: int
    early: bool


@dataclass
class Waiting:
    """What waits in one partition.

    queue    the oldest first
    opened   of each entry that waits: timestamp, the row that opened the wait, size of the last update
    """

    queue: list[tuple[int, Entry]] = field(default_factory=list)
    opened: dict[Entry, tuple[int, int, int]] = field(default_factory=dict)
    size_bytes: int = 0

    def put(self, entry: Entry, stamp_ms: int, opener: int, size_bytes: int) -> int:
        """Put an update into the wait of its entry, or open one. Out: the row that opened it."""
        known = self.opened.get(entry)
        if known is None:
            heapq.heappush(self.queue, (stamp_ms, entry))
        else:
            stamp_ms, opener, earlier = known
            self.size_bytes -= earlier
        self.opened[entry] = (stamp_ms, opener, size_bytes)
        self.size_bytes += size_bytes
        return opener

    def leave(self) -> tuple[Entry, int]:
        """Take out the oldest. Out: its entry and the row that opened its wait."""
        _, entry = heapq.heappop(self.queue)
        _, opener, size_bytes = self.opened.pop(entry)
        self.size_bytes -= size_bytes
        return entry, opener


def leave_early(waiting: Waiting, rows: Iterable[Row]) -> tuple[list[int], list[Left]]:
    """Pass over the rows of one partition; `waiting` is changed.

    Out: for each update the number of the row that opened its wait; and the waits that ended, in their order
    """
    openers: list[int] = []
    left: list[Left] = []
    for row in rows:
        if row.entry is not None:
            openers.append(waiting.put(row.entry, row.stamp_ms, row.number, row.size_bytes))
        while waiting.queue and waiting.queue[0][0] <= row.after_ms:
            left.append(Left(*waiting.leave(), row.number, early=False))
        while _too_full(waiting, row):
            left.append(Left(*waiting.leave(), row.number, early=True))
    return openers, left


def _too_full(waiting: Waiting, row: Row) -> bool:
    records, size = row.max_records, row.max_bytes
    return (records is not None and len(waiting.queue) > records) or (
        size is not None and waiting.size_bytes > size
    )
