"""The sequencer decides once: order, stream time, ticks and control rows, also after a restart.

(What a commit of unknown outcome leads to is in tests/runtime/test_sequencer.py.)
"""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.description.clocks import WallWait
from tests.log.bench import START_MS, Bench

pytestmark = pytest.mark.fast


def test_ingested_at_increases_strictly_also_when_the_clock_goes_back(bench: Bench) -> None:
    bench.append((0, 1), (0, 2))
    bench.append((0, 3))
    bench.clock.ms -= 3_600_000
    bench.append((0, 4))
    bench.sequencer = bench.opened()
    bench.append((0, 5))
    bench.clock.ms += 3_700_000
    bench.append((0, 6))
    times = [row["ingested_at"] - START_MS for row in bench.rows()]
    assert times == [0, 0, 1, 2, 3, 100_000]


def test_after_the_clock_was_set_back_the_log_goes_on_at_nine_tenths_of_the_time_that_passes(
    bench: Bench,
) -> None:
    bench.append((0, 1))
    bench.clock.ms -= 86_400_000
    for waited_ms in (1_000, 2_000, 0):
        bench.clock.wait(waited_ms)
        bench.append((0, 2))
    bench.sequencer = bench.opened()
    bench.clock.wait(10_000)
    bench.append((0, 3))
    bench.clock.ms += 86_400_000
    bench.append((0, 4))
    times = [row["ingested_at"] - START_MS for row in bench.rows()]
    assert times == [0, 900, 2_700, 2_701, 11_701, 13_000]


def test_the_time_that_commits_take_counts_too(bench: Bench) -> None:
    bench.append((0, 1))
    bench.clock.ms -= 86_400_000

    def work(step: str) -> None:
        if step == "before log commit":
            bench.clock.wait(1_000)

    bench.sequencer = bench.opened_with(on_step=work)
    for _ in range(4):
        bench.append((0, 2))
    times = [row["ingested_at"] - START_MS for row in bench.rows()]
    assert times == [0, 1, 901, 1_801, 2_701]


def test_what_waits_for_wall_clock_time_does_not_wait_for_a_clock_that_was_set_back(bench: Bench) -> None:
    bench.sequencer = bench.opened_with(wall_waits=[5_000])
    bench.append((0, 1))
    bench.clock.ms -= 86_400_000
    bench.clock.wait(5_000)
    assert not bench.sequencer.deadline_passed()
    bench.clock.wait(1_000)
    assert bench.sequencer.deadline_passed()


def test_another_topic_of_the_same_name_is_refused_also_after_a_restart(bench: Bench) -> None:
    bench.sequencer.reads_from(None)
    bench.sequencer.reads_from("id-1")
    bench.append((0, 1))
    bench.sequencer = bench.opened()
    bench.sequencer.reads_from(None)
    bench.sequencer.reads_from("id-1")
    with pytest.raises(
        hr.TerminalError, match=r"deleted and created again[^$]*id is id-2, the log's is id-1"
    ):
        bench.sequencer.reads_from("id-2")


def test_stream_time_is_the_running_maximum_of_each_partition(bench: Bench) -> None:
    bench.append((0, 5), (0, 3), (1, 2), (0, 9), (1, 1))
    bench.append((1, 4), (0, 1), (0, None))
    assert bench.stream() == {0: [5, 5, 9, 9, 9], 1: [2, 2, 4]}


def test_a_new_partition_begins_at_the_lowest_stream_time_of_the_previous_commit(bench: Bench) -> None:
    bench.append((0, 5), (1, 8))
    bench.append((2, 1), (0, 20), (2, 7))  # the 20 of this commit does not count
    bench.append((3, None), (3, 1), (0, 6))  # lowest now: 7; a dead letter has no time of its own
    assert bench.stream() == {0: [5, 20, 20], 1: [8], 2: [5, 7], 3: [None, 7]}


def test_a_partition_of_dead_letters_has_no_stream_time_and_holds_nothing_back(bench: Bench) -> None:
    bench.append((0, 5), (1, None))
    assert bench.sequencer.state.lowest_stream_ms() == START_MS + 5_000
    bench.append((1, 2))
    assert bench.stream() == {0: [5], 1: [None, 5]}


def test_a_repeated_micro_batch_adds_no_row_and_a_longer_one_its_new_rows(bench: Bench) -> None:
    raw = bench.batch((0, 1), (0, 2))
    bench.sequencer.append(raw)
    assert bench.sequencer.append(raw).records == 0
    assert bench.sequencer.append([*raw, *bench.batch((0, 3), (1, 4))]).records == 2
    assert [(row["partition"], row["offset"]) for row in bench.rows()] == [(0, 0), (0, 1), (0, 2), (1, 0)]


