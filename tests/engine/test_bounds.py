"""A stream that is full commits nothing, and goes on from there once a person raises the bound."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.engine.fold_increment import Distribution
from headrace.engine.node_state import NodeState, NodeTables
from headrace.engine.operators import operator_of
from headrace.fold.bounds import SIZE_CHANGES, FullError, judge
from tests.laws.kernel.logs import Control, Sequenced, World
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

TOPIC = hr.Topic("t", key="key STRING", value="value BIGINT")
COLUMNS = pa.schema([("key", pa.string()), ("value", pa.int64())])
FULL: dict[str, Any] = {"max_records": 2, "when_full": "shut_down"}
COUNTS = TOPIC.group_by("key").aggregate(n=hr.count())
KINDS: dict[str, Any] = {
    "tumbling": hr.tumbling("10 seconds"),
    "sliding": hr.sliding("10 s"),
    "session": hr.session("10 s"),
}


def suppressed(kind: str, **bound: Any) -> Any:
    if kind == "time limit":
        return COUNTS.suppress(hr.until_time_limit("1 hour", **bound))
    counts = TOPIC.group_by("key").window(KINDS[kind], grace=0).aggregate(n=hr.count())
    return counts.suppress(hr.until_window_closes(**bound))


NODES = {kind: suppressed(kind, **FULL) for kind in (*KINDS, "time limit")}
BOUND = hr.until_window_closes(**FULL).bound
RAISED = json.dumps({"node": "it", "limits": {"max_records": 3}})


def log_of(keys: str, last_control: bool = False) -> World:
    """One log commit for each key, at 1000, 2000, 3000, 10000; all event times fall into one window."""
    commits = [
        Commit(at, [Arrival(0, key, 100 + n, n, "record")])
        for n, (at, key) in enumerate(zip((1_000, 2_000, 3_000, 10_000), keys, strict=False))
    ]
    controls = [Control(9_000, "set_limits", RAISED)] if last_control else []
    return World([Sequenced("t", sequence(commits, None, 60_000), controls)], pa.int64())


def opened(node: Any, folder: Path) -> NodeState:
    """The state of a node whose tables lie in a folder."""
    operator = operator_of(node.named("it"), {"result": COLUMNS})
    uris = {"results": str(folder / "results")}
    return NodeState(NodeTables.create(operator, str(folder / "state"), uris))


@pytest.mark.parametrize("node", NODES.values(), ids=NODES)
@pytest.mark.parametrize("buckets", [1, 3])
def test_a_full_stream_commits_nothing_until_its_bound_is_raised(
    tmp_path: Path, node: Any, buckets: int
) -> None:
    how = Distribution(buckets=buckets)
    state, world = opened(node, tmp_path), log_of("abc")
    rows, times = world.increment({}, {"t": 2_000})
    found = state.fold(rows, times, how)
    assert found is not None
    state.commit(found, times)
    versions = state.tables.state.version, state.tables.outputs["results"].version
    rows, times = world.increment({"t": 2_000}, {"t": 3_000})
    with pytest.raises(FullError, match="max_records is 2"):
        state.fold(rows, times, how)
    assert (state.tables.state.version, state.tables.outputs["results"].version) == versions

    rows, times = log_of("abc", last_control=True).increment({"t": 2_000}, {"t": 9_000})
    times = replace(times, limits=[(9_000, RAISED)])
    found = state.fold(rows, times, how)
    assert found is not None
    state.commit(found, times)
    again = opened(node, tmp_path)
    assert again.progress == state.progress
    assert [json.loads(said) for _, said in again.progress.limits] == [json.loads(RAISED)]
    rows, times = log_of("abcd", last_control=True).increment({"t": 9_000}, {"t": 10_000})
    with pytest.raises(FullError, match="max_records is 3"):
        again.fold(rows, times, how)


def test_windows_that_were_open_before_the_bound_was_described_leave_no_debt() -> None:
    """They were not counted. Once they have closed, as many new ones as ever are too many."""
    changes = [(1_000, -5), (2_000, 2), (3_000, 1)]
    rows = [(at, "t", 0, records, 10 * records) for at, records in changes]
    table = pa.Table.from_pylist(
        [dict(zip(SIZE_CHANGES.names, row, strict=True)) for row in rows], SIZE_CHANGES
    )
    sizes, refused = judge({}, [table], lambda at_ms: BOUND, "it", "open windows")
    assert sizes == {("t", 0): (3, 30)}
    assert "3 records of open windows would wait" in str(refused)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_that_was_away_for_a_while_counts_no_windows_that_have_closed_meanwhile(
    tmp_path: Path, kind: str
) -> None:
    """A node may spill and shut down in turns: neither alters its rows, so it goes on from its state."""
    spills, world = suppressed(kind), log_of("abcd")

    def fold(node: Any, after_ms: int, upto_ms: int) -> NodeState:
        state = opened(node, tmp_path)
        rows, times = world.increment({"t": after_ms} if after_ms else {}, {"t": upto_ms})
        found = state.fold(rows, times)
        assert found is not None
        state.commit(found, times)
        return state

    assert fold(NODES[kind], 0, 2_000).progress.sizes.keys() == {("t", 0)}
    assert fold(spills, 2_000, 3_000).progress.sizes == {}
    ((records, _),) = fold(NODES[kind], 3_000, 10_000).progress.sizes.values()
    assert records == 1  # the one of `d`


@pytest.mark.parametrize("kind", NODES)
def test_a_bound_that_was_set_is_in_force_again_after_a_node_spilled_for_a_while(
    tmp_path: Path, kind: str
) -> None:
    keys = ["a", "b", "cdef"]  # of three log commits
    commits = [
        Commit(at, [Arrival(0, key, 100, at, "record") for key in each])
        for at, each in zip((1_000, 2_000, 3_000), keys, strict=True)
    ]
    world = World([Sequenced("t", sequence(commits, None, 60_000), [])], pa.int64())
    increments = [({}, 1_000, NODES[kind]), ({"t": 1_000}, 2_000, suppressed(kind))]
    for before, upto_ms, node in increments:
        state = opened(node, tmp_path)
        rows, times = world.increment(before, {"t": upto_ms})
        times = replace(times, limits=[] if before else [(1_000, RAISED)])
        found = state.fold(rows, times)
        assert found is not None
        state.commit(found, times)
    with pytest.raises(FullError, match="max_records is 3"):
        opened(NODES[kind], tmp_path).fold(*world.increment({"t": 2_000}, {"t": 3_000}))
