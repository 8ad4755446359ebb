"""What a node's tables say after each commit of a micro-batch, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace import lake
from headrace.description import Node
from headrace.engine.fold_increment import Distribution
from headrace.engine.node_state import NodeState, NodeTables
from headrace.engine.operators import operator_of
from headrace.engine.output_tables import output_tables
from headrace.engine.progress import Progress
from headrace.errors import TerminalError
from headrace.fold.contract import Clock, Times
from tests.engine.node_driver import current_rows
from tests.laws.kernel.logs import Sequenced, World
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

TOPIC = hr.Topic("t", key="key STRING", value="value BIGINT")
COLUMNS = pa.schema([("key", pa.string()), ("value", pa.int64())])
COUNTS = TOPIC.group_by("key").aggregate(n=hr.count(), total=hr.sum("value")).named("counts")
BATCHES = TOPIC.group_by("key").batch(collect=["value"], max_records=1).named("batches")
COMMITS = [
    Commit(1_000 * n, [Arrival(n % 2, key, 100 + n, n, "record") for key in "ab"]) for n in range(1, 5)
]
WORLD = World([Sequenced("t", sequence(COMMITS, None, 60_000))], pa.int64())
PIECES = Distribution(buckets=2, piece_bytes=1)


def opened(folder: Path, node: Node = COUNTS) -> NodeState:
    lake.forget(str(folder))
    operator = operator_of(node, {"result": COLUMNS})
    uris = {name: str(folder / name) for name in output_tables(operator)}
    return NodeState(NodeTables.create(operator, str(folder / "state"), uris))


def increment(state: NodeState, through: int) -> tuple[pa.Table, Times]:
    return WORLD.increment({**state.progress.clock.upto_ms}, {"t": through})


def shown(state: NodeState) -> dict[Any, Any]:
    rows = current_rows(state.tables)
    return {row["key"]: (row["n"], row["total"]) for row in rows.to_pylist()}


def test_outputs_without_state_are_due_again_and_written_once(tmp_path: Path) -> None:
    state = opened(tmp_path, BATCHES)
    rows, times = increment(state, 2_000)
    found = state.fold(rows, times, PIECES)
    assert found is not None
    state.commit_outputs(found, times)
    version = state.tables.outputs["results"].version

    again = opened(tmp_path, BATCHES)
    assert again.progress == Progress()
    assert again.pending == {"t": 2_000}
    with pytest.raises(TerminalError, match="pending"):
        again.fold(*increment(again, 4_000))
    repeated = again.fold(
        *increment(again, 2_000)
    )  # in one piece: its rows have a lower BATCH than those there
    assert repeated is not None
    assert repeated.last_batch == 0
    assert not repeated.written
    again.commit(repeated, times)
    assert again.pending is None
    assert again.tables.outputs["results"].version == version + 1, "nothing but the epoch was committed"
    assert again.progress.batch == found.last_batch == 1

    rows, times = increment(again, 3_000)
    found = again.fold(rows, times)
    assert found is not None
    again.commit(found, times)
    assert again.tables.outputs["results"].snapshot().rows == 6


def test_changes_that_are_there_are_not_written_again_with_the_rows_after_them(tmp_path: Path) -> None:
    operator = operator_of(TOPIC.table().named("latest"), {"result": COLUMNS}, changes=True)
    assert {*output_tables(operator)} == {"changes"}

    def started() -> NodeState:
        lake.forget(str(tmp_path))
        uris = {"changes": str(tmp_path / "changes")}
        return NodeState(NodeTables.create(operator, str(tmp_path / "state"), uris))

    state = started()
    rows, times = increment(state, 2_000)
    found = state.fold(rows, times)
    assert found is not None
    state.commit_outputs(found, times)  # the process ends before the second commit
    assert current_rows(started().tables).num_rows == 0

    again = started()
    assert again.pending == {"t": 2_000}
    repeated = again.fold(rows, times)
    assert repeated is not None
    assert not repeated.written
    again.commit(repeated, times)
    assert again.tables.outputs["changes"].snapshot().rows == 4
    assert sorted(current_rows(again.tables)["key"].to_pylist()) == ["a", "b"]


def test_a_micro_batch_that_was_folded_is_recognised_and_one_from_elsewhere_refused(tmp_path: Path) -> None:
    state = opened(tmp_path)
    rows, times = increment(state, 2_000)
    found = state.fold(rows, times)
    assert found is not None
    state.commit(found, times)
    again = opened(tmp_path)
    assert again.fold(rows, times) is None
    rows, times = WORLD.increment({"t": 1_000}, {"t": 3_000})
    with pytest.raises(TerminalError, match="and the node stands at"):
        again.fold(rows, times)


def test_a_newer_process_ends_the_older_one_before_it_commits_anything(tmp_path: Path) -> None:
    older = opened(tmp_path)
    rows, times = increment(older, 2_000)
    found = older.fold(rows, times)
    assert found is not None
    newer = opened(tmp_path)
    with pytest.raises(lake.FencedError):
        older.commit(found, times)
    assert newer.progress == opened(tmp_path).progress == Progress()
    assert shown(newer) == {}


def test_fates_are_counted_once_whatever_happens(tmp_path: Path) -> None:
    for through in (1_000, 1_000, 4_000):
        state = opened(tmp_path)
        rows, times = increment(state, through)
        if (found := state.fold(rows, times, PIECES)) is not None:
            state.commit(found, times)
    assert state.progress.fates == {("t", 0, "kept"): 4, ("t", 1, "kept"): 4}
    assert opened(tmp_path).progress == state.progress


def test_progress_is_what_its_record_says() -> None:
    progress = Progress(
        7,
        Clock({"t": 9, "ü": 3}, {("t", 0): 5, ("ü", 1): -1}),
        {("t", 0, "kept"): 3},
        [(0, '{"node": "n"}')],
        {("t", 0): (1, 2)},
    )
    assert Progress.of_record(progress.record) == progress
