"""Running aggregates as an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import RunningAggregate, quote
from headrace.operators.operator import CurrentOperator, Folded, Held, Schemas, nullable, of_batch, tallies
from headrace.operators.partials import (
    decide_by_group,
    finished_columns,
    kept_partials,
    merged_columns,
    partial_aggregates,
)
from headrace.operators.progress import Progress
from headrace.operators.rows import rows_of
from headrace.operators.running.columnar import columnar_totals
from headrace.operators.sequence import numbered
from headrace.spark.frames import Cache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headrace.operators.columnar import Columnar

ONLY_STATE = ("__batch", "__topic", "__partition", "__stream_ms")


class RunningOperator(CurrentOperator[RunningAggregate]):
    """Current totals; the base holds finished and partial columns side by side, so that it can be merged further."""

    @property
    def ordered(self) -> bool:
        """Totals are the same in any order; a sink gets them one by one, each at the place of its last record."""
        return bool(self.node.sinks) and len(self.node.topics) > 1

    @property
    def throttle_ms(self) -> int:
        """As described."""
        return self.node.throttle_ms

    def decide(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """Every record that has a group and usable inputs is kept."""
        return decide_by_group(rows_of(logs, self.node.stream), self.node.by, self.node.aggregates)

    def schemas(self, logs: Mapping[str, DataFrame]) -> Schemas:
        """Totals with their partial columns, and partials with the micro-batch that appended them."""
        rows = self.decide(logs)
        partials = kept_partials(self.increment(rows))
        state = nullable(partials.withColumn("__batch", F.lit(0)))
        return Schemas(rows.schema, nullable(self.merged(partials, rows.schema)), state)

    def fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], held: Held, progress: Progress
    ) -> Folded:
        """The state gains one partial for each group touched."""
        rows = self.decide(logs)
        cache = Cache()
        partials = cache.share(self.increment(rows))
        after = progress.after(upto_ms, tallies(partials), (topic.name for topic in self.node.topics))
        kept = kept_partials(partials)
        state = of_batch(kept, after.batch)
        return Folded(None, state, after, lambda: self.emitted(logs, held, state, after), cache.release)

    def columnar(self, schemas: Schemas) -> Columnar | None:
        """By the types of its groups and by its aggregates."""
        return columnar_totals(self, schemas.inputs)

    def read(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """The totals as of now."""
        return self.merged(self._parts(held), inputs)

    def updates(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """The total of each group after each micro-batch that touched it and is not folded yet, and before these."""
        if held.state is None:
            assert held.results is not None
            return held.results.withColumn("__batch", F.lit(0).cast("long"))
        parts = self._parts(held, "__batch")
        touched = parts.select(*self._groups(), F.col("__batch").alias("__as_of")).distinct()
        known = parts.join(touched, [*self.node.by]).where(F.col("__batch") <= F.col("__as_of"))
        return self.merged(known, inputs, "__as_of").withColumnRenamed("__as_of", "__batch")

    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """Nothing waits: what is kept is used."""
        return None

    def recompute(
        self, logs: Mapping[str, DataFrame], progress: Progress, span_ms: tuple[int, int] | None
    ) -> DataFrame:
        """The totals of the whole log."""
        rows = self.decide(logs)
        return self.merged(kept_partials(self.increment(rows)), rows.schema)

    def compacted(self, held: Held, inputs: StructType) -> DataFrame:
        """The totals of the groups that were touched since."""
        return self._touched(held, inputs).withColumn("__deleted", F.lit(False))

    def increment(self, rows: DataFrame) -> DataFrame:
        """The partials of decided rows, and a count of all (see `partial_aggregates`)."""
        return partial_aggregates(rows, self.node.by, self.node.aggregates, placed=True)

    def _parts(self, held: Held, *also: str) -> DataFrame:
        """Base and state side by side: both are partials."""
        frames = []
        if held.results is not None:
            base = held.results.withColumn("__batch", F.lit(0).cast("long"))
            frames.append(base.drop(*(name for name, _ in self.node.aggregates)))
        if held.state is not None:
            frames.append(held.state)
        drop = [name for name in ONLY_STATE if name not in also]
        parts = [frame.drop(*drop) for frame in frames]
        return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])

    def _touched(self, held: Held, inputs: StructType) -> DataFrame:
        """The totals of the groups in the state, one row each."""
        assert held.state is not None
        groups = held.state.select(*self._groups()).distinct()
        base = None if held.results is None else held.results.join(groups, [*self.node.by], "left_semi")
        return self.merged(self._parts(Held(base, held.state)), inputs)

    def merged(self, parts: DataFrame, inputs: StructType, *also_by: str) -> DataFrame:
        """The totals of each group: the node's columns, and the partial ones that can be merged further."""
        merged = parts.groupBy(*self._groups(), *also_by).agg(
            *merged_columns(self.node.aggregates, inputs),
            F.sum("__records").alias("__records"),
            F.max("__event_ms").alias("__event_ms"),
            F.max("__at").alias("__at"),
        )
        partials = [name for name in merged.columns if name.startswith("__")]
        return merged.select(
            *self._groups(),
            *finished_columns(self.node.aggregates, inputs),
            *(F.col(quote(name)) for name in partials),
        )

    def _groups(self) -> list[Column]:
        return [F.col(quote(name)) for name in self.node.by]

    def emitted(
        self, logs: Mapping[str, DataFrame], held: Held, state: DataFrame, after: Progress
    ) -> DataFrame:
        """The totals of the groups that this increment touches, each at the place of the record that changed it last."""
        groups = state.select(*self._groups()).distinct()
        pending = None if held.state is None else held.state.join(groups, [*self.node.by], "left_semi")
        now = Held(held.results, state if pending is None else pending.unionByName(state))
        totals = self._touched(now, self.decide(logs).schema)
        return numbered(totals, logs, "__at").select(
            *(F.col(quote(name)) for name in self.node.columns),
            F.lit(False).alias("__deleted"),
            F.timestamp_millis("__event_ms").alias("__timestamp"),
            *("__sequence", "__ordinal"),
        )