def test_a_data_commit_is_recovered_from_its_own_rows(bench: Bench) -> None:
    bench.append((0, 5), (1, 8))
    bench.append((1, 9), (2, None))
    assert bench.opened().state == bench.sequencer.state
    assert bench.sequencer.state.partitions[1].stream_ms == START_MS + 9_000


def test_a_repeated_micro_batch_is_recovered_too(bench: Bench) -> None:
    raw = bench.batch((0, 5))
    bench.sequencer.append(raw)
    bench.sequencer.append(raw)
    assert bench.opened().state == bench.sequencer.state


def test_a_tick_and_a_control_commit_are_recovered(bench: Bench) -> None:
    bench.append((0, 5), (1, 8))
    assert bench.tick(after_s=15) == 2
    before = bench.sequencer.state
    bench.sequencer = bench.opened()
    assert bench.sequencer.state == before
    bench.sequencer.accept_gap({0: 7})
    assert bench.opened().state == bench.sequencer.state


def test_recovery_reads_no_history(bench: Bench) -> None:
    for second in range(3):
        bench.clock.ms += 1000  # file statistics are in ms, give or take one
        bench.append((0, second))
    files = [*bench.folder.glob("*.parquet")]
    older = [file for file in files if 2 not in pq.read_table(file)["offset"].to_pylist()]
    assert len(older) < len(files)
    for file in older:
        file.unlink()
    assert bench.opened().state == bench.sequencer.state


def test_the_start_is_recorded_before_the_first_record(bench: Bench) -> None:
    bench.sequencer.start_at({0: 3, 1: 0})
    assert [json.loads(row["control"]) for row in bench.rows("control")] == [
        {"action": "start", "from_offset": 0, "to_offset": 3},
        {"action": "start", "from_offset": 0, "to_offset": 0},
    ]
    for _ in range(3):
        bench.batch((0, 1))  # offsets 0 to 2 lie before the start
    bench.append((0, 1))
    assert [row["offset"] for row in bench.rows("record")] == [3]


def test_an_accepted_gap_moves_on_and_keeps_stream_time(bench: Bench) -> None:
    bench.append((0, 5))
    bench.sequencer.accept_gap({0: 2})
    bench.batch((0, 6))  # offset 1 is the loss
    bench.append((0, 4))
    assert [(row["kind"], row["offset"], row["stream_s"]) for row in bench.rows()] == [
        ("record", 0, 5), ("control", None, 5), ("record", 2, 5),
    ]  # fmt: skip


def test_an_idle_partition_ticks_up_to_the_lowest_busy_one(bench: Bench) -> None:
    bench.append((0, 5), (1, 5))
    bench.clock.ms += 10_000
    bench.append((0, 30), (2, 20))
    assert bench.tick() == 1
    assert [(row["partition"], row["offset"], row["stream_s"]) for row in bench.rows("tick")] == [
        (1, None, 20)
    ]
    assert bench.tick() == 0, "nothing more to gain"


def test_a_partition_that_is_behind_in_kafka_is_not_idle(bench: Bench) -> None:
    bench.append((0, 5), (1, 8))
    bench.clock.ms += 60_000
    assert bench.sequencer.tick(frozenset({1})) == 0, "partition 0 may hold records that nobody has read"
    assert bench.sequencer.tick(frozenset({0})) == 1
    assert bench.rows("tick")[0]["stream_s"] == 8


def test_when_all_are_idle_time_passes_until_nobody_waits(bench: Bench) -> None:
    bench.append((0, 5), (1, 8))
    assert bench.tick(after_s=9) == 0
    assert bench.tick(after_s=1) == 2
    assert bench.tick(after_s=50) == 2
    assert bench.stream() == {0: [5, 15, 65], 1: [8, 18, 68]}
    assert bench.tick(after_s=3) == 2  # 68 is the last record's 8 and the longest wait
    assert bench.tick(after_s=600) == 0
    assert not bench.sequencer.ticks_due()


def test_stream_time_never_decreases_through_ticks_gaps_and_restarts(bench: Bench) -> None:
    bench.append((0, 5), (1, 50))
    bench.tick(after_s=12)
    bench.sequencer = bench.opened()
    bench.append((0, 1), (2, 3))
    bench.sequencer.accept_gap({1: 9})
    bench.tick(after_s=30)
    bench.append((0, 4), (0, 90), (2, 2), (0, None), (0, 3))
    for times in bench.stream().values():
        assert times == sorted(times)


