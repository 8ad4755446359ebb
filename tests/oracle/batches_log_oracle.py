"""The logs that batches are made of once more, in plain Python: when each is committed, with what, and its ticks and drains.

Nothing here is shared with the engine. Times are in ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
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
