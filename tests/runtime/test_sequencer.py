"""The sequencer between commits: repeats add nothing, and after a doubtful commit nothing is written on a guess."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headrace import lake as lakes
from headrace.errors import TransientError
from headrace.lake import LakeTable
from headrace.log.sequencer import Sequencer
from tests.broker.pipeline import counts_of
from tests.no_spark import no_session
from tests.rows import log_rows
from tests.runtime.line import Line

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.fast


@pytest.fixture
def line(lake: Lake) -> Line:
    return Line(no_session(), lake, counts_of("readings", idle_timeout="1 second"))


def reopened(line: Line) -> Sequencer:
    return Sequencer(line.spark, line.topic, line.lake.log("readings"), line.clock, longest_wait_ms=180_000)


def three_records(line: Line) -> list[pa.RecordBatch]:
    for second in range(3):
        line.pipe(f"2024-05-01 12:00:0{second}")
    return line._piped.take_here()


def logged(line: Line) -> list[dict[str, Any]]:
    return log_rows(line.lake.log("readings"))


def offsets(line: Line) -> list[int]:
    return sorted(row["offset"] for row in logged(line) if row["offset"] is not None)


def test_a_repeated_micro_batch_adds_no_row(line: Line) -> None:
    raw = three_records(line)
    assert line.sequencer.append(raw).records == 3
    assert line.sequencer.append(raw).records == 0
    assert reopened(line).append(raw).records == 0
    assert offsets(line) == [0, 1, 2]


def test_after_a_commit_of_unknown_outcome_nothing_is_written_until_the_log_is_read_again(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, put = three_records(line), LakeTable.put

    def commit_and_lose_the_answer(*arguments: Any) -> None:
        put(*arguments)
        raise ConnectionError("the answer was lost")

    sequencer = reopened(line)
    with monkeypatch.context() as patch:
        patch.setattr(LakeTable, "put", commit_and_lose_the_answer)
        patch.setattr(LakeTable, "commit_at", lambda *_: None)  # the store tells nothing either
        with pytest.raises(TransientError):
            sequencer.append(raw)
    line.clock.set(line.clock.now_ms() + 60_000)
    for attempt in (
        lambda: sequencer.tick(frozenset({0})),
        lambda: sequencer.append(raw),
        lambda: sequencer.append([], ends={0: 9}),
        lambda: sequencer.accept_gap({0: 9}),
    ):
        with pytest.raises(
            TransientError, match="whether the last commit to its log went through is not known"
        ):
            attempt()
    again = reopened(line)
    assert again.append(raw).records == 0
    assert offsets(line) == [0, 1, 2]
    assert again.tick(frozenset({0})) == 1


def test_a_commit_whose_answer_was_lost_is_found_and_counts_once(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, put = three_records(line), LakeTable.put

    def commit_and_lose_the_answer(*arguments: Any) -> None:
        put(*arguments)
        raise ConnectionError("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(LakeTable, "put", commit_and_lose_the_answer)
        assert line.sequencer.append(raw).records == 3
    assert line.sequencer.append(raw).records == 0
    assert offsets(line) == [0, 1, 2]


def test_what_fails_before_the_commit_leaves_no_doubt(line: Line) -> None:
    raw, armed = three_records(line), [True]

    def refuse_once(step: str) -> None:
        if step == "before log commit" and armed:
            armed.pop()
            raise InterruptedError

    sequencer = Sequencer(line.spark, line.topic, line.lake.log("readings"), line.clock, on_step=refuse_once)
    with pytest.raises(InterruptedError):
        sequencer.append(raw)
    assert sequencer.append(raw).records == 3


def test_markers_at_the_end_are_passed_over_without_a_row(line: Line) -> None:
    line.sequencer.append(three_records(line))
    line.sequencer.append([], ends={0: 5, 1: 0})
    state = reopened(line).state
    assert state.next_offsets == {0: 5}
    assert (state.batch, offsets(line)) == (2, [0, 1, 2])
    again = reopened(line)
    version = lakes.open_table(line.lake.log("readings")).version
    again.append([], ends={0: 5})
    assert lakes.open_table(line.lake.log("readings")).version == version


def test_the_commit_that_reaches_the_ends_of_the_first_start_says_so_once(line: Line) -> None:
    def completed() -> list[Any]:
        said = [row for row in logged(line) if row["kind"] == "control"]
        return [row["ingested_at"] for row in said if json.loads(row["control"])["action"] == "complete"]

    line.sequencer.start_at({0: 0, 1: 0})
    line.sequencer.read_first_to({0: 3, 1: 0})
    assert completed() == []
    sequencer = reopened(line)
    sequencer.read_first_to({0: 99})  # what was recorded first stands
    sequencer.append(three_records(line))
    (at,) = completed()
    assert {row["ingested_at"] for row in logged(line) if row["offset"] == 2} == {at}
    again = reopened(line)
    assert again.state.complete
    line.clock.set(line.clock.now_ms() + 1_000)
    again.read_first_to({0: 99})
    again.append([], ends={0: 5})
    assert completed() == [at]


def test_markers_count_among_what_was_there_first_and_an_empty_topic_is_complete_at_once(line: Line) -> None:
    line.sequencer.append(three_records(line))
    line.sequencer.read_first_to({0: 4})
    assert not line.sequencer.state.complete
    line.sequencer.append([], ends={0: 4})
    assert line.sequencer.state.complete
    empty = Line(line.spark, replace(line.lake, root=f"{line.lake.root}/empty"), counts_of("readings"))
    empty.sequencer.start_at({})
    assert not empty.sequencer.state.complete
    empty.sequencer.read_first_to({0: 0})
    assert empty.sequencer.state.complete


def test_an_accepted_gap_is_a_control_row_and_moves_no_time(line: Line) -> None:
    line.sequencer.append(three_records(line))
    line.sequencer.accept_gap({0: 10, 3: 4})
    rows = sorted((row for row in logged(line) if row["kind"] == "control"), key=lambda row: row["partition"])
    assert [(row["partition"], row["offset"], json.loads(row["control"])) for row in rows] == [
        (0, None, {"action": "accept_gap", "from_offset": 3, "to_offset": 10}),
        (3, None, {"action": "accept_gap", "from_offset": 0, "to_offset": 4}),
    ]
    assert rows[0]["stream_time"] == max(row["stream_time"] for row in logged(line) if row["stream_time"])
    assert rows[1]["stream_time"] is None
    assert reopened(line).state.next_offsets == {0: 10, 3: 4}
