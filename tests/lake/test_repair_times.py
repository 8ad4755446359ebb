"""The commit times of commits that a repair reads from Kafka again: no record lies too far ahead that did not. No Spark."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.lifecycle.log_repair.lost_commits import _commit_times
from headrace.log.commit_row import CommitRow
from headrace.log.history.chain import Gap
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LastRow, LogState
from headrace.sequence.sequence_records import Sequencer
from tests.laws.kernel.records import NOW_MS, Record, table_of

pytestmark = pytest.mark.fast

DAY_MS = 86_400_000
SCREWS = hr.Topic("screws", key="id STRING", value="n INT")


def gap_of(*lost_ms: int, later_ms: int, later_of: int = 1) -> Gap:
    """A gap of commits with one record each in partition 0. In: later_of  the partition of the record after it."""
    before = LogState().after(NOW_MS, [LastRow(0, 1, NOW_MS)])
    state = before
    for number, at_ms in enumerate(lost_ms):
        state = state.after(at_ms, [LastRow(0, 2 + number, NOW_MS)])
    after = state.after(later_ms, [LastRow(later_of, 1, NOW_MS)])
    return Gap(CommitRow(before, {}), CommitRow(after, state.next_offsets))


def test_a_commit_has_its_own_time_again_if_a_later_one_tells_it_else_the_latest_before_the_next() -> None:
    assert _commit_times(gap_of(NOW_MS + 10, later_ms=NOW_MS + 90)) == [NOW_MS + 10]
    assert _commit_times(gap_of(NOW_MS + 10, later_ms=NOW_MS + 90, later_of=0)) == [NOW_MS + 89]
    assert _commit_times(gap_of(NOW_MS + 10, NOW_MS + 20, later_ms=NOW_MS + 90)) == [NOW_MS + 88, NOW_MS + 89]


@pytest.mark.parametrize("later_of", [0, 1])
@pytest.mark.parametrize("ahead_ms", [0, DAY_MS])
def test_a_record_that_was_taken_is_taken_again(later_of: int, ahead_ms: int) -> None:
    lost_ms = NOW_MS + 10
    gap = gap_of(lost_ms, later_ms=NOW_MS + 90, later_of=later_of)
    record = Record(0, 2, b'{"n": 1}', lost_ms + ahead_ms, None, dead=False)
    sequencer = Sequencer(RecordFormat.of(SCREWS))
    verdicts = [
        sequencer.sequence(table_of([record]), gap.before.after, None, at_ms).rows["kind"][0].as_py()
        for at_ms in (lost_ms, *_commit_times(gap))
    ]
    assert verdicts == ["record", "record"]
