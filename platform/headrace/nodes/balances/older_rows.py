"""Rows of a node's table that are older than its description: those from before the day of `since`.

Law: a fold of the log by the description makes none of these rows, and nothing changes them. So backfills, checks and the
oracle compare the rows from that day on, and other nodes are told these. The table's property `headrace.since` says the day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.description import WindowedAggregate, quote
from headrace.description.since import since_ms
from headrace.fold.values.columns import MOMENT
from headrace.lake import small_files
from headrace.lake.care.alter import set_properties
from headrace.nodes.standing.state_commits import last_state_commit
from headrace.spark.lake_rows import append_rows, read_table, spark_schema
from headrace.spark.rows.cast_by_name import cast_by_name

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake import TableWriter
    from headrace.lake.paths import Lake

PROPERTY = "headrace.since"
WINDOW_START = "window_start"


def since_of(node: Node) -> int | None:
    """From which moment on a node makes rows, in ms; None: it makes all."""
    return None if node.since is None else since_ms(node.since)


def why_not_since(lake: Lake, node: Node) -> str:
    """Why a node's table cannot be rebuilt from the day of `since` on; empty: it can, or there is no such day.

    Law: no older window is open, for nobody would write it.
    """
    since = since_of(node)
    name = node.required_name
    commit = last_state_commit(lake, name)
    if since is None or commit is None:
        return ""
    assert isinstance(node, WindowedAggregate)
    stored = small_files.read_json(lake.description(name))
    before_ms = 0 if stored is None else stored["rules"].get("grace_ms") or 0
    closed_ms = commit.record.get("progress", {}).get("closed_ms")
    if closed_ms is not None and closed_ms >= since + max(node.grace_ms, before_ms):
        return ""
    return f"windows from before {node.since} are open, and would not be written"


def is_made(node: Node) -> Expr:
    """True for the rows of a node's table that its description makes."""
    since = since_of(node)
    return F.lit(True) if since is None else F.col(WINDOW_START) >= F.timestamp_millis(F.lit(since))


def made_of(node: Node, rows: pa.Table) -> pa.Table:
    """Those of some rows of a node's table that its description makes."""
    since = since_of(node)
    if since is None:
        return rows
    starts = rows[WINDOW_START].cast(MOMENT)
    return rows.filter(pc.greater_equal(starts, pa.scalar(since * 1_000, pa.int64()).cast(MOMENT)))


def mark_since(node: Node, writer: TableWriter) -> None:
    """Let the property of a node's table say the day; nothing, once the description has none."""
    before = lakes.open_table(writer.uri).metadata.configuration
    now = node.since or ""
    if now != before.get(PROPERTY, ""):
        set_properties(writer, {PROPERTY: now}, {"writer": "since"})


def keep_older_rows(spark: SparkSession, lake: Lake, scratch: Lake, node: Node, writer: str) -> None:
    """Put the older rows of a node's table beside those that were rebuilt, once; columns that they lack are null.

    In: lake    that holds the table; beside: where the rebuilt one lies
        writer  who says how far the rebuilt results go
    """
    name, of = node.required_name, f"older/{node.required_name}"
    target = lakes.open_table(scratch.table(name))
    if since_of(node) is None or not target.exists or lakes.last_commit(target, of) is not None:
        return
    maintainer = lakes.TableWriter(target, lakes.MAINTAINER, carries=[writer])
    old = read_table(spark, lake.table(name)).where(~is_made(node))
    columns = [
        cast_by_name(F.col(quote(field.name)), old.schema[field.name].dataType, field.dataType).alias(
            field.name
        )
        if field.name in old.columns
        else F.lit(None).cast(field.dataType).alias(field.name)
        for field in spark_schema(target).fields
    ]
    record = {"writer": of, **lakes.carried(target, [writer])}
    append_rows(maintainer, old.select(*columns), record)
