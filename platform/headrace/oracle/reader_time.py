"""The stream time of a reader: how far a node's driving topics have come, each log commit after the other.

Law (L3), once more and from its words: a topic's stream time is the lowest of its partitions that have one. A commit's tick
of a partition says its time; rows of nodes may have clocks beyond that (L32). Without a tick its rows say it. A topic is
idle from an `idle` row on, until a commit has a record of it, or a `busy` row, and no `idle` row. The reader's time L after
a commit of a driving topic is the highest of three: L before; the lowest time of the driving topics, if each has one; and,
if each is idle or has one, the lowest time of those that are not idle, or the highest of all if all are, but no more
than the commit time. Commits of other topics do not move it. A partition of a driving topic counts as at L at least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

Partition = tuple[str, int]  # topic and number
Plain = Mapping[str, Any]
IDLE, BUSY, TICK = "idle", "busy", "tick"


@dataclass(frozen=True)
class Commit:
    """A log commit, of one topic or of several at one time.

    topics     those that have rows in it
    stream_ms  after it of each partition that has one
    idle       the topics that are idle after it
    """

    at_ms: int
    topics: frozenset[str]
    stream_ms: Mapping[Partition, int]
    idle: frozenset[str] = frozenset()


class StreamTimes(dict[Partition, int]):
    """The stream time of each partition that has one, as a node sees them; and the lowest of the node."""

    lowest_ms: int | None = None


def commits_of(feeds: Iterable[Iterable[Plain]]) -> list[Commit]:
    """The commits of logs, as their rows tell them.

    In: feeds  all rows of the logs; a row may come more than once
    """
    rows = sorted((row for feed in feeds for row in feed), key=_time)
    now, idle = dict[Partition, int](), frozenset[str]()
    found = []
    for at_ms, together in groupby(rows, key=_time):
        commit = [*together]
        ticks = {_place(row) for row in commit if row["__fate"] == TICK}
        for row in commit:
            place = _place(row)
            if row["__stream_ms"] is not None and (row["__fate"] == TICK or place not in ticks):
                now[place] = max(row["__stream_ms"], now.get(place, row["__stream_ms"]))
        ends = {row["__topic"] for row in commit if row["__offset"] is not None or row["__fate"] == BUSY}
        begins = {row["__topic"] for row in commit if row["__fate"] == IDLE}
        idle = (idle - ends) | begins
        found.append(Commit(at_ms, frozenset(row["__topic"] for row in commit), dict(now), idle))
    return found


def times_of_reader(commits: Sequence[Commit], driving: frozenset[str]) -> list[tuple[int, StreamTimes]]:
    """After each commit the stream times as a node sees them."""
    lowest_ms: int | None = None
    found = []
    for commit in commits:
        if commit.topics & driving:
            lowest_ms = _moved_on(lowest_ms, commit, driving)
        times = StreamTimes(
            (place, ms if lowest_ms is None or place[0] not in driving else max(ms, lowest_ms))
            for place, ms in commit.stream_ms.items()
        )
        times.lowest_ms = lowest_ms
        found.append((commit.at_ms, times))
    return found


def _moved_on(before_ms: int | None, commit: Commit, driving: frozenset[str]) -> int | None:
    of_topic = {
        topic: min((ms for (name, _), ms in commit.stream_ms.items() if name == topic), default=None)
        for topic in driving
    }
    known = [ms for ms in of_topic.values() if ms is not None]
    candidates = [] if before_ms is None else [before_ms]
    if len(known) == len(driving):
        candidates.append(min(known))
    held = [topic for topic, ms in of_topic.items() if ms is None and topic not in commit.idle]
    if known and not held:
        awake = [ms for topic, ms in of_topic.items() if ms is not None and topic not in commit.idle]
        candidates.append(min(commit.at_ms, min(awake) if awake else max(known)))
    return max(candidates) if candidates else None


def _place(row: Plain) -> Partition:
    return row["__topic"], row["__partition"]


def _time(row: Plain) -> int:
    at_ms: int = row["__ingested_ms"]
    return at_ms
