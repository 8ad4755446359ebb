"""Deliver rows of a node to its sinks again: after a sink's store was restored, replaced or damaged, or the node rebuilt.

Law: the rows are those that the stream delivered, with the same identities and the same place in the log's order. So they
do not change a sink that already holds some of them. A sink that can be corrected and read holds afterwards exactly the
node's rows: rows that the node does not have are deleted there. If the node revises its rows, the sink gets the current
rows, all at the log commit through which the node is folded, so every later row is newer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace import lake as lakes
from headrace.description import quote
from headrace.description.sink import CorrectableSink, Delivery, ReadableSink
from headrace.errors import TerminalError
from headrace.nodes.days import day_of_row
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.node_tables import snapshot
from headrace.nodes.rows.node_frames import shown_results
from headrace.nodes.rows.sink_rows import final_rows, with_place
from headrace.operators.contract import SEQUENCE
from headrace.operators.registry import operator_for
from headrace.spark.lake_rows import read_table
from headrace.spark.on_demand import session_of
from headrace.spark.rows.json_rows import JSON
from headrace.spark.rows.same_rows import rows_not_of
from headrace.spark.session import pinned
from headrace.writing.delivery.right_rows import counted, right_rows_as_of, right_rows_of_results

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.description import Node
    from headrace.description.sink import Sink
    from headrace.lake.paths import Lake


@dataclass(frozen=True)
class Redelivered:
    """How many rows a sink was given again, of those that the table has for the days.

    removed  how many it held that the node does not have; None: the sink, or some days alone, do not tell
    """

    sink: str
    rows: int
    rows_in_table: int
    removed: int | None = None

    @property
    def in_words(self) -> str:
        """A sentence: the number of rows that were delivered, and that were deleted."""
        given = f"{self.sink}: {self.rows:,} of {self.rows_in_table:,} rows delivered."
        gone = "" if self.removed is None else f" {self.removed:,} that the node does not have were deleted."
        return given + gone


def redeliver(
    spark: SparkSession,
    lake: Lake,
    node: Node,
    days: Sequence[dt.date] | None = None,
    *,
    only_missing: bool = False,
    sinks: Collection[str] | None = None,
) -> list[Redelivered]:
    """Give the rows of some days to the node's sinks; the stream may run meanwhile.

    In:     days          UTC days of the rows (of `opened_at`, `window_start`); None: all
            only_missing  leave out what a sink says that it holds
            sinks         only those with these names; None: all of the node
    Out:    one entry for each sink, in the node's order
    Raises: TerminalError, before any sink gets a row, when the node has no such sink, no days, or has not run, or a sink
            cannot say what it holds, or takes no revised rows again.
    """
    node = resolve_references(lake, node)
    chosen = _sinks(node, sinks)
    if only_missing:
        _require_readable(node, chosen)
    if node.day_column is None:
        _require_correctable(node, chosen, days, only_missing=only_missing)
    session, whole = pinned(session_of(spark)), days is None and not only_missing
    found = {
        sink.name: put_right(session, lake, node, sink) for sink in chosen if whole and can_be_put_right(sink)
    }
    others = [sink for sink in chosen if sink.name not in found]
    if others:
        rows = _rows(session, lake, node, days).persist()
        try:
            count = rows.count()
            found |= {
                s.name: _to(session, delivery_of(lake, node, s), s, rows, count, only_missing) for s in others
            }
        finally:
            rows.unpersist()
    return [found[sink.name] for sink in chosen]


def delivery_of(lake: Lake, node: Node, sink: Sink) -> Delivery:
    """The delivery of a node's rows to a sink."""
    name = node.required_name
    return Delivery(name, node.key, operator_for(node).identity, node.columns, lake.refused(name, sink.name))


def can_be_put_right(sink: Sink) -> bool:
    """True if a sink can be made to hold exactly what its node does."""
    return isinstance(sink, CorrectableSink) and isinstance(sink, ReadableSink)


def put_right(spark: SparkSession, lake: Lake, node: Node, sink: Sink) -> Redelivered:
    """Let a sink hold exactly the node's rows. Rows that the stream delivers meanwhile are newer, and stay."""
    assert isinstance(sink, CorrectableSink)
    assert isinstance(sink, ReadableSink)
    _require_run(lake, node)
    delivery = delivery_of(lake, node, sink)
    held, progress = snapshot(spark, lake, node)
    through_ms = progress.frontier_ms(node)
    rows = with_place(node, held.results) if node.has_days else shown_results(node, held, progress)
    identity = [F.col(quote(name)) for name in delivery.identity]
    touched = rows.select(*identity).unionByName(sink_identities(spark, sink, delivery, rows))
    right_rows = right_rows_of_results if node.has_days else right_rows_as_of
    with counted(right_rows(node, rows, touched, through_ms)) as (right, there, gone):
        sink.correct(right, replace(delivery, whole=True), through_ms)
        return Redelivered(sink.name, there, there, gone)


