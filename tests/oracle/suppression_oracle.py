"""Suppression by a time limit once more, in plain Python, update by update: what a partition's updates have to lead to.

Nothing here is shared with the engine. Times are in ms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Entry = tuple[bytes, int]  # the key's bytes and the window's start (0: no window)


@dataclass(frozen=True)
class Update:
    """What reaches the suppressor at a place of the log; a tick has no `entry` and only moves the time."""

    at: tuple[int, int]
    ts: int
    entry: Entry | None = None
    value: Any = None
    size: int = 0


@dataclass(frozen=True)
class Emission:
    """A row that left, the place of the record that made it leave, and whether a bound did."""

    at: tuple[int, int]
    entry: Entry
    ts: int
    value: Any
    early: bool


@dataclass
class Suppressor:
    """One partition's buffer: `opened` says when each wait began, `latest` what it holds, `records` which records wait."""

    limit: int
    max_records: int | None = None
    max_bytes: int | None = None
    time: int = -1
    opened: dict[Entry, int] = field(default_factory=dict)
    latest: dict[Entry, Update] = field(default_factory=dict)
    records: dict[Entry, set[int]] = field(default_factory=lambda: defaultdict(set))

    def put(self, update: Update) -> Iterator[Emission]:
        """The record that moves the time is put first; then what is due leaves, then what does not fit, oldest first."""
        self.time = max(self.time, update.ts)
        if update.entry is not None:
            self.opened.setdefault(update.entry, update.ts)
            self.latest[update.entry] = update
            self.records[update.entry].add(update.at[0])
        while self.opened and self._oldest()[0] + self.limit <= self.time:
            yield self._leave(update.at, early=False)
        while self._too_full():
            yield self._leave(update.at, early=True)

    def _oldest(self) -> tuple[int, Entry]:
        return min((ts, entry) for entry, ts in self.opened.items())

    def _too_full(self) -> bool:
        size = sum(update.size for update in self.latest.values())
        records, most = self.max_records, self.max_bytes
        return (records is not None and len(self.latest) > records) or (most is not None and size > most)

    def _leave(self, at: tuple[int, int], *, early: bool) -> Emission:
        _, entry = self._oldest()
        del self.opened[entry], self.records[entry]
        update = self.latest.pop(entry)
        return Emission(at, entry, update.ts, update.value, early)

    @property
    def waiting(self) -> int:
        """How many records wait, in one window at least."""
        return len(set[int]().union(*self.records.values()))


def emissions(updates: Iterable[Update], suppressor: Suppressor) -> list[Emission]:
    """Everything that leaves, in order."""
    return [emission for update in updates for emission in suppressor.put(update)]
