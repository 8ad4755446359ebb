"""Waits where the oldest leave early: one pass over a partition's rows in the log's order, in plain Python.

Which entries leave depends on all entries of a partition together, so no other order is possible.

Law: after each row is put in, due entries leave. Then the oldest entries (by timestamp, then by entry) leave until the bound
in force at the row holds. A row that sets limits counts as such a row. A due entry is older than one that is not due, so the
entry that leaves is always the oldest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

NO_ENTRY = -1  # of a tick, or of a row that sets limits
Row = tuple[int, int, int, int, int]  # expiry time after it, number of its bound, entry, timestamp, bytes
Left = tuple[
    int, int, int, bool
]  # entry, the row that opened the wait, the row that ended it, whether a bound did


@dataclass
class Waiting:
    """The waiting entries of one partition. Entries are numbers, which compare as their bytes do.

    queue   timestamp and entry of each wait, the oldest first
    opened  for each waiting entry the row that opened the wait, and the bytes of the last update
    """

    queue: list[tuple[int, int]] = field(default_factory=list)
    opened: dict[int, tuple[int, int]] = field(default_factory=dict)
    size_bytes: int = 0

    def put(self, entry: int, stamp_ms: int, opener: int, size_bytes: int) -> None:
        """Put an open wait among the others."""
        heappush(self.queue, (stamp_ms, entry))
        self.opened[entry] = (opener, size_bytes)
        self.size_bytes += size_bytes


def leave_early(
    waiting: Waiting, rows: Iterable[Row], first: int, bounds: Sequence[tuple[int, int]]
) -> tuple[list[int], list[Left]]:
    """Pass over the rows of one partition; `waiting` is changed.

    In:  first   the number of the first row; the others follow
         bounds  how many records and bytes may wait, by number
    Out: for each update the row that opened its wait; and the waits that ended, in their order
    """
    queue, opened, total = waiting.queue, waiting.opened, waiting.size_bytes
    openers: list[int] = []
    left: list[Left] = []
    for number, (after_ms, bound, entry, stamp_ms, size) in enumerate(rows, first):
        if entry != NO_ENTRY:
            known = opened.get(entry)
            if known is None:
                heappush(queue, (stamp_ms, entry))
                known = (number, 0)
            total += size - known[1]
            opened[entry] = (known[0], size)
            openers.append(known[0])
        records_max, bytes_max = bounds[bound]
        while queue and ((due := queue[0][0] <= after_ms) or len(queue) > records_max or total > bytes_max):
            _, oldest = heappop(queue)
            opener, its_size = opened.pop(oldest)
            total -= its_size
            left.append((oldest, opener, number, not due))
    waiting.size_bytes = total
    return openers, left
