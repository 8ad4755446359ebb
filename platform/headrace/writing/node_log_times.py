"""Where a node's log stands, and its times after each commit of the node's topics (L32)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.description.clocks import WALL
from headrace.nodes.reader_commits import LogCommits, ReaderTime, reader_times
from headrace.operators.registry import operator_for
from headrace.sequence.log_columns import BUSY, IDLE

if TYPE_CHECKING:
    from headrace.description import Node

Closings = Sequence[tuple[int, int | None]]
Times = list[tuple[int, ReaderTime]]


@dataclass(frozen=True)
class Reached:
    """Where a node's log stands.

    ingested_at_ms  through this commit time the node's rows are in it
    next_offset     of the next record
    stream_ms       the stream time; None: none yet
    clock_ms        the clock; None: none yet
    reader          where the node's topics stand
    clocks          the same by their clocks, of a node that goes by them
    is_idle         whether the log is idle
    waits_ms        the longest limit that was set for the node; 0: none was longer than the one described
    complete_ms     of each topic that is complete the commit with which it became so, where the node waits for that
    """

    ingested_at_ms: int = 0
    next_offset: int = 0
    stream_ms: int | None = None
    clock_ms: int | None = None
    reader: ReaderTime = field(default_factory=ReaderTime)
    clocks: ReaderTime = field(default_factory=ReaderTime)
    is_idle: bool = False
    waits_ms: int = 0
    complete_ms: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As its record has it."""
        found = {name: of for name, of in vars(self).items() if name not in ("waits_ms", "complete_ms") or of}
        return {**found, "reader": self.reader.to_json(), "clocks": self.clocks.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Reached:
        """The place that `to_json` wrote."""
        times = {name: ReaderTime.from_json(document[name]) for name in ("reader", "clocks")}
        return cls(**{**document, **times})


@dataclass(frozen=True)
class LogTimes:
    """The times of the commits of a node's log.

    at_ms   of each commit
    stream  the stream time before the first commit, and after each: numbers, or None
    clock   the same of the clock: L before a wait is subtracted; of a node that goes by clocks L by those of its topics
    """

    at_ms: np.ndarray
    stream: np.ndarray
    clock: np.ndarray

    @property
    def last_ms(self) -> tuple[int | None, int | None]:
        """Stream time and clock at the end."""
        stream, clock = (None if of[-1] is None else int(of[-1]) for of in (self.stream, self.clock))
        return stream, clock

    def before(self, commit_ms: np.ndarray, of: np.ndarray) -> np.ndarray:
        """The stream time, or the clock, before each of some commits."""
        times: np.ndarray = of[np.searchsorted(self.at_ms, commit_ms)]
        return times

    def after(self, commit_ms: np.ndarray, of: np.ndarray) -> np.ndarray:
        """The same after each."""
        times: np.ndarray = of[np.searchsorted(self.at_ms, commit_ms, side="right")]
        return times


def closings(node: Node, times: Sequence[tuple[int, ReaderTime]], complete_ms: Mapping[str, int]) -> Closings:
    """Each commit, and through which time of its clock the node has let go what waited; None: nothing yet.

    Before the topics are complete that a node waits for there is none: what waits must not come late.
    """
    if node.clock == WALL:
        return [(at_ms, at_ms) for at_ms, _ in times]
    awaited = {*operator_for(node).waits.complete}
    if not awaited <= complete_ms.keys():
        return [(at_ms, None) for at_ms, _ in times]
    from_ms = max((complete_ms[name] for name in awaited), default=0)
    return [(at_ms, of.lowest_ms if at_ms >= from_ms else None) for at_ms, of in times]


def idle_after(
    node: Node,
    times: Sequence[tuple[int, ReaderTime]],
    commits: Closings,
    waits_ms: Sequence[int],
) -> list[bool]:
    """Whether the log is idle after each commit: no driving topic is busy, and nothing that came waits any more."""
    driving, by_wall = operator_for(node).driving, node.clock == WALL
    found = []
    for (_, of), (_, closing_ms), wait_ms in zip(times, commits, waits_ms, strict=True):
        last_ms = of.last_record_ms(driving) if by_wall else of.last_event_ms(driving)
        wait_ms = node.longest_wall_wait_ms if by_wall else wait_ms
        over = last_ms is None or (closing_ms is not None and closing_ms >= last_ms + wait_ms)
        found.append(over and of.is_idle(driving))
    return found


def after_each(before_ms: int | None, commits: Closings, waits_ms: Sequence[int]) -> np.ndarray:
    """The time before the first commit and after each: numbers, or None. In: waits_ms  how far each is behind."""
    times: list[int | None] = [before_ms]
    for (_, closing_ms), lag_ms in zip(commits, waits_ms, strict=True):
        behind = None if closing_ms is None else closing_ms - lag_ms
        known = [ms for ms in (times[-1], behind) if ms is not None]
        times.append(max(known, default=None))
    return np.array(times, object)


def both_times(node: Node, before: Reached, read: Mapping[str, LogCommits]) -> tuple[Times, Times]:
    """Where the node's topics stand after each commit: by their stream time; and as the node reads them."""
    driving = operator_for(node).driving
    by_stream = reader_times(before.reader, read, driving)
    if not node.goes_by_clocks:
        return by_stream, by_stream
    by_clock = {name: log.seen(clocks=True) for name, log in read.items()}
    return by_stream, reader_times(before.clocks, by_clock, driving)


def idle_changes(at_ms: np.ndarray, was_idle: bool, idle: Sequence[bool]) -> list[tuple[int, str]]:
    """The control rows of commits with which a log becomes idle, or busy again. In: was_idle  before the first commit."""
    each = zip(at_ms.tolist(), idle, [was_idle, *idle], strict=False)
    return [(at, json.dumps({"action": IDLE if now else BUSY})) for at, now, was in each if now != was]
