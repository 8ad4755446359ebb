"""A node's log that is written again after its topics were cut has the rows that it had. No Spark."""

from __future__ import annotations

import shutil
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.description import output_name
from headrace.description.clocks import WALL
from headrace.engine.slices.log_slices import LogSlice, Origin
from headrace.fold.values.columns import moments
from headrace.lake import kinds
from headrace.lake.files.data_file import DataFileWriter, Encoding, NewFile
from headrace.lake.paths import Lake
from headrace.log.commit_row import CommitRow
from headrace.log.decision_rows import Decision, LogFolder, write_decisions
from headrace.log.decisions.limits import limits_entry
from headrace.nodes.progress import Progress
from headrace.sequence.log_columns import CONTROL, log_schema
from headrace.sequence.log_state import LogState, PartitionState
from headrace.spark.one_task import arrow_schema
from headrace.writing.node_logs.node_log import NodeLog
from tests.runtime.test_limits_in_chains import CALM, RESULTS, VISITS, types_without_spark

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.description import Node

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures(types_without_spark.__name__)]

NOW = VISITS.table().suppress(hr.until_time_limit("5 seconds", clock=WALL)).named("now")
CUT_MS = 30
# Of each log commit its time, the stream times of both partitions, the highest event time, whether the topic is idle, and a
# limit that is set there, in seconds.
COMMITS = (
    (10, (100, 100), 100, False, None),
    (20, (200, 100), 200, False, 60),
    (30, (200, 110), 200, False, None),
    (40, (200, 110), 200, True, None),
    (50, (300, 300), 200, True, None),
)


def write_log(lake: Lake, node: Node, commits: Sequence[Any]) -> None:
    """The log of the topic."""
    uri, schema = lake.log("visits"), arrow_schema(log_schema(VISITS))
    log = lakes.TableWriter(lakes.create(uri, schema, kinds.log(())), lakes.APPENDER)
    state = LogState()
    for at_ms, seconds, event, is_idle, limit in commits:
        partitions = {
            of: PartitionState(0, stream_ms=ms * 1_000, record_at_ms=20) for of, ms in enumerate(seconds)
        }
        state = replace(
            state,
            ingested_at_ms=at_ms,
            batch=state.batch + 1,
            partitions=partitions,
            highest_event_ms=event * 1_000,
            idle=is_idle,
        )
        limits = [] if limit is None else [limits_entry(node.required_name, {"limit_ms": limit * 1_000}, "")]
        rows = [Decision(0, seconds[0] * 1_000, each) for each in [CommitRow(state, {}).to_json(), *limits]]
        log.append(
            [write_decisions(LogFolder(uri, schema), "visits", CONTROL, at_ms, rows)],
            {"writer": "log/visits"},
        )


def rows_of(lake: Lake, node: Node) -> list[str]:
    """The rows of the node's log, in any order."""
    moment = pa.timestamp("us", "UTC")
    columns = dict.fromkeys(("ingested_at", "stream_time", "clock", "timestamp"), moment)
    types = {**columns, "kind": pa.string(), "control": pa.string(), "offset": pa.int64()}
    read = LogSlice.of(lake.log(output_name(node)), 0, 100).read(
        {name: Origin((name,), of) for name, of in types.items()}
    )
    return sorted(map(repr, read.to_pylist()))


@pytest.mark.parametrize("node", [CALM, NOW], ids=["stream", "wall"])
def test_times_limits_and_idleness_are_those_from_before_the_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: Node
) -> None:
    """The topic falls silent after the cut, while a record from before it waits: the log is not idle until that has left."""
    lake = Lake(f"file:{tmp_path}/whole")
    write_log(lake, node, COMMITS)
    table = lakes.create(lake.table(node.required_name), RESULTS, kinds.RESULTS)
    left_ms = np.array([25 if node is NOW else 30, 50])  # by the wall clock a row leaves between two commits
    times = {"__sequence": pa.array(left_ms), "__timestamp": pa.array([100_000, 200_000])}
    values = {
        "id": pa.array(["a", "b"]),
        "pages": pa.array([1, 2], pa.int32()),
        "key_deleted": pa.array([False] * 2),
    }
    rows = {**values, **times, "__clock_ms": pa.array([105_000, 260_000])}
    file = DataFileWriter(lake.table(node.required_name), RESULTS, Encoding())
    file.write(rows, 2, 2)
    lakes.TableWriter(table, lakes.APPENDER).append([NewFile(**(file.close() or {}))], {"writer": "node"})
    NodeLog(lake, node).follow(Progress(batch=1, upto_ms={"visits": 50}))
    before = rows_of(lake, node)
    cut = Lake(f"file:{tmp_path}/cut")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    shutil.rmtree(cut.log("visits").removeprefix("file:"))
    standing = [
        (CUT_MS, *commit[1:]) if commit[0] == CUT_MS else commit for commit in COMMITS if commit[0] >= CUT_MS
    ]
    write_log(cut, node, standing)
    uri, schema = cut.log("visits"), arrow_schema(log_schema(VISITS))
    kept = [Decision(0, 200_000, limits_entry(node.required_name, {"limit_ms": 60_000}, ""))]
    lakes.TableWriter(lakes.open_table(uri), lakes.APPENDER).append(
        [write_decisions(LogFolder(uri, schema), "visits", CONTROL, 20, kept)], {"writer": "log/visits"}
    )
    opening = SimpleNamespace(progress=SimpleNamespace(upto_ms={"visits": CUT_MS}, lowest_ms=110_000))
    monkeypatch.setattr("headrace.writing.node_logs.node_log_cut.read_opening", lambda *_: opening)
    NodeLog(cut, node).rewrite()
    assert rows_of(cut, node) == before
    idle = [row for row in before if "idle" in row]
    assert len(idle) == (node is CALM)
    for row in idle:
        assert repr(moments(np.array([50])).to_pylist()[0]) in row, "at 40 the record of 200 waits still"
