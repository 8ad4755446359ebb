"""Nodes in real Delta tables: any cuts, buckets, pieces, crashes and compactions lead to what plain Python finds."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description.feeds import feeds_of
from headrace.engine.fold_increment import Distribution
from headrace.engine.operators import operator_of
from headrace.fold.contract import ROW_COLUMNS
from tests.engine.node_driver import HOWS, Driver
from tests.laws.kernel import test_kernel_batches as of_batches
from tests.laws.kernel import test_kernel_sessions as of_sessions
from tests.laws.kernel import test_kernel_tables as of_tables
from tests.laws.kernel import test_kernel_totals as of_totals
from tests.laws.kernel import test_kernel_windows as of_windows
from tests.laws.kernel.harness import Plan, plans
from tests.laws.kernel.logs import World, worlds
from tests.laws.kernel.relation_worlds import as_log, relation_worlds, schema_of
from tests.oracle.relations_oracle import changes, table
from tests.oracle.running_oracle import totals_of
from tests.oracle.sessions_oracle import sessions
from tests.oracle.windows_oracle import windows

pytestmark = pytest.mark.fast

FEW = settings(
    max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "6")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
LONGS = st.one_of(st.none(), st.integers(-5, 5), st.integers(-(10**12), 10**12))
SEEDS = st.integers(0, 2**32 - 1)
Folders = pytest.TempPathFactory


def driven(
    folders: Folders, node: Any, schema: pa.Schema, how: Distribution, seed: int, *, changes: bool = False
) -> Driver:
    named = node.named("subject")
    columns = pa.schema([field for field in schema if field.name not in ROW_COLUMNS.names])
    operator = operator_of(named, dict.fromkeys(feeds_of(named), columns), changes=changes)
    return Driver(folders.mktemp("node"), operator, how, seed)


@FEW
@given(worlds(LONGS, pa.int64(), ("t", "u")), plans(apart=True), of_windows.SHAPES, HOWS, SEEDS)
def test_windows(
    tmp_path_factory: Folders,
    world: World,
    plan: Plan,
    shape: tuple[int, int, int],
    how: Distribution,
    seed: int,
) -> None:
    driver = driven(tmp_path_factory, of_windows.node(shape, world.topics, "BIGINT"), world.schema, how, seed)
    found = driver.run(world, plan)
    expected = windows([each.log for each in world.logs], *of_windows.in_ms(shape))
    of_windows.compare(of_windows.by_window(found.rows()), expected.final)
    state, kernel = found.state[0]["panes"], driver.operator.kernel
    still = kernel.open_windows(state, found.clock).to_pylist()
    of_windows.compare(of_windows.by_window(still), expected.open)
    assert of_windows.ledger(found, kernel, state) == of_windows.fates(world, expected)


@FEW
@given(worlds(LONGS, pa.int64(), ("t", "u")), plans(apart=True), HOWS, SEEDS)
def test_totals(tmp_path_factory: Folders, world: World, plan: Plan, how: Distribution, seed: int) -> None:
    driver = driven(tmp_path_factory, of_totals.node("BIGINT", *world.topics), world.schema, how, seed)
    found = driver.run(world, plan)
    expected = totals_of([(each.topic, each.log) for each in world.logs])
    rows = found.current(["key"])
    assert {key for (key,) in rows} == {*expected.rows}
    for (key,), row in rows.items():
        row["ts"] = row["__timestamp"]
        row["place"] = tuple(row[name] for name in ("__sequence", "__topic", "__partition", "__offset"))
        for name, wanted in expected.rows[key].items():
            assert of_totals.alike(row[name], wanted), (key, name, row[name], wanted)
    assert found.fates == {place: n for place, n in expected.fates.items() if n}


@FEW
@given(relation_worlds("one", "two"), plans(), st.sampled_from(of_tables.NODES), st.booleans(), HOWS, SEEDS)
def test_tables_and_their_changes(
    tmp_path_factory: Folders,
    world: World,
    plan: Plan,
    subject: tuple[Any, str],
    with_changes: bool,
    how: Distribution,
    seed: int,
) -> None:
    node, order_by = subject
    mine = World(world.logs[: len(node.topics)], world.value)
    driver = driven(tmp_path_factory, node, schema_of(of_tables.NAMES), how, seed, changes=with_changes)
    found = driver.run(of_tables.Flat(mine, passes=bool(node.conditions)), plan)
    log = as_log(mine, dict.fromkeys(mine.topics, of_tables.NAMES))
    keeps = of_tables.keeps_of(node)
    wanted = table(of_tables.all_of(log), order_by, keeps)
    assert of_tables.values(found) == {key: row for key, (_, row) in wanted.items()}
    assert found.fates == of_tables.fates(mine)
    if with_changes:
        expected = changes(log, lambda some, upto: table(of_tables.all_of(some), order_by, keeps))
        assert of_tables.changed(found) == expected


@FEW
@given(
    st.sampled_from(of_batches.LIMITS),
    worlds(of_batches.VALUES, pa.int64(), ("one", "two"), controls=of_batches.DRAINS),
    plans(),
    HOWS,
    SEEDS,
)
def test_batches(
    tmp_path_factory: Folders,
    limits: dict[str, Any],
    world: World,
    plan: Plan,
    how: Distribution,
    seed: int,
) -> None:
    stream = of_batches.ONE.merge(of_batches.TWO)
    node = stream.group_by("key").batch(collect=["value", "key"], **limits)
    driver = driven(tmp_path_factory, node, world.schema, how, seed)
    assert driver.operator.ordered
    found = driver.run(world, plan)
    mine = of_batches.batched(limits, world)
    expected = of_batches.batches_of(world, mine)
    assert of_batches.shown(found) == [of_batches.as_shown(batch) for batch in expected.closed]
    assert of_batches.fates(mine, found) == +expected.fates


@FEW
@given(st.sampled_from(of_sessions.SHAPES), worlds(of_sessions.VALUES, pa.int64()), plans(), HOWS, SEEDS)
def test_sessions(
    tmp_path_factory: Folders,
    shape: tuple[int, int],
    world: World,
    plan: Plan,
    how: Distribution,
    seed: int,
) -> None:
    gap, grace = shape
    node = (
        of_sessions.TOPIC.group_by().window(hr.session(gap), grace=grace).aggregate(**of_sessions.AGGREGATES)
    )
    driver = driven(tmp_path_factory, node, world.schema, how, seed)
    found, log = driver.run(world, plan), world.logs[0].log
    expected = sessions(log, gap, grace)
    assert of_sessions.shown(found.rows()) == of_sessions.wanted(expected.final, log)
    (state,) = found.state[-1].values()
    kernel = driver.operator.kernel
    still = kernel.open_sessions(state, found.clock).to_pylist()
    assert of_sessions.shown(still) == of_sessions.wanted(expected.open, log)
    waiting = Counter[int]()
    for row in kernel.open_records(state, found.clock).to_pylist():
        waiting[row["__partition"]] += row["__records"]
    assert of_sessions.fates(found, waiting) == +expected.fates
