"""A lake that holds nodes and logs, made without Spark: what a plan looks at, and no rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from headrace import lake as lakes
from headrace.changing.comparing.compare_topics import columns_of
from headrace.description import is_of_kafka
from headrace.lake import NewFile, kinds
from headrace.lake.storage import local_path
from headrace.log.commit_row import CommitRow, write_commit_row
from headrace.log.history.raw_records import keeping_raw
from headrace.log.record_task import RecordTask
from headrace.nodes.descriptions.topics import upstream_first
from headrace.nodes.node_tables import write_description
from headrace.nodes.progress import Progress
from headrace.nodes.standing.state_commits import state_record, writings_read
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_columns import SKIPPING
from headrace.sequence.log_rows import log_schema
from headrace.sequence.log_state import LastRow, LogState
from headrace.sequence.sequence_records import RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake

COLUMNS = pa.schema([("n", pa.int64())])
FOLDED = Progress(batch=1)
NO_SPARK = cast("Any", None)


def hold(lake: Lake, *nodes: Node, rows: int = 1_000, progress: Progress = FOLDED) -> None:
    """Let a lake hold these nodes, as their streams would have left them; each log has so many rows."""
    for node in upstream_first(nodes):
        for topic in node.topics:
            hold_log(lake, topic, rows)
        name = node.required_name
        lakes.create(lake.table(name), COLUMNS, kinds.RESULTS)
        state = lakes.create(lake.state(name), COLUMNS, kinds.state(()))
        lakes.TableWriter(state, lakes.APPENDER).append(
            [], state_record(node, progress, writings_read(lake, node))
        )
        write_description(lake, node)


def hold_log(lake: Lake, topic: Topic, rows: int) -> None:
    """Let a lake hold a log with so many rows of 100 bytes."""
    uri = lake.log(topic.name)
    if lakes.exists(uri):
        return
    table = lakes.create(uri, columns_of(topic) if is_of_kafka(topic) else COLUMNS, kinds.log(()))
    pq.write_table(table.schema.empty_table(), local_path(f"{uri}/part-0.parquet"))
    file = NewFile("part-0.parquet", rows * 100, json.dumps({"numRecords": rows}))
    lakes.TableWriter(table, lakes.APPENDER).append([file], {"writer": f"log/{topic.name}"})


def hold_records(lake: Lake, topic: Topic, offsets: Mapping[int, range], topic_id: str = "first") -> None:
    """Let a lake hold the log that a topic's sequencer writes: one commit with these offsets of each partition."""
    of, uri = RecordFormat.of(topic), lake.log(topic.name)
    table = lakes.create(uri, log_schema(of), kinds.log(SKIPPING))
    places = [(partition, offset) for partition, held in offsets.items() for offset in held]
    rows: list[Any] = [(*place, b"a", b'{"value": 1}', 1_700_000_000_000, [], []) for place in places]
    raw = pa.table([*zip(*rows, strict=True)], schema=RECORDS)
    state = keeping_raw(LogState(topic_id=topic_id), topic)
    report, file = RecordTask(of, state, None, 1_700_000_000_000, table.schema, uri).sequence(
        raw.to_batches()
    )
    after = state.after(1_700_000_000_000, [LastRow(*end) for end in report["ends"]])
    record = {"writer": f"log/{topic.name}", "after": after.to_json()}
    row = CommitRow(after, {}, len(places))
    files = [write_commit_row(uri, table.schema, topic.name, row, file)]
    lakes.TableWriter(table, lakes.APPENDER).append(files, record)
