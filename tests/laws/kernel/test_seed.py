"""A log that begins with a seed, in any number of pieces, has the rows that one commit of it would have."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LogState, PartitionState
from headrace.sequence.seed_pieces import SeedState
from headrace.sequence.sequence_records import RECORDS, Sequencer
from tests.laws.kernel.records import NOW_MS

pytestmark = pytest.mark.fast

TOPIC = hr.Topic("readings", key="id STRING", value="n INT")
FIRSTS = {0: -7, 1: 40, 5: 0}


def archive(random: Random) -> list[tuple[int, int, int]]:
    """Partition, offset and time of rows; some offsets are missing, as in a compacted topic."""
    rows = []
    for partition, first in FIRSTS.items():
        last = first + random.randrange(12)
        inner = [offset for offset in range(first + 1, last) if random.random() < 0.8]
        rows += [
            (partition, at, NOW_MS - random.randrange(50)) for at in dict.fromkeys([first, *inner, last])
        ]
    return rows


def raw(rows: list[tuple[int, int, int]]) -> pa.Table:
    columns = [[p, at, b"k", b'{"n": 1}', ms, [], []] for p, at, ms in rows]
    return pa.table([*zip(*columns, strict=True)] or [()] * len(RECORDS), schema=RECORDS)


def seed_of(rows: list[tuple[int, int, int]], pieces: int) -> SeedState:
    offsets = {p: [at for q, at, _ in rows if q == p] for p in FIRSTS}
    first, last = ({p: end(found) for p, found in offsets.items()} for end in (min, max))
    return SeedState("archive", None, first, last, None, pieces)


def begun(seed: SeedState) -> LogState:
    partitions = {p: PartitionState(offset) for p, offset in seed.first.items()}
    return LogState(partitions=partitions, seed=seed).after(1, [])


@given(random=st.integers(0, 2**32).map(Random), pieces=st.integers(1, 9), crash=st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_rows_of_a_seed_do_not_depend_on_its_pieces(random: Random, pieces: int, crash: bool) -> None:
    rows = archive(random)
    sequencer, seed = Sequencer(RecordFormat.of(TOPIC)), seed_of(rows, pieces)
    at_once = sequencer.sequence(raw(rows), begun(seed), None, NOW_MS)
    state, found = begun(seed), []
    while state.seed is not None:
        for piece in state.seed.left(state.next_offsets):
            part = [row for row in rows if row[1] in piece.get(row[0], range(0))]
            commit = sequencer.sequence(raw(part), state, None, NOW_MS)
            found.append(commit.rows)
            state = LogState.from_json(json.loads(json.dumps(commit.state.to_json())))
            if crash and random.random() < 0.5:
                break  # the next process asks what is left
    order = [("partition", "ascending"), ("offset", "ascending")]
    assert pa.concat_tables(found).sort_by(order).equals(at_once.rows.sort_by(order))
    assert state.partitions == at_once.state.partitions
    assert at_once.state.seed is None
    assert state.next_offsets == {p: last + 1 for p, last in seed.last.items()}


@given(spans=st.dictionaries(st.integers(0, 9), st.integers(1, 30), min_size=1), pieces=st.integers(1, 50))
def test_pieces_cover_each_offset_once_and_the_first_has_every_partition(
    spans: dict[int, int], pieces: int
) -> None:
    first = {p: -2 * p for p in spans}
    last = {p: first[p] + span - 1 for p, span in spans.items()}
    found = [*SeedState("archive", 3, first, last, None, pieces).left({})]
    covered = {p: [at for piece in found for at in piece.get(p, range(0))] for p in spans}
    assert covered == {p: [*range(first[p], last[p] + 1)] for p in spans}
    assert found[0].keys() == spans.keys()
    assert len(found) <= pieces


def test_a_log_is_not_complete_before_all_of_its_seed_is_read() -> None:
    ends = {0: 3, 1: 0}
    seed = SeedState("archive", None, {0: -2}, {0: 0}, {0: 3}, 1)
    begun = LogState(2, 5, None, {0: PartitionState(3)}, seed=seed, first_ends=ends)
    assert not begun.is_newly_complete
    read = LogState.from_json(json.loads(json.dumps(replace(begun, seed=None).to_json())))
    assert read.is_newly_complete
    assert (read.first_ends, read.knows_first_ends) == (ends, True)
    assert not replace(read, first_ends={0: 4}).is_newly_complete
    done = LogState.from_json(json.loads(json.dumps(read.completed().to_json())))
    assert (done.complete, done.knows_first_ends, done.is_newly_complete) == (True, True, False)


def test_a_log_without_a_seed_writes_the_state_that_it_always_wrote() -> None:
    assert {"seed", "raw", "first_ends", "complete"}.isdisjoint(LogState(3, 5).to_json())
