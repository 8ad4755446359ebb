"""Batches once more, in plain Python, record by record: the batches that a log has to lead to.

Nothing here is shared with the engine. Times are in ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Record:
    """A record as it is delivered; `kind` is record, tombstone or dead_letter; `size` that of raw key and value."""

    partition: int
    key: str | None
    value: Any
    size: int
    kind: str = "record"


@dataclass(frozen=True)
class Moment:
    """The wall clock, what the log then takes in, the tick that is due, and after it the drain, if there is one."""

    now: int
    arrivals: Sequence[Record] = ()
    drain: bool = False


@dataclass
class Log:
    """Commits in order: commit time and its records with their offsets; None instead of records: a drain, or a tick."""

    commits: list[tuple[int, list[tuple[Record, int]] | None, bool]] = field(default_factory=list)

    @property
    def frontier(self) -> int:
        return self.commits[-1][0] if self.commits else 0


def sequence(moments: Iterable[Moment], waits: Collection[int]) -> Log:
    """A tick is due when a commit with records plus a wait lies after the last commit and not after now."""
    log, offsets = Log(), Counter[int]()
    for moment in moments:
        if moment.arrivals:
            rows = []
            for record in moment.arrivals:
                rows.append((record, offsets[record.partition]))
                offsets[record.partition] += 1
            rows.sort(key=lambda row: (row[0].partition, row[1]))
            log.commits.append((max(moment.now, log.frontier + 1), rows, False))
        opened = [at for at, rows, _ in log.commits if rows]
        if any(log.frontier < at + wait <= moment.now for at in opened for wait in waits):
            log.commits.append((moment.now, None, False))
        if moment.drain and log.commits:
            log.commits.append((max(moment.now, log.frontier + 1), None, True))
    return log


@dataclass
class Batch:
    key: str
    opened: int
    partition: int
    offset: int
    values: list[Any] = field(default_factory=list)
    counts: Counter[int] = field(default_factory=Counter)
    bytes: int = 0
    closed: int | None = None
    closed_by: str | None = None


@dataclass
class Batches:
    """Batches in the order of their closing, then those still open; `fates` by partition and fate."""

    closed: list[Batch] = field(default_factory=list)
    open: dict[str, Batch] = field(default_factory=dict)
    fates: Counter[tuple[int, str]] = field(default_factory=Counter)


def batches(
    log: Log,
    group: Callable[[Record], str | None],
    keep: Callable[[Record], bool],
    max_records: int | None,
    max_wait: int | None,
    max_bytes: int | None,
) -> Batches:
    """Deadlines reached by a commit close first; then its drain, or its records one by one."""
    found = Batches()

    def close(batch: Batch, at: int, why: str) -> None:
        batch.closed, batch.closed_by = at, why
        found.closed.append(found.open.pop(batch.key))

    for at, rows, drained in log.commits:
        for batch in list(found.open.values()):
            if max_wait is not None and batch.opened + max_wait <= at:
                close(batch, batch.opened + max_wait, "wait")
            elif drained:
                close(batch, at, "drain")
        for record, offset in rows or ():
            if record.kind != "record" or not keep(record):
                fate = "filtered" if record.kind == "record" else record.kind
                found.fates[record.partition, fate] += 1
                continue
            key = group(record)
            if key is None:
                found.fates[record.partition, "dead_letter"] += 1
                continue
            if (
                key in found.open
                and max_bytes is not None
                and found.open[key].bytes + record.size > max_bytes
            ):
                close(found.open[key], at, "bytes")
            batch = found.open.setdefault(key, Batch(key, at, record.partition, offset))
            batch.values.append(record.value)
            batch.counts[record.partition] += 1
            batch.bytes += record.size
            if len(batch.values) == max_records:
                close(batch, at, "count")
            elif max_bytes is not None and batch.bytes >= max_bytes:
                close(batch, at, "bytes")
    for fate, some in (("used", found.closed), ("open", found.open.values())):
        for batch in some:
            for partition, records in batch.counts.items():
                found.fates[partition, fate] += records
    found.closed.sort(key=lambda b: (b.closed or 0, b.opened, b.partition, b.offset))
    return found
