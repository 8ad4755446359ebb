"""Running aggregates by Arrow: what `RunningOperator.fold` does, behind the fates that Spark decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.operators.columnar import Columnar, ColumnarFold, Found
from headrace.operators.columnar.aggregates import arrow_aggregates
from headrace.operators.columnar.fold import tallied
from headrace.operators.columnar.places import PLACE, as_position, sorted_topics, source, topic_names
from headrace.operators.rows import KEPT
from headrace.spark.frames import Selection
from headrace.spark.one_task import COMPARED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from headrace.operators.columnar import HeldFiles
    from headrace.operators.columnar.aggregates import ArrowAggregates
    from headrace.operators.progress import Progress
    from headrace.operators.running.operator import RunningOperator


def columnar_totals(operator: RunningOperator, inputs: StructType) -> Columnar | None:
    """How the increments of a node are folded; None: Spark has to.

    In: inputs  the schema of `decide`
    """
    node = operator.node
    aggregates = arrow_aggregates(node.aggregates, inputs)
    types = {field.name.lower(): field.dataType for field in inputs}
    if node.stream.transformed or aggregates is None:
        return None
    if not all(isinstance(types[name.lower()], COMPARED) for name in node.by):
        return None
    names = [topic.name for topic in node.topics]
    topics = sorted_topics(names)
    columns = Selection(
        *(F.col(quote(name)).alias(name) for name in node.by),
        *(expression.alias(name) for name, expression in aggregates[1].items()),
        source(names, topics),
        *(F.col(name) for name in PLACE if name != "__source"),
        F.when(F.col("__fate") != KEPT, F.col("__fate")).alias("__fate"),
        *(F.col(name) for name in ("__event_ms", "__stream_ms")),
    )
    fold = ColumnarTotals(node.by, topics, aggregates[0])
    return Columnar(fold, lambda logs: columns.of(operator.decide(logs)))


@dataclass(frozen=True)
class ColumnarTotals(ColumnarFold):
    """Totals of one node: an increment adds a partial of each group and partition."""

    by: tuple[str, ...]
    topics: tuple[str, ...]
    aggregates: ArrowAggregates

    def fold(self, rows: pa.Table, upto_ms: Mapping[str, int], held: HeldFiles, progress: Progress) -> Found:
        """See `RunningOperator.fold`."""
        after = progress.after(upto_ms, tallied(rows, self.topics), self.topics)
        by = (*self.by, "__source", "__partition")
        # In a partition commit times and offsets rise together.
        highest = ("__stream_ms", "__ingested_ms", "__offset")
        partials = self.aggregates.partials(rows, by, pc.is_null(rows["__fate"]), also=highest)
        topic, at = topic_names(partials["__source"], self.topics), as_position(partials, self.topics)
        return Found(None, [partials.append_column("__topic", topic).append_column("__at", at)], after)
