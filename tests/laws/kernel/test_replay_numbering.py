"""Outputs of one input whose service does not number them: told from replays by their bytes, or numbered by their order."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LogState
from headrace.sequence.replays.guards import new_guard, restored_guard
from headrace.sequence.replays.verdicts import AMBIGUOUS
from headrace.sequence.sequence_records import Sequencer
from tests.laws.kernel.records import NOW_MS, Record, cut, table_of

pytestmark = pytest.mark.fast


def rows_of(guard: hr.ReplayGuard, commits: list[list[Record]]) -> pa.Table:
    """The log, the guard's state written and read after each commit."""
    of = RecordFormat.of(hr.Topic("screws", key="id STRING", value="n INT", replay_guard=guard))
    sequencer, state, seen, rows = Sequencer(of), LogState(), new_guard(guard), []
    for number, records in enumerate(commits):
        found = sequencer.sequence(table_of(records), state, seen, NOW_MS + number)
        assert found.guard is not None
        state, seen = found.state, restored_guard(guard, found.guard.to_json())
        rows.append(found.rows)
    return pa.concat_tables(rows)


def output(offset: int, of: int, n: int, partition: int = 0) -> Record:
    return Record(partition, offset, b'{"n": %d}' % n, NOW_MS, [["orders", 0, of]], dead=False)


@pytest.mark.parametrize("mode", ["monotone", "exact"])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_fifty_inputs_with_two_outputs_are_fifty_ambiguous_records_however_they_are_cut(
    mode: str, size: int
) -> None:
    records = [output(2 * of + n, of, n) for of in range(50) for n in range(2)]
    commits = [records[begin : begin + size] for begin in range(0, 100, size)]
    log = rows_of(hr.ReplayGuard(mode=mode), commits).to_pylist()
    assert sum(row["replay"] for row in log) == 0
    assert [row["offset"] for row in log if row["kind"] == "dead_letter"] == list(range(1, 100, 2))
    assert {row["reason"].partition(":")[0] for row in log if row["reason"]} == {AMBIGUOUS}


@pytest.mark.parametrize("mode", ["monotone", "exact"])
def test_a_record_that_came_again_with_its_bytes_is_a_replay(mode: str) -> None:
    records = [output(0, 5, 1), output(1, 6, 1), output(2, 6, 1), output(3, 5, 1)]
    log = rows_of(hr.ReplayGuard(mode=mode), [[record] for record in records]).to_pylist()
    assert [row["replay"] for row in log] == [False, False, True, True]
    assert not any(row["reason"] for row in log)


@pytest.mark.parametrize("mode", ["monotone", "exact"])
def test_a_record_of_another_way_is_a_replay_though_its_chain_in_the_value_differs(mode: str) -> None:
    """The service before read its input twice, so it stands at two offsets in the topic between."""
    guard = hr.ReplayGuard(header=None, path="chain", mode=mode)
    topic = hr.Topic("screws", value="n INT, chain STRING", replay_guard=guard)
    texts = [f'{{"n": 1, "chain": "[[\\"orders\\",0,12],[\\"parts\\",1,{at}]]"}}' for at in (40, 47)]
    records = [Record(0, n, text.encode(), NOW_MS, None, dead=False) for n, text in enumerate(texts)]
    log = Sequencer(RecordFormat.of(topic)).sequence(table_of(records), LogState(), new_guard(guard), NOW_MS)
    assert log.rows["replay"].to_pylist() == [False, True]


def test_an_output_that_cannot_be_read_keeps_its_ordinal_for_those_behind_it() -> None:
    """The service sends a, b and c of one input, and again when it has crashed. The first b cannot be read."""
    dead = Record(0, 1, b"{", NOW_MS, [["orders", 0, 7]], dead=True)
    records = [output(0, 7, 1), dead, output(2, 7, 3), output(3, 7, 1), output(4, 7, 2), output(5, 7, 3)]
    log = rows_of(hr.ReplayGuard(ordinals="order"), [records]).to_pylist()
    taken = [row["offset"] for row in log if row["kind"] == "record" and not row["replay"]]
    assert taken == [0, 2]
    assert [row["offset"] for row in log if row["replay"]] == [3, 4, 5]


@given(random=st.integers(0, 2**32).map(Random))
@settings(max_examples=60, deadline=None)
def test_each_output_is_taken_once_by_its_order_however_often_the_service_crashes(random: Random) -> None:
    inputs = [(of, random.randrange(4)) for of in range(random.randrange(1, 12))]
    sent, start = list[tuple[int, int]](), 0
    for _ in range(random.randrange(4)):
        reached = random.randrange(start, len(inputs))
        sent += [(of, n) for of, outputs in inputs[start:reached] for n in range(outputs)]
        sent += [(inputs[reached][0], n) for n in range(random.randint(0, inputs[reached][1]))]
        start = random.randint(0, reached)
    sent += [(of, n) for of, outputs in inputs[start:] for n in range(outputs)]
    records = [output(offset, of, n) for offset, (of, n) in enumerate(sent)]
    log = rows_of(hr.ReplayGuard(ordinals="order"), [list(each) for each in cut(random, records)]).to_pylist()
    taken = [(row["root_offset"], row["value"]["n"]) for row in log if not row["replay"]]
    assert Counter(taken) == Counter(dict.fromkeys(sent, 1))
    assert all(row["ordinals"] == [row["value"]["n"]] for row in log)


def test_numbers_of_the_service_stay_and_a_record_without_a_chain_has_none() -> None:
    chains = [
        [["orders", 0, 1, 7]],
        None,
        [["orders", 0, 2], ["parts", 0, 3, 1]],
        [["orders", 0, 3, 1], ["parts", 0, 4]],
    ]
    records = [Record(0, n, b'{"n": 1}', NOW_MS, chain, dead=False) for n, chain in enumerate(chains)]
    log = rows_of(hr.ReplayGuard(ordinals="order"), [records])
    assert log["ordinals"].to_pylist() == [[7], [], [-1, 1], [1, 0]]


def test_an_order_of_records_needs_paths_that_keep_it() -> None:
    with pytest.raises(hr.DescriptionError, match="ordinals 'sequence' do not exist; there are chain, order"):
        hr.ReplayGuard(ordinals="sequence")
    with pytest.raises(hr.DescriptionError, match="ordinals 'order' numbers the records of a path"):
        hr.ReplayGuard(mode="exact", ordinals="order")
