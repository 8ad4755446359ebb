"""When a tick is due: as long as somebody may wait, also in a topic that is read beside this one."""

from __future__ import annotations

import pytest

from headrace.log.ticks import due_ticks
from headrace.sequence.log_state import LastRow, LogState, PartitionState

pytestmark = pytest.mark.fast

SECOND = 1_000


def due(state: LogState, now_ms: int, beside_ms: int | None) -> list[LastRow]:
    return due_ticks(
        state,
        now_ms,
        idle_timeout_ms=60 * SECOND,
        longest_wait_ms=1,
        caught_up={0},
        beside_ms=beside_ms,
    )


def test_a_silent_topic_moves_on_while_records_of_another_wait_for_it() -> None:
    """Its last record, of second 10, came at second 0; a tick took it to 80 at second 70; another topic is at 300."""
    ticked = PartitionState(1, stream_ms=80 * SECOND, row_at_ms=70 * SECOND, record_at_ms=0)
    state = LogState(2, 70 * SECOND, 10 * SECOND, {0: ticked})
    assert due(state, 100 * SECOND, None) == []
    assert due(state, 100 * SECOND, 5 * SECOND) == [], "what is behind waits for nothing"
    assert due(state, 100 * SECOND, 300 * SECOND) == [LastRow(0, None, 110 * SECOND)]


def test_it_stops_when_it_is_beyond_them() -> None:
    beyond = PartitionState(1, stream_ms=300 * SECOND + 1, row_at_ms=70 * SECOND, record_at_ms=0)
    state = LogState(2, 70 * SECOND, 10 * SECOND, {0: beyond})
    assert due(state, 100 * SECOND, 300 * SECOND) == []
