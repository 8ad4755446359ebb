"""Folding an increment from state files leads to what the kernel's laws find, whatever the buckets, pieces and tasks."""

from __future__ import annotations

import os
import pickle
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.engine import state_groups, state_reads
from headrace.engine.folding.bucket_tasks import BucketResult, BucketTask, run_in_threads
from headrace.engine.folding.fold_increment import Compute, Distribution, Run, pieces_of
from headrace.engine.folding.operators import operator_of
from headrace.engine.state_files import StateSource
from headrace.engine.state_groups import forget_state
from headrace.engine.state_reads import read_state
from headrace.fold.contract import BATCH, DELETED, HASH, INGESTED, Clock, Needs, Step, Times
from headrace.fold.values.columns import int64
from headrace.lake.files.byte_cache import ByteCache
from headrace.operators.time_limits.fold import TimeLimit
from headrace.operators.totals.fold import Totals
from headrace.operators.windows.sliding import SlidingWindows
from tests.laws.kernel import harness
from tests.laws.kernel.harness import fates_of
from tests.laws.kernel.logs import Sequenced, World, worlds
from tests.laws.kernel.plans import ONE_GO, Plan, frontiers, plans
from tests.laws.kernel.reading import Computed, Reading
from tests.laws.kernel.relation_subjects import ITEMS, ORDERS, referring
from tests.laws.kernel.subjects import small
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast


