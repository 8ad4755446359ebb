"""Logs of several topics that fall silent, come back, begin late or never, or have a clock that is ahead.

One history is a sequence of rows with their stream times, as sequencers write them. It can be committed in several ways: rows
keep their stream times and their order, and commits are put together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa

from headrace.fold.contract import ROW_COLUMNS
from headrace.oracle.reader_time import commits_of, times_of_reader
from tests.laws.kernel.chained import TopicLog

SECOND = 1_000
START_MS = 1_700_000_000_000
DAY_MS = 86_400 * SECOND
IDLE_TIMEOUT_MS = 6 * SECOND
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64()), *ROW_COLUMNS])
Row = dict[str, Any]


@dataclass
class Sequenced:
    """The log of one topic while it is written."""

    topic: str
    ahead_ms: int
    partitions: int
    stream_ms: dict[int, int] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    record_ms: int = START_MS
    row_ms: int = START_MS
    idle: bool = False

    def records(self, random: Random, now_ms: int) -> list[Row]:
        """A commit of records: near the wall clock, some of them old."""
        rows, start_ms = [], min(self.stream_ms.values(), default=None)
        for _ in range(random.randrange(1, 4)):
            partition = random.randrange(self.partitions)
            behind_ms = random.choice((0, 0, 1, 2, 5, 9, 20)) * SECOND + random.choice((0, 0, 500))
            event_ms = max(0, now_ms - behind_ms + self.ahead_ms)
            before_ms = self.stream_ms.get(partition, start_ms)
            self.stream_ms[partition] = max(event_ms, before_ms or 0)
            offset = self.offsets.get(partition, 0)
            self.offsets[partition] = offset + 1
            values = {"key": random.choice((*"ababab", None)), "value": random.randrange(1, 9)}
            rows.append(
                self._row(partition, self.stream_ms[partition], offset=offset, event=event_ms) | values
            )
        self.record_ms = self.row_ms = now_ms
        self.idle = False
        return rows

    def silence(self, now_ms: int) -> list[Row]:
        """The rows that silence asks for: ticks, and once that the topic is idle."""
        if now_ms - self.record_ms < IDLE_TIMEOUT_MS:
            return []
        rows = []
        for partition in sorted(self.stream_ms):
            self.stream_ms[partition] += now_ms - self.row_ms
            rows.append(self._row(partition, self.stream_ms[partition], fate="tick"))
        if not self.idle:
            rows.append(self._row(0, self.stream_ms.get(0), fate="idle"))
        self.idle, self.row_ms = True, now_ms
        return rows

    def _row(
        self,
        partition: int,
        stream_ms: int | None,
        *,
        offset: int | None = None,
        event: int | None = None,
        fate: str | None = None,
    ) -> Row:
        return {
            "__topic": self.topic,
            "__partition": partition,
            "__offset": offset,
            "__event_ms": event,
            "__stream_ms": stream_ms,
            "__size_bytes": 8,
            "__fate": fate,
        }


@dataclass(frozen=True)
class History:
    """Commits of single topics, in their order; each row has its commit time."""

    topics: Sequence[str]
    commits: Sequence[Sequence[Row]]


def history(seed: int, topics: Sequence[str]) -> History:
    """A random history; one topic at most has a clock that is a day ahead, and one at most has no record."""
    random = Random(seed)
    odd, empty = random.choice([*topics, None]), random.choice([*topics, None, None])
    logs = [
        Sequenced(name, DAY_MS if name == odd and random.random() < 0.5 else 0, random.randrange(1, 3))
        for name in topics
    ]
    now_ms, commits = START_MS, list[list[Row]]()
    for _ in range(random.randrange(6, 16)):
        now_ms += random.choice((1, 500, SECOND, 2 * SECOND, 7 * SECOND, 15 * SECOND))
        for log in logs:
            comes = log.topic != empty and random.random() < 0.5
            rows = log.records(random, now_ms) if comes else log.silence(now_ms)
            if random.random() < 0.05:
                log.partitions += 1
            if rows:
                commits.append([row | {"__ingested_ms": now_ms} for row in rows])
                now_ms += 1
    return History(topics, commits)


def regrouped(of: History, seed: int, driving: Sequence[str]) -> History:
    """The same rows in the same order, with the same stream times also for a node, in fewer commits."""
    random, commits = Random(seed), [list(rows) for rows in of.commits]
    place = 0
    while place + 1 < len(commits):
        if random.random() < 0.6:
            at_ms = commits[place + 1][0]["__ingested_ms"]
            together = [row | {"__ingested_ms": at_ms} for row in (*commits[place], *commits[place + 1])]
            fewer = [*commits[:place], together, *commits[place + 2 :]]
            if _in_order(together) and _dated(fewer, driving) == _dated(commits, driving):
                commits = fewer
                continue
        place += 1
    return replace(of, commits=commits)


def logs_of(of: History) -> dict[str, TopicLog]:
    """The log of each topic."""
    found = {}
    for topic in of.topics:
        rows = [row for commit in of.commits for row in commit if row["__topic"] == topic]
        clocks = [(each.at_ms, dict(each.stream_ms)) for each in commits_of([rows])]
        found[topic] = TopicLog(pa.Table.from_pylist(rows, SCHEMA), clocks)
    return found


def _in_order(rows: Sequence[Row]) -> bool:
    """Whether a sequencer writes such rows with one commit.

    Records stand in the order of all logs, none of them before or after a row without an offset of their topic; a partition has
    one tick.
    """
    places = [
        (row["__topic"], row["__partition"], 1 << 62 if row["__offset"] is None else row["__offset"])
        for row in rows
        if row["__offset"] is not None
    ]
    decided = {row["__topic"] for row in rows if row["__offset"] is None}
    ticks = [(row["__topic"], row["__partition"]) for row in rows if row["__fate"] == "tick"]
    in_order = places == sorted(places) and decided.isdisjoint(place[0] for place in places)
    return in_order and len(ticks) == len({*ticks})


def _dated(commits: Sequence[Sequence[Row]], driving: Sequence[str]) -> list[Any]:
    """The stream time of each record for the node, and L at the end."""
    every = [row for commit in commits for row in commit]
    lowest: dict[int, int | None] = {}
    before_ms: int | None = None
    for at_ms, times in times_of_reader(commits_of([every]), frozenset(driving)):
        lowest[at_ms], before_ms = before_ms, times.lowest_ms
    found: list[Any] = []
    for at_ms, together in groupby(every, key=lambda row: row["__ingested_ms"]):
        floor = lowest[at_ms]
        found += [
            max(row["__stream_ms"], row["__stream_ms"] if floor is None else floor)
            for row in together
            if row["__offset"] is not None
        ]
    return [*found, before_ms]


def features(of: History) -> Mapping[str, bool]:
    """What a history has of what matters."""
    rows = [row for commit in of.commits for row in commit]
    topics = {row["__topic"] for row in rows if row["__offset"] is not None}
    partitions = {(row["__topic"], row["__partition"]) for row in rows if row["__offset"] is not None}
    return {
        "an idle topic": any(row["__fate"] == "idle" for row in rows),
        "an empty topic": len(topics) < len(of.topics),
        "a clock ahead": any((row["__event_ms"] or 0) > row["__ingested_ms"] + DAY_MS // 2 for row in rows),
        "several partitions": len(partitions) > len(topics),
    }
