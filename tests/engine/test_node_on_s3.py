"""A node whose tables lie in a real S3 server: folds by ranges of bytes, a crash, compaction."""

from __future__ import annotations

import pyarrow as pa
import pytest

import headrace as hr
from headrace import lake
from headrace.engine.fold_increment import Distribution
from headrace.engine.node_state import NodeState, NodeTables
from headrace.engine.operators import operator_of
from headrace.engine.state_groups import forget_state
from tests.engine.node_driver import current_rows
from tests.laws.kernel.logs import Sequenced, World
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.s3

TOPIC = hr.Topic("t", key="key STRING", value="value BIGINT")
LATEST = TOPIC.table().named("latest")
COMMITS = [Commit(1_000 * n, [Arrival(0, key, 100 + n, n, "record") for key in "abü"]) for n in range(1, 5)]


def test_a_node_goes_on_after_a_crash_and_is_compacted(s3_root: str) -> None:
    world = World([Sequenced("t", sequence(COMMITS, None, 60_000))], pa.int64())
    columns = pa.schema([("key", pa.string()), ("value", pa.int64())])
    operator = operator_of(LATEST, {"result": columns}, changes=True)

    def opened() -> NodeState:
        """As in a new process: nothing is remembered."""
        lake.forget()
        forget_state()
        return NodeState(NodeTables.create(operator, f"{s3_root}/state", {"changes": f"{s3_root}/changes"}))

    state = opened()
    for through in (1_000, 2_000, 4_000):
        rows, times = world.increment({**state.progress.clock.upto_ms}, {"t": through})
        forget_state()
        found = state.fold(rows, times, Distribution(buckets=2, piece_bytes=1))
        assert found is not None
        state.commit_outputs(found, times)
        if through == 2_000:
            state = opened()
            assert state.pending == {"t": 2_000}
            found = state.fold(rows, times)
            assert found is not None
        state.commit_state(found, times)
        assert (found.bytes_read > 0) == (through > 1_000)
    assert state.compact_state(lake.TableWriter(state.tables.state, lake.MAINTAINER), runs_max=1) == 2
    again = opened()
    shown = current_rows(again.tables).select(["key", "value"]).sort_by("key")
    assert shown.to_pylist() == [{"key": key, "value": 4} for key in "abü"]
    assert again.tables.outputs["changes"].snapshot().rows == 12
    assert len(again.tables.state.snapshot().files) == 2
