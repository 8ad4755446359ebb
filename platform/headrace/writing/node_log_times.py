"""Where a node's log stands, and its times after each commit of the node's topics (L32)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.description.clocks import WALL
from headrace.nodes.reader_commits import ReaderTime
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from headrace.description import Node


@dataclass(frozen=True)
class Reached:
    """Where a node's log stands.

    ingested_at_ms  through this commit time the node's rows are in it
    next_offset     of the next record
    stream_ms       the stream time; None: none yet
    reader          where the node's topics stand
    is_idle         whether the log is idle
    waits_ms        the longest limit that was set for the node; 0: none was longer than the one described
    complete_ms     of each topic that is complete the commit with which it became so, where the node waits for that
    """

    ingested_at_ms: int = 0
    next_offset: int = 0
    stream_ms: int | None = None
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


def closings(
    node: Node, times: Sequence[tuple[int, ReaderTime]], complete_ms: Mapping[str, int]
) -> list[tuple[int, int | None]]:
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
    commits: Sequence[tuple[int, int | None]],
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


def stream_times(
    before: Reached, commits: Sequence[tuple[int, int | None]], waits_ms: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The commit times; and the stream time before the first and after each: numbers, or None."""
    stream: list[int | None] = [before.stream_ms]
    for (_, closing_ms), lag_ms in zip(commits, waits_ms, strict=True):
        behind = None if closing_ms is None else closing_ms - lag_ms
        known = [ms for ms in (stream[-1], behind) if ms is not None]
        stream.append(max(known, default=None))
    return np.array([at_ms for at_ms, _ in commits], np.int64), np.array(stream, object)