def test_a_deadline_that_passes_gets_one_tick_also_after_a_restart_and_it_moves_no_stream_time(
    bench: Bench,
) -> None:
    bench.sequencer = bench.opened_with(wall_waits=[3_000])
    bench.append((0, 1), (1, 5))
    before = bench.sequencer.state.partitions
    bench.tick(2)
    bench.append((1, 6))
    bench.sequencer = bench.opened_with(wall_waits=[3_000])
    bench.sequencer.tick(frozenset())
    bench.clock.ms += 1_000
    assert bench.sequencer.deadline_passed()
    bench.sequencer.tick(frozenset())  # Kafka may still hold records: they come later in the log all the same
    assert not bench.sequencer.deadline_passed()
    bench.tick(2)
    (first, second) = bench.rows("tick")
    assert [(tick["ingested_at"] - START_MS, tick["partition"], tick["stream_s"]) for tick in (first, second)] == [
        (3_000, 0, 1.0), (5_000, 0, 1.0)
    ]  # fmt: skip
    assert bench.sequencer.state.partitions[0] == before[0], (
        "the idle time of a partition is not counted anew"
    )
    bench.clock.ms += 4_000
    assert not bench.sequencer.deadline_passed(), "nobody waits any more"


def test_a_log_opened_again_knows_which_of_its_commits_told_of_the_time_alone(bench: Bench) -> None:
    waits = [WallWait(3_000), WallWait(2_000, after=1)]
    bench.sequencer = bench.opened_with(wall_waits=waits)
    bench.append((0, 1))
    bench.clock.ms += 2_000
    bench.sequencer.drain()  # it passes a deadline of a reader, and may give that reader a row
    passed_s = list[int]()
    for second in range(3, 20):
        bench.sequencer = bench.opened_with(wall_waits=waits)
        bench.clock.ms += 1_000
        passed_s += [second] * bench.sequencer.deadline_passed()
        bench.sequencer.tick(frozenset())
    assert passed_s == [3, 4, 5], "the record's, the drain's, and that of the reader after the record's"


def test_a_tick_for_a_deadline_is_left_out_while_the_log_is_lively(bench: Bench) -> None:
    bench.sequencer = bench.opened_with(wall_waits=[3_000], calm_ms=1_000)
    bench.append((0, 1))
    bench.clock.ms += 2_500
    bench.append((0, 2))
    bench.clock.ms += 999
    assert not bench.sequencer.deadline_passed(), "the next commit is not a trigger away"
    bench.clock.ms += 1
    assert bench.sequencer.deadline_passed()


def test_a_drain_is_a_control_row_that_changes_nothing_else(bench: Bench) -> None:
    bench.sequencer.drain()
    assert bench.rows() == [], "an empty log has nothing to close"
    bench.append((1, 5))
    before = bench.sequencer.state
    bench.sequencer.drain()
    (row,) = bench.rows("control")
    assert (json.loads(row["control"]), row["partition"], row["stream_s"]) == ({"action": "drain"}, 1, 5.0)
    assert bench.opened().state == bench.sequencer.state
    assert bench.sequencer.state.partitions == before.partitions


def test_a_silent_topic_is_said_to_be_idle_once_and_the_next_record_ends_it(bench: Bench) -> None:
    bench.append((0, 5))
    bench.tick(after_s=9)
    assert not bench.rows("control")
    bench.tick(after_s=1)
    (row,) = bench.rows("control")
    assert json.loads(row["control"]) == {"action": "idle"}
    bench.tick(after_s=100)
    assert len(bench.rows("control")) == 1
    bench.sequencer = bench.opened()
    assert bench.sequencer.state.idle
    bench.append((0, 6))
    assert not bench.sequencer.state.idle
    assert not bench.opened().state.idle


def test_a_topic_without_records_is_idle_so_long_after_its_log_began(bench: Bench) -> None:
    bench.tick(after_s=9)
    assert not bench.sequencer.state.idle
    bench.tick(after_s=1)
    assert bench.sequencer.state.idle
    assert bench.sequencer.state.partitions == {}


def test_nothing_is_idle_while_a_partition_that_the_log_does_not_know_has_records(bench: Bench) -> None:
    bench.append((0, 5))
    bench.clock.ms += 60_000
    assert bench.sequencer.tick(lambda: None) == 0
    assert not bench.sequencer.state.idle


def test_each_commit_has_a_row_that_readers_see(bench: Bench) -> None:
    """L counts at most as the commit time, so a commit that nobody sees would be read in two ways."""
    bench.append((0, 5))
    bench.sequencer.append([], ends={0: 9})
    assert [row["kind"] for row in bench.rows()] == ["record", "tick"]