@pytest.fixture(autouse=True, scope="module")
def merged_early() -> Iterator[None]:
    """A read of the state merges what it has after each file, as if it were many rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_reads, "UNMERGED_ROWS_MAX", 0)
        yield


FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "12")), deadline=None)
ONE = hr.Topic("one", key="key STRING", value="value BIGINT")
HOWS = st.builds(
    Distribution, buckets=st.sampled_from([1, 3]), piece_bytes=st.sampled_from([1, 900, 1 << 30])
)


def elsewhere(tasks: Sequence[BucketTask]) -> Sequence[BucketResult]:
    """Tasks go to another process and come back in no order; here a pickle is as far as they go."""
    results = {number: pickle.loads(pickle.dumps(tasks[number]))() for number in reversed(range(len(tasks)))}
    return [pickle.loads(pickle.dumps(results[number])) for number in range(len(tasks))]


def fold_log(
    folder: Path,
    steps: Sequence[Step],
    world: Any,
    plan: Plan,
    how: Distribution,
    compute: Compute | None = None,
) -> tuple[dict[str, list[pa.Table]], Counter[Any]]:
    """The outputs and fates of a whole log; the state lies in files that no commit names.

    About every other micro-batch reads them as a process that has just begun, the others remember what they wrote.
    """
    state, upto, batch = StateSource(str(folder)), dict[str, int](), 0
    outputs: dict[str, list[pa.Table]] = defaultdict(list)
    fates: Counter[Any] = Counter()
    for frontier in frontiers(world, plan):
        rows, times = world.increment(upto, frontier)
        if (plan.seed + batch) % 2:
            forget_state()
        found = Run(how=how, compute=compute).increment(steps, rows, times, state, batch=batch)
        state, batch, upto = state.plus(found.state), found.last_batch + 1, frontier
        for name, tables in found.outputs.items():
            outputs[name] += tables
        fates.update(fates_of(found.tally))
    return outputs, fates


def as_rows(tables: Sequence[pa.Table]) -> list[str]:
    return sorted(repr(row) for table in tables for row in table.to_pylist())


@FEW
@given(worlds(small, pa.int64(), ("one",)), plans(), HOWS)
def test_sliding_windows(
    tmp_path_factory: pytest.TempPathFactory, world: World, plan: Plan, how: Distribution
) -> None:
    made = ONE.group_by("key").window(hr.sliding("4 seconds"), grace="2 seconds").aggregate(n=hr.count())
    steps = SlidingWindows.of(made.suppress(hr.until_window_closes()), world.schema).steps
    outputs, fates = fold_log(tmp_path_factory.mktemp("state"), steps, world, plan, how)
    expected = harness.run(steps, world, ONE_GO)
    assert as_rows(outputs["results"]) == as_rows(expected.outputs["results"])
    assert +fates == +expected.fates


@FEW
@given(
    worlds(small, pa.int64(), ("one",), controls=("set_limits",)),
    plans(),
    HOWS,
    st.sampled_from([{}, {"max_records": 2, "when_full": "emit_early"}]),
)
def test_time_limits_of_several_steps_and_shared_rows(
    tmp_path_factory: pytest.TempPathFactory,
    world: World,
    plan: Plan,
    how: Distribution,
    bound: dict[str, Any],
) -> None:
    made = ONE.group_by("key").aggregate(n=hr.count())
    node = made.suppress(hr.until_time_limit("5 seconds", **bound)).named("limited")
    steps = TimeLimit.of(node, world.schema).steps
    outputs, fates = fold_log(tmp_path_factory.mktemp("state"), steps, world, plan, how)
    expected = harness.run(steps, world, ONE_GO)
    assert as_rows(outputs["results"]) == as_rows(expected.outputs["results"])
    assert as_rows(outputs["waiting"]) == as_rows(expected.outputs["waiting"])
    assert +fates == +expected.fates


@FEW
@given(referring("orders", "items"), plans(), HOWS)
def test_joins_with_tasks_in_other_processes_and_in_threads(
    tmp_path_factory: pytest.TempPathFactory, world: World, plan: Plan, how: Distribution
) -> None:
    node = ORDERS.table().join(ITEMS.table(), on="item", how="left")
    both = Reading(node.named("it"), world, changes=True)
    steps = both.operator.steps
    assert all(step.threads for step in steps)
    expected = harness.run(steps, both, ONE_GO)
    for run in (elsewhere, run_in_threads):
        how = Distribution(how.buckets, how.piece_bytes, run)
        outputs, fates = fold_log(tmp_path_factory.mktemp("state"), steps, both, plan, how)
        assert as_rows(outputs["changes"]) == as_rows(expected.outputs["changes"])
        assert +fates == +expected.fates


def labelled(left: Mapping[str, Any], right: Mapping[str, Any] | None) -> dict[str, Any]:
    """What SQL would compute of `kind || '!' AS label`."""
    kind = right and right["kind"]
    return {"label": kind and f"{kind}!"}


LABELLED = Computed("result", pa.schema([("id", pa.string()), ("label", pa.string())]), labelled)


@FEW
@given(referring("orders", "items"), plans(), HOWS)
def test_values_that_sql_computes_between_two_steps(
    tmp_path_factory: pytest.TempPathFactory, world: World, plan: Plan, how: Distribution
) -> None:
    node = ORDERS.table().join(ITEMS.table(), on="item", select=("kind || '!' AS label",)).named("it")
    both = Reading(node, world, changes=True, computed=LABELLED)
    operator = both.operator
    assert {"label"} < {*operator.kept["results"].schema.names}
    found, plain = (
        fold_log(tmp_path_factory.mktemp("state"), operator.steps, both, *each, LABELLED.for_kernel)[0][
            "changes"
        ]
        for each in ((plan, how), (ONE_GO, Distribution()))
    )
    assert as_rows(found) == as_rows(plain)
    labels = {row["label"] for rows in found for row in rows.to_pylist() if not row["__deleted"]}
    assert all(label is None or label.endswith("!") for label in labels)


@FEW
@given(worlds(small, pa.int64(), ("one", "two")), st.integers(1, 3_000))
def test_pieces_are_the_increment(world: World, bytes_max: int) -> None:
    rows, times = world.increment({}, dict.fromkeys(world.topics, 1 << 60))
    pieces = pieces_of(rows, times, bytes_max)
    assert as_rows([piece for piece, _ in pieces]) == as_rows([rows])
    assert [at for _, each in pieces for at, _ in each.commits] == [at for at, _ in times.commits]
    assert [at for _, each in pieces for at in each.drains] == [*times.drains]
    assert pieces[0][1].before == times.before
    assert pieces[-1][1].after == times.after
    for (_, one), (_, other) in pairwise(pieces):
        assert one.after == one.commits[-1][1] == other.before
    for piece, each in pieces:
        assert {*int64(piece[INGESTED]).tolist()} <= {at for at, _ in each.commits}
        assert piece.nbytes <= bytes_max or len({*int64(piece[INGESTED]).tolist()}) <= 1


def test_limits_of_earlier_pieces_stand_at_the_beginning_of_later_ones() -> None:
    clocks = [(at, Clock({"t": at})) for at in (10, 20, 30)]
    times = Times(Clock(), clocks[-1][1], clocks, [10, 30], [(0, "a"), (10, "b"), (30, "c")])
    rows = pa.table({INGESTED: pa.array([30, 10, 20])})
    pieces = pieces_of(rows, times, 1)
    assert [[*each.limits] for _, each in pieces] == [
        [(0, "a"), (10, "b")],
        [(0, "a"), (0, "b")],
        [(0, "a"), (0, "b"), (30, "c")],
    ]
    assert [[*each.drains] for _, each in pieces] == [[10], [], [30]]
    assert [piece[INGESTED].to_pylist() for piece, _ in pieces] == [[10], [20], [30]]


def test_outputs_go_into_files_that_name_their_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        state_groups, "GROUPS", ByteCache(0)
    )  # so that the second piece reads what the first wrote
    commits = [(at, Clock({"one": at}, {("one", 0): at}, lowest_ms=at)) for at in (10, 20)]
    times = Times(Clock(), commits[-1][1], commits)
    row = {"key": "a", "value": 1, "__topic": "one", "__partition": 0, "__event_ms": 5, "__size_bytes": 1}
    schema = World([], pa.int64()).schema
    rows = [{**row, INGESTED: at, "__offset": at, "__stream_ms": at} for at in (10, 20)]
    table = pa.table([[each.get(name) for each in rows] for name in schema.names], schema=schema)

    steps = Totals.of(ONE.group_by("key").aggregate(n=hr.count()), schema).steps
    run = Run({"results": str(tmp_path / "results")}, how=Distribution(piece_bytes=1))
    found = run.increment(steps, table, times, StateSource(str(tmp_path / "state")), batch=7)
    assert found.last_batch == 8
    assert not found.outputs

    written = [pq.read_table(tmp_path / "results" / file.path) for file in found.written["results"]]
    assert [each["n"].to_pylist() for each in written] == [[1], [2]]
    assert not any(HASH in each.column_names for each in written)
    assert found.read.bytes > 0


def test_outputs_that_the_state_keeps_lie_in_its_files(tmp_path: Path) -> None:
    world = World(
        [Sequenced("one", sequence([Commit(10, [Arrival(0, "a", 5, 1, "record")])], None, 60_000))],
        pa.int64(),
    )
    rows, times = world.increment({}, {"one": 10})
    columns = pa.schema([("key", pa.string()), ("value", pa.int64())])
    operator = operator_of(ONE.group_by("key").aggregate(n=hr.count()).named("it"), {"result": columns})
    source = StateSource(str(tmp_path))
    found = Run(kept=operator.kept).increment(operator.steps, rows, times, source, batch=7)
    assert not found.outputs
    kept = read_state(source.plus(found.state), operator.layout, "results", Needs()).rows
    assert [(row["n"], row[DELETED], row[BATCH]) for row in kept.to_pylist()] == [(1, False, 7)]
