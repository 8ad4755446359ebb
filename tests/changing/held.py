"""A lake that holds nodes and logs, made without Spark: what a plan looks at, and no rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from headrace import lake as lakes
from headrace.changing.compare_topics import columns_of
from headrace.description import is_of_kafka
from headrace.lake import NewFile, kinds
from headrace.nodes.node_tables import write_description
from headrace.nodes.progress import Progress
from headrace.nodes.topics import upstream_first
from headrace.writing.node_runner import state_record

if TYPE_CHECKING:
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
        lakes.TableWriter(state, lakes.APPENDER).append([], state_record(node, progress))
        write_description(NO_SPARK, lake, node)


def hold_log(lake: Lake, topic: Topic, rows: int) -> None:
    """Let a lake hold a log with so many rows of 100 bytes."""
    uri = lake.log(topic.name)
    if lakes.exists(uri):
        return
    table = lakes.create(uri, columns_of(topic) if is_of_kafka(topic) else COLUMNS, kinds.log(()))
    file = NewFile("part-0.parquet", rows * 100, json.dumps({"numRecords": rows}))
    lakes.TableWriter(table, lakes.APPENDER).append([file], {"writer": f"log/{topic.name}"})
