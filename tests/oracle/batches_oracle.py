"""Batches once more, in plain Python, record by record: the batches that a log has to lead to.

Nothing here is shared with the engine. Times are in ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    topic: str = "visits"


@dataclass(frozen=True)
class Moment:
    """The wall clock, what the logs then take in, the ticks that are due, and after them the drain, if there is one."""

    now: int
    arrivals: Sequence[Record] = ()
    drain: bool = False


@dataclass
class Log:
    """Commits in order: commit time, its records with their offsets (None: a drain, or a tick), whether it is a drain."""

    commits: list[tuple[int, list[tuple[Record, int]] | None, bool]] = field(default_factory=list)

    @property
    def frontier(self) -> int:
        return self.commits[-1][0] if self.commits else 0


def sequence(moments: Iterable[Moment], waits: Mapping[str, Collection[int]]) -> dict[str, Log]:
    """The log of each topic. Of topics that are read in one order, none commits at or before what others had committed
    when the moment before was over, or when its drain began.

    A tick is due when a commit with records plus a wait lies after the log's last commit and not after now.
    """
    logs, offsets, promised = {topic: Log() for topic in waits}, Counter[tuple[str, int]](), 0
    for moment in moments:
        now = moment.now
        for topic, log in logs.items():
            rows = []
            for record in moment.arrivals:
                if record.topic == topic:
                    rows.append((record, offsets[topic, record.partition]))
                    offsets[topic, record.partition] += 1
            if rows:
                rows.sort(key=lambda row: (row[0].partition, row[1]))
                log.commits.append((max(now, log.frontier + 1, promised + 1), rows, False))
        for topic, log in logs.items():
            opened = [at for at, rows_then, _ in log.commits if rows_then]
            if any(log.frontier < at + wait <= now for at in opened for wait in waits[topic]):
                log.commits.append((max(now, promised + 1), None, False))
        promised = max(log.frontier for log in logs.values())
        if moment.drain:
            for log in logs.values():
                if log.commits:
                    log.commits.append((max(now, promised + 1), None, True))
            promised = max(log.frontier for log in logs.values())
    return logs


def together(logs: Iterable[Log]) -> Log:
    """Several logs in one order: by commit time, then topic, partition and offset; a drain comes behind the records."""
    commits: dict[int, tuple[list[tuple[Record, int]], bool]] = {}
    for log in logs:
        for at, rows, drained in log.commits:
            known, drained_too = commits.get(at, ([], False))
            commits[at] = ([*known, *(rows or ())], drained or drained_too)
    for rows, _ in commits.values():
        rows.sort(key=lambda row: (row[0].topic, row[0].partition, row[1]))
    return Log([(at, *commits[at]) for at in sorted(commits)])


@dataclass
class Batch:
    key: str
    opened: int
    topic: str
    partition: int
    offset: int
    values: list[Any] = field(default_factory=list)
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    bytes: int = 0
    closed: int | None = None
    closed_by: str | None = None


@dataclass
class Batches:
    """Batches in the order of their closing, then those still open; `fates` by topic, partition and fate."""

    closed: list[Batch] = field(default_factory=list)
    open: dict[str, Batch] = field(default_factory=dict)
    fates: Counter[tuple[str, int, str]] = field(default_factory=Counter)


def batches(
    log: Log,
    group: Callable[[Record], str | None],
    keep: Callable[[Record], bool],
    max_records: int | None,
    max_wait: int | None,
    max_bytes: int | None,
) -> Batches:
    """Deadlines reached by a commit close first; then come its records one by one, then its drain."""
    found = Batches()

    def close(batch: Batch, at: int, why: str) -> None:
        batch.closed, batch.closed_by = at, why
        found.closed.append(found.open.pop(batch.key))

    for at, rows, drained in log.commits:
        for batch in list(found.open.values()):
            if max_wait is not None and batch.opened + max_wait <= at:
                close(batch, batch.opened + max_wait, "wait")
        for record, offset in rows or ():
            if record.kind != "record" or not keep(record):
                fate = "filtered" if record.kind == "record" else record.kind
                found.fates[record.topic, record.partition, fate] += 1
                continue
            key = group(record)
            if key is None:
                found.fates[record.topic, record.partition, "dead_letter"] += 1
                continue
            if (
                key in found.open
                and max_bytes is not None
                and found.open[key].bytes + record.size > max_bytes
            ):
                close(found.open[key], at, "bytes")
            batch = found.open.setdefault(key, Batch(key, at, record.topic, record.partition, offset))
            batch.values.append(record.value)
            batch.counts[record.topic, record.partition] += 1
            batch.bytes += record.size
            if len(batch.values) == max_records:
                close(batch, at, "count")
            elif max_bytes is not None and batch.bytes >= max_bytes:
                close(batch, at, "bytes")
        for batch in list(found.open.values()) if drained else ():
            close(batch, at, "drain")
    for fate, some in (("used", found.closed), ("open", found.open.values())):
        for batch in some:
            for (topic, partition), records in batch.counts.items():
                found.fates[topic, partition, fate] += records
    found.closed.sort(key=lambda b: (b.closed or 0, b.opened, b.topic, b.partition, b.offset))
    return found
