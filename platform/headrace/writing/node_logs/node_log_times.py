"""Where a node's log stands, and its times after each commit of the node's topics (L32)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.description.clocks import WALL
from headrace.fold.segments import NO_TIME, ms_or_no_time
from headrace.nodes.standing.reader_commits import LogCommits, ReaderTime, reader_times
from headrace.operators.registry import operator_for
from headrace.sequence.log_columns import BEHIND, BUSY, IDLE

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
    reader          where the node's topics stand, as the node reads them
    is_idle         whether the log is idle
    waits_ms        the longest limit that was set for the node; 0: none was longer than the one described
    complete_ms     of each topic that is complete the commit with which it became so, where the node waits for that
    """

    ingested_at_ms: int = 0
    next_offset: int = 0
    stream_ms: int | None = None
    clock_ms: int | None = None
    reader: ReaderTime = field(default_factory=ReaderTime)
    is_idle: bool = False
    waits_ms: int = 0
    complete_ms: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As its record has it."""
        found = {name: of for name, of in vars(self).items() if name not in ("waits_ms", "complete_ms") or of}
        return {**found, "reader": self.reader.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Reached:
        """The place that `to_json` wrote."""
        return cls(**{**document, "reader": ReaderTime.from_json(document["reader"])})


@dataclass(frozen=True)
class LogTimes:
    """The times of the commits of a node's log.

    at_ms   of each commit
    clock   before the first commit and after each L of the node, less its lag (see `Waits`); NO_TIME: there is none
    stream  the same of the stream time: the highest clock so far, less how far it was behind then
    behind  the same of how far stream time is behind the clock
    """

    at_ms: np.ndarray
    clock: np.ndarray
    stream: np.ndarray
    behind: np.ndarray

    @property
    def last_ms(self) -> tuple[int | None, int | None]:
        """Stream time and clock at the end."""
        stream, clock = (None if of[-1] == NO_TIME else int(of[-1]) for of in (self.stream, self.clock))
        return stream, clock

    def of_rows(self, commit_ms: np.ndarray, clock_ms: np.ndarray) -> np.ndarray:
        """The stream times of rows: not below that of the log before their commit. In: their clocks, or NO_TIME."""
        own = np.where(clock_ms == NO_TIME, NO_TIME, clock_ms - self.after(commit_ms, self.behind))
        times: np.ndarray = np.maximum(own, self.before(commit_ms, self.stream))
        return times

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
        if by_wall:
            end_ms = wall_end_ms(node, of.last_record_ms(driving))
        else:
            last_ms = of.last_event_ms(driving)
            end_ms = None if last_ms is None else last_ms + wait_ms
        found.append(is_over(end_ms, closing_ms) and of.is_idle(driving))
    return found


def wall_end_ms(node: Node, last_ms: int | None, wait_ms: int = 0) -> int | None:
    """When nothing waits for the wall clock any more; None: nothing came.

    In: last_ms  the last commit with records; wait_ms: at least so long after it
    """
    if last_ms is None:
        return None
    return max([last_ms + wait_ms, *(wait.end_ms(last_ms) for wait in node.wall_waits)])


def is_over(end_ms: int | None, now_ms: int | None) -> bool:
    """Whether nothing that came waits any more. In: end_ms  None: nothing came; now_ms: None: nothing ends yet."""
    return end_ms is None or (now_ms is not None and now_ms >= end_ms)


def times_after(before: Reached, commits: Closings, lag_ms: int, behind_ms: Sequence[int]) -> LogTimes:
    """The times of a node's log before the first commit and after each.

    In: lag_ms     how far the clock is behind the node's own time
        behind_ms  how far stream time is behind the clock after each commit
    """
    closing_ms, behind = _in_ms([ms for _, ms in commits]), np.array(behind_ms, np.int64)
    clock = np.where(closing_ms == NO_TIME, NO_TIME, closing_ms - lag_ms)
    stream = np.where(clock == NO_TIME, NO_TIME, clock - behind)
    return LogTimes(
        np.array([at_ms for at_ms, _ in commits], np.int64),
        np.maximum.accumulate([*_in_ms([before.clock_ms]), *clock]),
        np.maximum.accumulate([*_in_ms([before.stream_ms]), *stream]),
        np.array([*(behind_ms[:1] or [0]), *behind_ms], np.int64),
    )


def _in_ms(times_ms: Sequence[int | None]) -> np.ndarray:
    """Times as numbers; NO_TIME where there is none."""
    return np.array([*map(ms_or_no_time, times_ms)], np.int64)


def node_times(node: Node, before: Reached, read: Mapping[str, LogCommits]) -> Times:
    """Where the node's topics stand after each commit, as the node reads them."""
    seen = {name: log.seen(clocks=node.goes_by_clocks) for name, log in read.items()}
    return reader_times(before.reader, seen, operator_for(node).driving)


def behind_clock(node: Node, times: Times, waits_ms: Sequence[int]) -> list[int]:
    """How far stream time is behind the clock after each commit; it does not fall.

    A node that goes by clocks is as far behind as the logs of its topics. In: waits_ms  how long the node waits as of each
    """
    if not node.goes_by_clocks:
        return [*waits_ms]
    driving = operator_for(node).driving
    return [max(node.behind_clock_ms, of.behind_ms(driving)) for _, of in times]


def behind_changes(
    node: Node, before: Reached, at_ms: np.ndarray, behind_ms: Sequence[int]
) -> list[tuple[int, str]]:
    """The control rows of commits from which on stream time is further behind the clock."""
    grown_ms = before.reader.behind_ms(operator_for(node).driving) if node.goes_by_clocks else before.waits_ms
    each = zip(at_ms.tolist(), behind_ms, [max(node.behind_clock_ms, grown_ms), *behind_ms], strict=False)
    return [(at, json.dumps({"action": BEHIND, "ms": now})) for at, now, was in each if now > was]


def idle_changes(at_ms: np.ndarray, was_idle: bool, idle: Sequence[bool]) -> list[tuple[int, str]]:
    """The control rows of commits with which a log becomes idle, or busy again. In: was_idle  before the first commit."""
    each = zip(at_ms.tolist(), idle, [was_idle, *idle], strict=False)
    return [(at, json.dumps({"action": IDLE if now else BUSY})) for at, now, was in each if now != was]
