"""The log of a node says when it is idle: once its driving topics are, and nothing that came waits any more. No Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import types as T

import headrace as hr
from headrace import lake as lakes
from headrace.description import output_name
from headrace.description.node_output import NodeOutput
from headrace.engine.slices.log_slices import LogSlice
from headrace.fold.contract import CLOCK
from headrace.lake import kinds
from headrace.lake.paths import Lake
from headrace.log.commit_row import CommitRow
from headrace.log.decision_rows import Decision, LogFolder, write_decisions
from headrace.nodes.progress import Progress
from headrace.nodes.standing.reader_commits import read_commits
from headrace.operators.contract import SEQUENCE, TIMESTAMP
from headrace.sequence.log_columns import CONTROL, log_schema
from headrace.sequence.log_state import LogState, PartitionState
from headrace.spark.one_task import arrow_schema
from headrace.writing.node_logs.node_log import NodeLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.description import Column, Topic

pytestmark = pytest.mark.fast

NO_SPARK = cast("Any", None)
SECOND = 1_000
VISITS = hr.Topic("visits", key="id STRING", value="pages INT")
PAGES = hr.Topic("pages", key="pages INT", value="title STRING")
MOMENT = pa.timestamp("us", "UTC")
WINDOWS = (
    VISITS.group_by("id")
    .window(hr.tumbling("10 seconds"), grace=0)
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("windows")
)
TITLED = VISITS.lookup(PAGES.table(), on="pages", complete_first=False).named("titled")
OF_RESULTS = [(SEQUENCE, pa.int64()), (TIMESTAMP, pa.int64()), (CLOCK, pa.int64())]
COLUMNS = {
    "windows": [("id", pa.string()), ("window_start", MOMENT), ("window_end", MOMENT), ("n", pa.int64())],
    "titled": [("id", pa.string()), ("pages", pa.int32()), ("title", pa.string())],
}
TYPES = {
    "STRING": T.StringType(),
    "INT": T.IntegerType(),
    "BIGINT": T.LongType(),
    "TIMESTAMP": T.TimestampType(),
}
# Of each commit of visits its time, the stream time and highest event time after it, and whether the topic is idle.
COMMITS = (
    (10, 100, 100, False),
    (20, 100, 100, True),
    (30, 105, 100, True),
    (40, 110, 100, True),
    (50, 110, 110, False),
)


@pytest.fixture(autouse=True)
def types_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's parser of types needs its JVM."""

    def struct_of(columns: Sequence[Column]) -> T.StructType:
        return T.StructType([T.StructField(column.name, TYPES[column.type]) for column in columns])

    monkeypatch.setattr("headrace.sequence.log_columns.struct_of", struct_of)


def write_log(lake: Lake, topic: Topic, commits: Sequence[tuple[int, int | None, int | None, bool]]) -> None:
    """A log of commit rows alone."""
    uri, schema, state = lake.log(topic.name), arrow_schema(log_schema(topic)), LogState()
    log = lakes.TableWriter(lakes.create(uri, schema, kinds.log(())), lakes.APPENDER)
    for at_ms, stream_s, event_s, idle in commits:
        stream_ms = None if stream_s is None else stream_s * SECOND
        state = replace(
            state,
            ingested_at_ms=at_ms,
            batch=state.batch + 1,
            partitions={0: PartitionState(0, stream_ms)},
            highest_event_ms=None if event_s is None else event_s * SECOND,
            idle=idle,
        )
        rows = [Decision(0, stream_ms, CommitRow(state, {}).to_json())]
        files = [write_decisions(LogFolder(uri, schema), topic.name, CONTROL, at_ms, rows)]
        log.append(files, {"writer": f"log/{topic.name}"})


def told(lake: Lake, node: Any, cuts: Sequence[int]) -> list[tuple[int, str]]:
    """The control rows of the node's log, once it was written in these steps, each by a process of its own."""
    lakes.create(lake.table(node.name), pa.schema([*COLUMNS[node.name], *OF_RESULTS]), kinds.RESULTS)
    for upto_ms in cuts:
        upto = {topic.name: upto_ms for topic in node.topics}
        NodeLog(lake, node).follow(Progress(batch=1, upto_ms=upto))
    rows = LogSlice.of(lake.log(output_name(node)), 0, 1_000).controls()
    return [(at_ms, json.loads(entry)["action"]) for at_ms, entry in rows]


@pytest.mark.parametrize("cuts", [[50], [10, 20, 30, 40, 50], [20, 40, 50]])
def test_it_is_idle_once_its_topic_is_and_the_last_window_has_closed(tmp_path: Path, cuts: list[int]) -> None:
    lake = Lake(f"file:{tmp_path}")
    write_log(lake, VISITS, COMMITS)
    assert told(lake, WINDOWS, cuts) == [(40, "idle"), (50, "busy")]
    read = read_commits(NodeOutput.of(WINDOWS), lake.log(output_name(WINDOWS)), 0, 50)
    assert [(each.at_ms, each.idle) for each in read.commits] == [
        (10, None),
        (20, None),
        (30, None),
        (40, True),
        (50, False),
    ]


def test_the_table_of_a_lookup_as_of_the_log_moves_nothing_in_it(tmp_path: Path) -> None:
    """Its newest record is old, and it is not idle."""
    lake = Lake(f"file:{tmp_path}")
    write_log(lake, VISITS, COMMITS)
    write_log(lake, PAGES, [(5, 1, 1, False), (45, 2, 2, False)])
    assert told(lake, TITLED, [25, 50]) == [(20, "idle"), (50, "busy")]
    read = read_commits(NodeOutput.of(TITLED), lake.log(output_name(TITLED)), 0, 50)
    assert [(each.at_ms, each.stream_ms and each.stream_ms // SECOND) for each in read.commits] == [
        (5, None),
        (10, 100),
        (20, 100),
        (30, 105),
        (40, 110),
        (45, 110),
        (50, 110),
    ]


def test_a_topic_without_records_holds_nothing_once_it_is_idle(tmp_path: Path) -> None:
    lake = Lake(f"file:{tmp_path}")
    node = VISITS.lookup(PAGES.table(), on="pages", as_of="event", complete_first=False).named("titled")
    write_log(lake, VISITS, COMMITS)
    write_log(lake, PAGES, [(5, None, None, False), (35, None, None, True)])
    assert told(lake, node, [50]) == []
    read = read_commits(NodeOutput.of(node), lake.log(output_name(node)), 0, 50)
    known = {each.at_ms: each.stream_ms for each in read.commits}
    assert known[30] is None
    assert known[35] == 35 - 1, "at most the commit time, less the wait"
