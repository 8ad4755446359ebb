"""Ticks: the recorded passing of wall-clock time; and idleness, a fact of one log.

A tick is a row of the log. So an idle partition moves on, windows close although a topic fell silent, and a
backfill repeats both. Those who wait for wall-clock time alone have ticks of their own (see `deadlines`).

Once all partitions of a topic are read to Kafka's end, and no record has come for the idle timeout, one row says that the
topic is idle. The next record ends that. Readers of several topics leave out the idle ones (L3); no topic's stream time
depends on another topic.

A tick's commit time is chosen before Kafka is asked for the ends of partitions, and no append runs meanwhile. So no
partition passes a record that Kafka had when its tick was due, however long an append took.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sequence.log_state import LastRow

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from headrace.sequence.log_state import LogState


@dataclass(frozen=True)
class Due:
    """The decisions that the passing of time asks for.

    ticks         one for each idle partition whose stream time moves on
    idle          True if the topic becomes idle
    at_wall_time  True if the wall clock has reached what readers may wait for, and no commit says so
    """

    ticks: Sequence[LastRow] = ()
    idle: bool = False
    at_wall_time: bool = False

    @property
    def is_something(self) -> bool:
        """Whether a commit is due."""
        return bool(self.ticks) or self.idle or self.at_wall_time


def due_now(
    state: LogState,
    now_ms: int,
    began_ms: int,
    idle_timeout_ms: int | None,
    longest_wait_ms: int,
    caught_up: Set[int],
) -> Due:
    """The decisions to write now.

    In:     now_ms           the commit time that they would get
            began_ms         when the log began: a topic without records is silent since then
            idle_timeout_ms  how long a partition may be silent before it counts as idle; None: strict event time
            longest_wait_ms  the longest that any node on the topic waits (window size plus grace)
            caught_up        partitions read to Kafka's end: only these can be called idle
    Law:    an idle partition gets the lowest busy partition's stream time or, when all are idle, its own plus
            the wall time since its last row. Nothing is ticked once nobody can be waiting.
    """
    if idle_timeout_ms is None:
        return Due()
    silent_since_ms = state.record_at_ms or began_ms
    is_silent = state.partitions.keys() <= caught_up and now_ms - silent_since_ms >= idle_timeout_ms
    return Due(
        _ticks(state, now_ms, idle_timeout_ms, caught_up) if _somebody_waits(state, longest_wait_ms) else (),
        is_silent and not state.idle and state.seed is None,
        _reaches_wall_time(state, now_ms, longest_wait_ms),
    )


def _ticks(state: LogState, now_ms: int, idle_timeout_ms: int, caught_up: Set[int]) -> list[LastRow]:
    timed = {p: s for p, s in state.partitions.items() if s.stream_ms is not None}
    idle = {p for p, s in timed.items() if p in caught_up and now_ms - s.record_at_ms >= idle_timeout_ms}
    busy = [s.stream_ms for p, s in timed.items() if p not in idle and s.stream_ms is not None]
    ticks = []
    for partition in sorted(idle):
        own = timed[partition]
        assert own.stream_ms is not None
        target = min(busy) if busy else own.stream_ms + (now_ms - own.row_at_ms)
        if target > own.stream_ms:
            ticks.append(LastRow(partition, None, target))
    return ticks


def _somebody_waits(state: LogState, longest_wait_ms: int) -> bool:
    lowest, highest = state.lowest_stream_ms(), state.highest_event_ms
    if lowest is None or highest is None or longest_wait_ms <= 0:
        return False
    return lowest < highest + longest_wait_ms


def _reaches_wall_time(state: LogState, now_ms: int, longest_wait_ms: int) -> bool:
    """Whether one more commit is due for a topic whose clock is ahead.

    L of a reader that leaves topics out is at most the commit time (L3).
    """
    if state.highest_event_ms is None or not state.idle or longest_wait_ms <= 0:
        return False
    return state.ingested_at_ms < state.highest_event_ms + longest_wait_ms <= now_ms
