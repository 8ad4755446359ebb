"""The sequencer once more, in plain Python, record by record: each arrival's offset and stream time.

Nothing here is shared with the engine. Times are in ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

UNDATED = ("undated", "bare")


@dataclass(frozen=True)
class Arrival:
    """A record as it is delivered; `kind` is record, tombstone, dead_letter (it cannot be decoded), or another fate.

    Of UNDATED kinds `ts` does not count: their event time is their row's stream time. Both have no value; a `bare` one comes
    among Debezium's changes.
    """

    partition: int
    key: str | None
    ts: int
    value: float | Decimal | int | None = None
    kind: str = "record"


@dataclass(frozen=True)
class Commit:
    """The wall clock, what the log then takes in, and after it the ticks that are due."""

    now: int
    arrivals: Sequence[Arrival] = ()


@dataclass
class Log:
    """Each arrival with its offset and stream time (None: none yet), and that before it; where each partition's stands.

    ingested  commit time of each arrival; ticks: commit time, partition and stream time of each
    clocks    the commit time of each log commit, and where each partition's stream time stands after it
    """

    rows: list[tuple[Arrival, int, int | None]] = field(default_factory=list)
    before: list[int | None] = field(default_factory=list)
    stream: dict[int, int] = field(default_factory=dict)
    ingested: list[int] = field(default_factory=list)
    ticks: list[tuple[int, int, int]] = field(default_factory=list)
    clocks: list[tuple[int, dict[int, int]]] = field(default_factory=list)


def sequence(commits: Iterable[Commit], idle_timeout: int | None, longest_wait: int) -> Log:
    """Stream time is the highest event time so far in the partition; dead letters, replays and UNDATED ones do not count.

    A partition's first event time starts at the lowest stream time at the end of the previous commit. After each commit
    every partition that has been silent for `idle_timeout` ticks: up to the lowest busy one or, if all are idle, on by the
    time since its last row. Ticks end when the lowest stream time is `longest_wait` beyond the highest that an arrival had.
    """
    log, offsets, highest, at = Log(), Counter[int](), 0, 0
    last_arrival: dict[int, int] = {}
    last_row: dict[int, int] = {}
    for commit in commits:
        lowest = min(log.stream.values(), default=None)
        at = max(commit.now, at + 1) if commit.arrivals else at
        for arrival in commit.arrivals:
            p = arrival.partition
            log.before.append(log.stream.get(p))
            if arrival.kind not in ("dead_letter", "replay", *UNDATED):
                log.stream[p] = max(t for t in (arrival.ts, log.stream.get(p, lowest)) if t is not None)
            log.rows.append((arrival, offsets[p], log.stream.get(p)))
            offsets[p] += 1
            last_arrival[p] = last_row[p] = at
            log.ingested.append(at)
            highest = max(highest, log.stream.get(p, 0))
        if commit.arrivals:
            log.clocks.append((at, dict(log.stream)))
        if idle_timeout is None or not log.stream or min(log.stream.values()) >= highest + longest_wait:
            continue
        tick_at = max(commit.now, at + 1)
        idle = [p for p in log.stream if tick_at - last_arrival[p] >= idle_timeout]
        busy = [ms for p, ms in log.stream.items() if p not in idle]
        due = {p: min(busy) if busy else log.stream[p] + tick_at - last_row[p] for p in idle}
        for p, ms in due.items():
            if ms > log.stream[p]:
                log.stream[p], last_row[p], at = ms, tick_at, tick_at
                log.ticks.append((at, p, ms))
        if log.ticks and log.ticks[-1][0] == tick_at:
            log.clocks.append((at, dict(log.stream)))
    return log