def _to(
    spark: SparkSession, delivery: Delivery, sink: Sink, rows: DataFrame, count: int, only_missing: bool
) -> Redelivered:
    if not only_missing:
        sink.deliver(rows, replace(delivery, again=True))
        return Redelivered(sink.name, count, count)
    assert isinstance(sink, ReadableSink)
    lacking = rows_not_of(rows, sink_identities(spark, sink, delivery, rows), delivery.identity).persist()
    try:
        missing = lacking.count()
        if missing:
            sink.deliver(lacking, delivery)
        return Redelivered(sink.name, missing, count)
    finally:
        lacking.unpersist()


def sink_identities(
    spark: SparkSession, sink: ReadableSink, delivery: Delivery, rows: DataFrame
) -> DataFrame:
    """The identities that a sink holds, with the types that they have in the node's rows.

    In: rows  the node's rows. A struct or an array may come from the sink as a JSON text
    """
    held = sink.identities(spark, delivery)
    types = {name: (rows.schema[name].dataType, held.schema[name].dataType) for name in delivery.identity}
    return held.select(*(_as_in_rows(name, *of).alias(name) for name, of in types.items()))


def _as_in_rows(name: str, of: T.DataType, stored: T.DataType) -> Column:
    column = F.col(quote(name))
    if isinstance(stored, T.StringType) and isinstance(of, T.StructType | T.ArrayType):
        return F.from_json(column, of, JSON)
    return column.try_cast(of)


def _rows(spark: SparkSession, lake: Lake, node: Node, days: Sequence[dt.date] | None) -> DataFrame:
    """Rows for sinks. A row's place is counted among those that were final at the same moment, so these are all read."""
    name = node.required_name
    _require_run(lake, node)
    table = read_table(spark, lake.table(name))
    if days is None:
        return final_rows(node, table)
    in_days = day_of_row(node).isin(list(days))
    commit = F.col(SEQUENCE)
    bounds = table.where(in_days).agg(F.min(commit).alias("first"), F.max(commit).alias("last"))
    together = table.join(F.broadcast(bounds), commit.between(F.col("first"), F.col("last"))).drop(
        "first", "last"
    )
    return final_rows(node, together).where(in_days)


def _require_run(lake: Lake, node: Node) -> None:
    if not lakes.exists(lake.table(node.required_name)):
        raise TerminalError(
            f"Node '{node.required_name}' has not run yet.", hint="Start its stream; it delivers by itself."
        )


def _sinks(node: Node, names: Collection[str] | None) -> list[Sink]:
    known = [sink.name for sink in node.sinks]
    wrong = sorted(set(names or ()) - set(known))
    if wrong or not known:
        found = f"has no sink '{wrong[0]}'" if wrong else "has no sink"
        hint = f"Its sinks are {', '.join(known)}." if known else "Give it one with .to(…)."
        raise TerminalError(f"Node '{node.required_name}' {found}.", hint=hint)
    return [sink for sink in node.sinks if names is None or sink.name in names]


def _require_correctable(
    node: Node, sinks: Sequence[Sink], days: Sequence[dt.date] | None, *, only_missing: bool
) -> None:
    """Revised rows are delivered again all together, and a sink that is only given rows gets them as they change."""
    others = [sink.name for sink in sinks if not can_be_put_right(sink)]
    if days is not None:
        why = " by day: they belong to none"
    elif only_missing:
        why = " in part: no sink says how new the rows are that it holds"
    elif others:
        why = f" to '{others[0]}', which lacks `correct` or `identities`"
    else:
        return
    right = [sink.name for sink in sinks if can_be_put_right(sink)]
    hint = f"Deliver all of them to {', '.join(right)} alone. " if right else ""
    raise TerminalError(
        f"Node '{node.required_name}' has revised rows, and they cannot be delivered again{why}.",
        hint=f"{hint}A sink that has not both `correct` and `identities` gets rows as they change.",
    )


def _require_readable(node: Node, sinks: Sequence[Sink]) -> None:
    for sink in sinks:
        if not isinstance(sink, ReadableSink):
            raise TerminalError(
                f"Node '{node.required_name}': sink '{sink.name}' cannot say what it holds (it has no `identities`).",
                hint="Deliver all rows again: rows that it holds already change nothing.",
            )
