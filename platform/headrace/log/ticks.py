"""Ticks: the recorded passing of wall-clock time.

A tick is a row of the log. So an idle partition moves on, windows close although a topic fell silent, and a
backfill repeats both. Those who wait for wall-clock time alone have ticks of their own (see `deadlines`).

A tick's commit time is chosen before Kafka is asked for the ends of partitions, and no append runs meanwhile. So no
partition passes a record that Kafka had when its tick was due, however long an append took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sequence.log_state import LastRow

if TYPE_CHECKING:
    from collections.abc import Set

    from headrace.sequence.log_state import LogState


def due_ticks(
    state: LogState,
    now_ms: int,
    *,
    idle_timeout_ms: int | None,
    longest_wait_ms: int,
    caught_up: Set[int],
    beside_ms: int | None = None,
) -> list[LastRow]:
    """The ticks to write now, one for each idle partition whose stream time they advance.

    In:     now_ms           the commit time that the ticks would get
            idle_timeout_ms  how long a partition may be silent before it counts as idle; None: strict event time
            longest_wait_ms  the longest that any node on the topic waits (window size plus grace)
            caught_up        partitions read to Kafka's end: only these can be called idle
            beside_ms        the highest event time of the topics read beside this one: their records wait for it too
    Law:    an idle partition gets the lowest busy partition's stream time or, when all are idle, its own plus
            the wall time since its last row. Nothing is ticked once nobody can be waiting.
    """
    if idle_timeout_ms is None or not _somebody_waits(state, longest_wait_ms, beside_ms):
        return []
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


def _somebody_waits(state: LogState, longest_wait_ms: int, beside_ms: int | None) -> bool:
    lowest, highest = state.lowest_stream_ms(), state.highest_event_ms
    if lowest is None or highest is None or longest_wait_ms <= 0:
        return False
    return lowest < max(highest, beside_ms or highest) + longest_wait_ms
