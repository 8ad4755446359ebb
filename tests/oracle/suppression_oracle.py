"""Suppression by a time limit once more, in plain Python, update by update: what a partition's updates have to lead to.

Nothing here is shared with the engine. Times are in ms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Entry = tuple[bytes, int]  # the key's bytes and the window's start (0: no window)


@dataclass(frozen=True)
class Update:
    """What reaches the suppressor at a place of the log; a tick has no `entry` and only moves the time.

    `limits` are new ones, by name: such a row moves nothing, but what they let go leaves at it.
    """

    at: tuple[int, int]
    ts: int | None
    entry: Entry | None = None
    value: Any = None
    size: int = 0
    limits: Mapping[str, int | None] | None = None


@dataclass(frozen=True)
class Emission:
    """A row that left, the place of the record that made it leave, and whether a bound did."""

    at: tuple[int, int]
    entry: Entry
    ts: int | None
    value: Any
    early: bool


@dataclass
class Suppressor:
    """One partition's buffer: `opened` says when each wait began, `latest` what it holds, `records` which records wait.

    Waits opened at or before `expiry` are over: the highest that time less the limit has been.
    """

    limit: int
    max_records: int | None = None
    max_bytes: int | None = None
    time: int | None = None
    expiry: int | None = None
    opened: dict[Entry, int] = field(default_factory=dict)
    latest: dict[Entry, Update] = field(default_factory=dict)
    records: dict[Entry, set[int]] = field(default_factory=lambda: defaultdict(set))

    def put(self, update: Update) -> Iterator[Emission]:
        """The record that moves the time is put first; then what is due leaves, then what does not fit, oldest first."""
        if update.limits is not None and self._can_have(update.limits):
            for name, value in update.limits.items():
                setattr(self, {"limit_ms": "limit"}.get(name, name), value)
        if update.ts is not None:
            self.time = update.ts if self.time is None else max(self.time, update.ts)
        if self.time is not None:
            now = self.time - self.limit
            self.expiry = now if self.expiry is None else max(self.expiry, now)
        if update.entry is not None:
            assert update.ts is not None
            self.opened.setdefault(update.entry, update.ts)
            self.latest[update.entry] = update
            self.records[update.entry].add(update.at[0])
        while self.opened and self.expiry is not None and self._oldest()[0] <= self.expiry:
            yield self._leave(update.at, early=False)
        while self._too_full():
            yield self._leave(update.at, early=True)

    def _can_have(self, limits: Mapping[str, int | None]) -> bool:
        """Limits that it cannot have alter nothing: a negative one, or any bound where none is described, or none at all."""
        bounds = {"max_records": self.max_records, "max_bytes": self.max_bytes}
        named = {name: value for name, value in limits.items() if name in bounds}
        if "limit_ms" in limits and (limits["limit_ms"] is None or limits["limit_ms"] < 0):
            return False
        if any(value is not None and value < 1 for value in named.values()):
            return False
        bounded = any(value is not None for value in bounds.values())
        return not named or (bounded and any(value is not None for value in {**bounds, **named}.values()))

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
