"""When a tick is due, and when a topic is idle: facts of one log, whatever other topics do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.log.ticks import Due, due_now
from headrace.sequence.log_state import LastRow, LogState, PartitionState
from headrace.sequence.seed_pieces import SeedState

pytestmark = pytest.mark.fast

SECOND = 1_000
MINUTE = 60 * SECOND
EMPTY = LogState(began_ms=10 * SECOND)
# One record of second 10, which was committed at second 0.
SILENT = LogState(1, 0, 10 * SECOND, {0: PartitionState(1, 10 * SECOND)}, idle=False, began_ms=0)


def due(state: LogState, now_s: int, *, wait_s: int = 0, caught_up: frozenset[int] = frozenset({0})) -> Due:
    return due_now(state, now_s * SECOND, state.began_ms, MINUTE, wait_s * SECOND, caught_up)


def test_a_silent_topic_is_idle_after_its_timeout() -> None:
    assert not due(SILENT, 59).is_something
    assert due(SILENT, 60) == Due(idle=True)


def test_a_topic_without_records_is_idle_so_long_after_its_log_began() -> None:
    assert not due(EMPTY, 69).is_something
    assert due(EMPTY, 70) == Due(idle=True)


def test_it_is_recorded_once() -> None:
    assert not due(replace(SILENT, idle=True), 600).is_something


def test_a_record_ends_it_and_a_tick_does_not() -> None:
    idle = replace(SILENT, idle=True)
    assert idle.after(61 * SECOND, [LastRow(0, None, 70 * SECOND)]).idle
    assert not idle.after(61 * SECOND, [LastRow(0, 1, 70 * SECOND)]).idle


def test_all_partitions_have_to_be_read_to_their_ends() -> None:
    two = replace(SILENT, partitions={**SILENT.partitions, 1: PartitionState(0)})
    assert not due(two, 60).is_something
    assert due(two, 60, caught_up=frozenset({0, 1})).idle


def test_one_busy_partition_keeps_a_topic_busy() -> None:
    two = replace(
        SILENT,
        partitions={**SILENT.partitions, 1: PartitionState(1, 30 * SECOND, record_at_ms=50 * SECOND)},
    )
    found = due(two, 60, wait_s=100, caught_up=frozenset({0, 1}))
    assert found == Due([LastRow(0, None, 30 * SECOND)])


def test_a_topic_that_reads_a_seed_is_not_idle() -> None:
    assert not due(replace(SILENT, seed=SeedState("table", 1, {0: 0}, {0: 9}, None, 1)), 60).idle


def test_without_a_timeout_nothing_is_idle_and_nothing_ticks() -> None:
    assert due_now(SILENT, 10_000 * SECOND, 0, None, 100 * SECOND, frozenset({0})) == Due()


def test_ticks_end_once_nobody_can_wait() -> None:
    idle = replace(SILENT, idle=True, ingested_at_ms=100 * SECOND)
    assert due(idle, 100, wait_s=50).ticks == [LastRow(0, None, 110 * SECOND)]
    beyond = replace(idle, partitions={0: PartitionState(1, 60 * SECOND, row_at_ms=100 * SECOND)})
    assert due(beyond, 200, wait_s=50) == Due()


def test_a_clock_that_is_ahead_gets_one_commit_when_the_wall_clock_has_come_so_far() -> None:
    """A reader that leaves topics out is held at the commit time, so it needs a commit of that time."""
    ahead = PartitionState(1, 2_000 * SECOND, row_at_ms=400 * SECOND)
    state = LogState(2, 400 * SECOND, 1_000 * SECOND, {0: ahead}, idle=True, began_ms=0)
    assert not due(state, 1_049, wait_s=50).is_something
    assert due(state, 1_050, wait_s=50) == Due(at_wall_time=True)
    assert not due(replace(state, ingested_at_ms=1_050 * SECOND), 1_060, wait_s=50).is_something
