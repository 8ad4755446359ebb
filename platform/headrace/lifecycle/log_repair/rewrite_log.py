"""A topic's log, written again under other columns: removed, renamed, of a wider type, or new.

Law: each row of the log stays, with all that the sequencer decided about it; the columns of its value follow from the row
alone, or from the description: a new one holds what `added` says, else it is null. So progress, opening balances and the
tables of nodes that read none of these columns are those of the new log, too.

Nothing may write meanwhile: the leases of the log, of its nodes and of their backfills are held. The rows are written beside
the log, and put in its place in one commit; a crash before it leaves the log as it was. The log is fenced before it is read:
if a process that was paused has lost its leases, and records were appended or erased since, that commit is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace import lake as lakes
from headrace.description import quote
from headrace.lake import kinds, small_files
from headrace.lake.care.alter import rewritable
from headrace.lake.care.swap import replace_table
from headrace.log.history.filled_columns import added_with, noting
from headrace.log.site import Site
from headrace.nodes.descriptions.topics import names_of, nodes_below
from headrace.nodes.node_tables import frontier_ms
from headrace.sequence.log_columns import SKIPPING, log_schema
from headrace.spark.lake_rows import append_rows, read
from headrace.spark.one_task import arrow_schema
from headrace.spark.rows.cast_by_name import cast_by_name
from headrace.spark.session import pipeline_session
from headrace.writing.leases.lease import require_leases
from headrace.writing.leases.lease_waits import nothing_writes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.description import Node, Topic

FILE_BYTES = 128 << 20


def rewrite_log(site: Site, topic: Topic, renamed: Mapping[str, str], nodes: Sequence[Node]) -> int:
    """Write a topic's log again with the columns that its description has.

    In:     renamed  the former name of each column that has another one
            nodes    all of the pipeline
    Out:    how many rows the log has
    Raises: LeaseTakenError while a stream, backfill, rebuild or maintenance of these tables runs
    """
    spark, lake, clock, on_step = pipeline_session(site.spark), site.lake, site.clock, site.on_step
    uri, beside = lake.log(topic.name), lake.log_scratch(topic.name)
    with nothing_writes(spark, lake, topic, names_of(nodes_below(topic, nodes)), clock) as leases:
        small_files.delete(beside)
        lakes.forget(beside)
        log, writer = lakes.open_table(uri), f"log/{topic.name}"
        appender = lakes.TableWriter(log, lakes.APPENDER, carries=[writer])  # before any row is read
        maintainer = lakes.TableWriter(log, lakes.MAINTAINER, carries=[writer])
        snapshot, schema = log.snapshot(), log_schema(topic)
        described = [column.name for column in topic.value_columns]
        added = added_with(log, renamed, topic.added_values, frontier_ms(lake, topic), described)
        rows = with_columns(read(spark, uri, log.version), schema, renamed, topic.added_values)
        files = max(1, snapshot.bytes // FILE_BYTES)
        rows = rows.repartitionByRange(int(files), "ingested_at", "partition", "offset")
        rows = rows.sortWithinPartitions("ingested_at", "partition", "offset")
        made = lakes.create(beside, arrow_schema(schema), kinds.log(SKIPPING))
        append_rows(lakes.TableWriter(made, lakes.APPENDER), rows, {"writer": "rewrite"})
        on_step("after rows")
        record = {**lakes.carried(log, [writer]), "writer": f"rewrite/{writer}"}
        with rewritable(maintainer, record):
            require_leases(leases.values())
            replace_table(appender, made, record, other_role=maintainer, remarks=noting(added))
    small_files.delete(beside)
    lakes.forget(beside)
    return snapshot.rows


def with_columns(
    rows: DataFrame, schema: T.StructType, renamed: Mapping[str, str], added: Mapping[str, str]
) -> DataFrame:
    """The rows of a log in the columns of another description.

    In: renamed  new names of columns to former ones; a column that has its new name already keeps its values
        added    values of new columns, as texts that are cast
    """
    value, before = schema["value"].dataType, rows.schema["value"].dataType
    assert isinstance(value, T.StructType)
    assert isinstance(before, T.StructType)

    def field(of: T.StructField) -> Expr:
        name = of.name if of.name in before.names else renamed.get(of.name, of.name)
        if name not in before.names:
            return F.lit(added.get(of.name)).cast(of.dataType).alias(of.name)
        return cast_by_name(F.col("value").getField(name), before[name].dataType, of.dataType).alias(of.name)

    fields = F.struct(*(field(of) for of in value.fields)) if value.fields else F.lit(None).cast(value)
    there = F.when(F.col("value").isNotNull(), fields).alias("value")
    return rows.select(*(there if name == "value" else F.col(quote(name)) for name in schema.names))
