"""Lookups as an operator."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import Lookup, quote
from headrace.operators.operator import (
    CUT_ONE_BY_ONE,
    AppendedOperator,
    Folded,
    Held,
    Schemas,
    nullable,
    of_batch,
    tallies,
)
from headrace.operators.progress import Progress
from headrace.operators.rows import KEPT, POSITION, position, rows_of
from headrace.operators.tables.latest import columns, latest, rank, union
from headrace.operators.tables.operator import TableOperator
from headrace.spark.frames import Cache

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

RECORD, VERSION = 0, 1  # at one place: a record does not find what it says itself


class LookupOperator(AppendedOperator[Lookup]):
    """Records with what they find; the state holds the table."""

    clock = "ingested_at"
    final_at = "__ingested_at"

    def __init__(self, node: Lookup) -> None:
        """The operator of one node, and the rules of its table."""
        super().__init__(node)
        self.table = TableOperator(node.table)

    @property
    def ordered(self) -> bool:
        """A record finds what lies before it, in whichever topic."""
        return True

    @property
    def identity(self) -> tuple[str, ...]:
        """A record's position."""
        return ("__topic", "__partition", "__offset")

    @property
    def uncuttable(self) -> str:
        """The balance would have to be struck at one place in the order of all topics."""
        return CUT_ONE_BY_ONE if len(self.node.topics) > 1 else ""

    def decide(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """Position, `__fate` and `__reason` of each row: what the stream or the table uses is kept."""
        fates = [
            rows.withColumn("__fate", F.coalesce("__fate", F.lit(KEPT))).select(
                *POSITION, "__fate", "__reason"
            )
            for rows in (self._asked(logs), self.table.decide(logs))
        ]
        first = F.struct(F.col("__fate") != KEPT, "__fate", "__reason")
        decided = union(fates).groupBy(*POSITION).agg(F.min(first).alias("__decided"))
        return decided.select(*POSITION, "__decided.__fate", "__decided.__reason")

    def schemas(self, logs: Mapping[str, DataFrame]) -> Schemas:
        """Records with what they found; rows of the table with the micro-batch that appended them."""
        state = self._latest(self._versions(logs)).withColumn("__batch", F.lit(0))
        results = self._found(self._records(logs), self._versions(logs), None)
        return Schemas(self.decide(logs).schema, nullable(results), nullable(state))

    def fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], held: Held, progress: Progress
    ) -> Folded:
        """Results are the increment's records; the state gains the latest row of each key that it changes."""
        met = tallies(self.decide(logs).withColumn("__records", F.lit(1)))
        after = progress.after(upto_ms, met, (topic.name for topic in self.node.topics))
        cache = Cache()
        versions = cache.share(self._versions(logs))
        known = None if held.state is None else self._newest(held.state)
        results = self._found(self._records(logs), versions, known)
        before = self._latest(versions)
        if known is not None:  # by timestamp, an older record may come after a newer one
            touched = before.select(*columns(self.table.node.key))
            before = self._latest(union([before, known.join(touched, [*self.table.node.key], "left_semi")]))
        state = of_batch(before, after.batch)
        return Folded(results, state, after, lambda: self.emitted(results), cache.release)

    def read(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """The records so far."""
        assert held.results is not None
        return held.results

    def updates(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """A row has one update: itself."""
        return self.read(held, progress, inputs).withColumn("__batch", F.lit(None).cast("long"))

    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """Nothing waits: what is kept is used."""
        return None

    @property
    def superseding(self) -> tuple[str, ...] | None:
        """A key's newest row is that of the table."""
        return self.table.node.key

    def expired(self, progress: Progress) -> Expr | None:
        """Deleted rows, unless an older record can still come."""
        return None if self.table.remembers else F.col("__deleted")

    def settled(self, progress: Progress) -> Expr:
        """Records committed as far as all topics were read."""
        return F.unix_millis("__ingested_at") <= min(progress.upto_ms.values(), default=0)

    def recompute(
        self, logs: Mapping[str, DataFrame], progress: Progress, span_ms: tuple[int, int] | None
    ) -> DataFrame:
        """The records committed in the span; the table from its first record on."""
        records = self._records(logs)
        if span_ms is not None:
            records = records.where(F.col("__ingested_ms").between(*span_ms))
        return self._found(records, self._versions(logs), None)

    def emitted(self, results: DataFrame) -> DataFrame:
        """Records in the order of their positions; those of one commit stand together."""
        return self._in_order(results, "__ingested_at", ("__topic", "__partition", "__offset"))

    def _in_order(self, results: DataFrame, at: str, place: Sequence[str]) -> DataFrame:
        """Records as sinks take them, in the order of a commit time; those of one commit by what `place` names."""
        order = Window.partitionBy(at).orderBy(*place)
        return results.select(
            *columns(self.node.columns),
            F.lit(False).alias("__deleted"),
            "__timestamp",
            F.unix_millis(at).alias("__sequence"),
            (F.row_number().over(order) - 1).cast("int").alias("__ordinal"),
        )

    def _asked(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """The rows of the stream; those that are kept have no fate."""
        return rows_of({t.name: logs[t.name] for t in self.node.stream.topics}, self.node.stream)

    def _records(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """The records of the stream that are kept."""
        return self._asked(logs).where(F.col("__fate").isNull())

    def _versions(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """Every row that the table ever had in these logs: its columns, `__deleted`, `__event_ms`, `__at`."""
        kept = self.table.decide(logs).where(F.col("__fate") == KEPT)
        values = (F.when(~F.col("__deleted"), F.col(quote(n))).alias(n) for n in self.table.node.values)
        return kept.select(*columns(self.table.node.key), *values, "__deleted", "__event_ms", "__at")

    def _latest(self, versions: DataFrame) -> DataFrame:
        return latest(versions, self.table.node.key, rank(self.table.node.order_by))

    def _newest(self, state: DataFrame) -> DataFrame:
        """The table as of the last micro-batch."""
        return latest(state, self.table.node.key, F.col("__batch")).drop("__batch")

    def _found(self, records: DataFrame, versions: DataFrame, known: DataFrame | None) -> DataFrame:
        """Each record with the row that the versions before it, and what was known before, leave for it.

        Out: the node's columns, `__topic`, `__partition`, `__offset`, `__ingested_at`, `__timestamp`
        """
        node, table = self.node, self.table.node
        whole = F.struct(*columns(records.columns)).alias("__record")
        on = self.on
        asking = records.select(
            *(F.col(quote(name)).alias(alias) for name, alias in zip(node.on, on, strict=True)),
            position().alias("__place"),
            F.lit(RECORD).alias("__kind"),
            whole,
        )
        row = F.struct(*columns((*table.values, "__deleted"))).alias("__row")
        sides = [versions.withColumn("__place", F.col("__at"))]
        if known is not None:
            sides.append(known.withColumn("__place", F.lit(None).cast(versions.schema["__at"].dataType)))
        told = union(sides).select(
            *(F.col(quote(name)).alias(alias) for name, alias in zip(table.key, on, strict=True)),
            "__place",
            F.lit(VERSION).alias("__kind"),
            rank(table.order_by).alias("__rank"),
            row,
        )
        in_order = Window.partitionBy(*on).orderBy(F.col("__place").asc_nulls_first(), "__kind")
        before = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        both = union([told, asking]).withColumn("__is", F.max_by("__row", "__rank").over(before))
        return self._answered(both.where(F.col("__record").isNotNull())).select(
            *self._shown(),
            *(F.col(f"__record.{name}").alias(name) for name in ("__topic", "__partition", "__offset")),
            F.timestamp_millis("__record.__ingested_ms").alias("__ingested_at"),
            F.timestamp_millis("__record.__event_ms").alias("__timestamp"),
        )

    @property
    def on(self) -> list[str]:
        """The columns of the key that is referred to, while records and rows of the table stand together."""
        return [f"__on_{number}" for number in range(len(self.node.on))]

    def _answered(self, asked: DataFrame) -> DataFrame:
        """Add `__there`: whether `__is`, the version found, is a row that the record refers to; of "inner" only those.

        In: asked  with `on` and `__is`: null, or a version's values and `__deleted`
        """
        complete = reduce(lambda all_of, name: all_of & F.col(name).isNotNull(), self.on, F.lit(True))
        there = complete & F.col("__is").isNotNull() & ~F.col("__is.__deleted")
        answered = asked.withColumn("__there", there)
        return answered.where("__there") if self.node.how == "inner" else answered

    def _shown(self) -> list[Expr]:
        """The node's columns, of `__record` and of `__is`."""
        node = self.node
        assert node.stream.columns is not None
        return [
            *(F.col(f"__record.{quote(name)}").alias(name) for name in node.stream.columns),
            *(
                F.when(F.col("__there"), F.col(f"__is.{quote(name)}")).alias(name)
                for name in node.table.values
            ),
        ]
