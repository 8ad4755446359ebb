"""A stream that is full commits nothing, and goes on from there once a person raises the bound."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.engine.folding.fold_increment import Distribution, Run
from headrace.engine.folding.operators import NodeOperator, operator_of
from headrace.engine.state_files import StateSource
from headrace.errors import TerminalError
from headrace.fold.bounds import SIZE_CHANGES, FullError, Sizes, judge
from headrace.operators.time_limits.fold.limits_in_force import standing
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


class Folded:
    """A node whose state lies in files: how far it has come, which limits are set, and how much waits."""

    def __init__(self, folder: Path, how: Distribution | None = None) -> None:
        """Nothing has been folded yet."""
        self.source, self.how = StateSource(str(folder)), how or Distribution()
        self.batch, self.upto = 0, dict[str, int]()
        self.limits: list[tuple[int, str]] = []
        self.sizes: Sizes = {}

    def fold(
        self, node: Any, world: World, upto_ms: int, limits: Sequence[tuple[int, str]] = ()
    ) -> TerminalError | None:
        """Fold the log through a commit time. Out: why the stream stops before it commits; then nothing has changed."""
        operator = described(node)
        rows, times = world.increment(self.upto, {"t": upto_ms})
        times = replace(times, limits=[*self.limits, *limits])
        run = Run(kept=operator.kept, how=self.how)
        result = run.increment(operator.steps, rows, times, self.source, batch=self.batch)
        sizes, refusal = operator.kernel.judged(result.outputs, times, self.sizes)
        if refusal is None:
            self.source, self.batch = self.source.plus(result.state), result.last_batch + 1
            self.upto, self.sizes = {"t": upto_ms}, sizes
            self.limits = [*standing(times.limits, operator.node.required_name)]
        return refusal


def described(node: Any) -> NodeOperator:
    return operator_of(node.named("it"), {"result": COLUMNS})


@pytest.mark.parametrize("node", NODES.values(), ids=NODES)
@pytest.mark.parametrize("buckets", [1, 3])
def test_a_full_stream_is_refused_until_its_bound_is_raised(tmp_path: Path, node: Any, buckets: int) -> None:
    stream = Folded(tmp_path, Distribution(buckets=buckets))
    assert stream.fold(node, log_of("abc"), 2_000) is None
    refusal = stream.fold(node, log_of("abc"), 3_000)
    assert isinstance(refusal, FullError)
    assert "max_records is 2" in str(refusal)

    raised = log_of("abc", last_control=True)
    assert stream.fold(node, raised, 9_000, [(9_000, RAISED)]) is None
    assert [json.loads(row) for _, row in stream.limits] == [json.loads(RAISED)]
    refusal = stream.fold(node, log_of("abcd", last_control=True), 10_000)
    assert "max_records is 3" in str(refusal)


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
    stream, world = Folded(tmp_path), log_of("abcd")
    assert stream.fold(NODES[kind], world, 2_000) is None
    assert stream.sizes.keys() == {("t", 0)}
    assert stream.fold(suppressed(kind), world, 3_000) is None
    assert stream.sizes == {}
    assert stream.fold(NODES[kind], world, 10_000) is None
    ((records, _),) = stream.sizes.values()
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
    stream = Folded(tmp_path)
    assert stream.fold(NODES[kind], world, 1_000) is None
    assert stream.fold(suppressed(kind), world, 2_000, [(1_000, RAISED)]) is None
    refusal = stream.fold(NODES[kind], world, 3_000)
    assert isinstance(refusal, FullError)
    assert "max_records is 3" in str(refusal)
