"""Lookups as of event time as an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.operators.lookups.operator import RECORD, VERSION, LookupOperator
from headrace.operators.lookups.release import frontier, place_releases, stream_times
from headrace.operators.operator import Folded, Held, Schemas, nullable, of_batch, tallies
from headrace.operators.progress import Progress
from headrace.operators.rows import KEPT, LATE, position
from headrace.operators.tables.latest import columns, union
from headrace.spark.frames import Cache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame


class EventLookupOperator(LookupOperator):
    """Records with what was valid at their event time; the state holds records that wait, and versions.

    A row of the state, `__kind`, is one or the other: `__on_0` and so on are the key that is asked for or told of,
    `__event_ms` and `__at` its timestamp and place; a record's columns are in `__record`, a version's in `__row`.
    """

    final_at = "__released_at"

    def schemas(self, logs: Mapping[str, DataFrame]) -> Schemas:
        """Records with what they found; what waits and the versions, with the micro-batch that appended them."""
        asking, told = self._asking(logs), self._told(logs)
        results = self._found(asking.withColumn("__released_ms", F.col("__event_ms")), told)
        state = union([told, asking]).withColumn("__batch", F.lit(0))
        return Schemas(self.decide(logs).schema, nullable(results), nullable(state))

    def fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], held: Held, progress: Progress
    ) -> Folded:
        """Results are the records that the increment releases; the state gains those that wait, and the versions."""
        met = tallies(self.decide(logs).withColumn("__records", F.lit(1)))
        after = progress.after(upto_ms, met, (topic.name for topic in self.node.topics))
        cache = Cache()
        times = cache.share(stream_times(logs, progress))
        told, came = cache.share(self._told(logs)), self._asking(logs)
        asking = came.withColumn("__new", F.lit(True))
        if held.state is not None:
            waiting = self._waiting(held.state, progress).drop("__batch")
            asking = union([asking, waiting.withColumn("__new", F.lit(False))])
        placed = cache.share(place_releases(asking, frontier(times, len(self.node.topics))))
        released = placed.where(F.col("__released_ms").isNotNull())
        waits = placed.where(F.col("__released_ms").isNull() & F.col("__new")).select(*came.columns)
        state = of_batch(union([told, waits]), after.batch)
        if released.isEmpty():  # a tick that lets nothing go leaves no empty commit behind
            return Folded(None, state, after, None, cache.release)
        results = self._found(released, self._findable(released, told, held.state))
        return Folded(results, state, after, lambda: self.emitted(results), cache.release)

    def late(self, decided: DataFrame) -> DataFrame:
        """Records that were further behind stream time than `history` goes back.

        Out: topic, partition, offset, timestamp, stream_time, late_by_ms (by how much)
        """
        history_ms = F.lit(self.node.history_ms).cast("long")
        late = decided.where(F.col("__fate") == LATE)
        return late.select(
            F.col("__topic").alias("topic"),
            F.col("__partition").alias("partition"),
            F.col("__offset").alias("offset"),
            F.timestamp_millis("__event_ms").alias("timestamp"),
            F.timestamp_millis("__stream_ms").alias("stream_time"),
            (F.col("__stream_ms") - F.col("__event_ms") - history_ms).alias("late_by_ms"),
        )

    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """The records that wait."""
        return self._waiting(state, progress).select(
            F.col("__at.__topic").alias("__topic"),
            F.col("__at.__partition").alias("__partition"),
            F.lit(1).alias("__records"),
        )

    @property
    def superseding(self) -> None:
        """A version does not stand for those before: which are read again `still_read` knows."""
        return None

    def still_read(self, state: DataFrame, progress: Progress, *, whole: bool = True) -> DataFrame:
        """Records that wait, and versions unless another of their key follows, not beyond `_needed_ms`."""
        state, needed_ms = super().still_read(state, progress), self._needed_ms(progress)
        if needed_ms is None:
            return state
        may_go = (F.col("__kind") == VERSION) & (F.col("__event_ms") <= needed_ms)
        group = Window.partitionBy(may_go, *self.on)
        later = group.orderBy(F.col("__event_ms").desc(), F.col("__at").desc())
        numbered = state.withColumn("__number", F.row_number().over(later))
        return numbered.where(~may_go | (F.col("__number") == 1)).drop("__number")

    def expired(self, progress: Progress) -> Expr | None:
        """The records that were released."""
        if progress.closed_ms is None:
            return None
        return (F.col("__kind") == RECORD) & (F.col("__event_ms") < progress.closed_ms)

    def settled(self, progress: Progress) -> Expr:
        """Records released as far as all topics were read."""
        return F.unix_millis("__released_at") <= min(progress.upto_ms.values(), default=0)

    def recompute(
        self, logs: Mapping[str, DataFrame], progress: Progress, span_ms: tuple[int, int] | None
    ) -> DataFrame:
        """The records released in the span; of the table and of stream time everything before counts."""
        steps = frontier(stream_times(logs, Progress()), len(self.node.topics))
        released = place_releases(self._asking(logs), steps).where(F.col("__released_ms").isNotNull())
        if span_ms is not None:
            released = released.where(F.col("__released_ms").between(*span_ms))
        return self._found(released, self._told(logs))

    def emitted(self, results: DataFrame) -> DataFrame:
        """Records in the order of their releases; those of one commit by timestamp, then by position."""
        place = ("__timestamp", "__ingested_at", "__topic", "__partition", "__offset")
        return self._in_order(results, "__released_at", place)

    def _asked(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        rows = super()._asked(logs)
        if self.node.history_ms is None:
            return rows
        late = F.col("__event_ms") + self.node.history_ms < F.col("__stream_ms")
        return rows.withColumn(
            "__fate", F.when(F.col("__fate").isNull() & late, LATE).otherwise(F.col("__fate"))
        )

    def _asking(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """The records of the stream that are kept, as rows of the state."""
        assert self.node.stream.columns is not None
        return self._records(logs).select(
            F.lit(RECORD).alias("__kind"),
            *(F.col(quote(name)).alias(on) for name, on in zip(self.node.on, self.on, strict=True)),
            "__event_ms",
            position().alias("__at"),
            F.struct(*columns(self.node.stream.columns)).alias("__record"),
        )

    def _told(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """Every row that the table had in these logs, as rows of the state; `__astray`: out of its partition's order."""
        table = self.table.node
        values = (F.when(~F.col("__deleted"), F.col(quote(name))).alias(name) for name in table.values)
        return (
            self.table.decide(logs)
            .where(F.col("__fate") == KEPT)
            .select(
                F.lit(VERSION).alias("__kind"),
                *(F.col(quote(name)).alias(on) for name, on in zip(table.key, self.on, strict=True)),
                "__event_ms",
                "__at",
                (F.col("__event_ms") < F.col("__stream_ms")).alias("__astray"),
                F.struct(*values, "__deleted").alias("__row"),
            )
        )

    def _findable(self, released: DataFrame, told: DataFrame, state: DataFrame | None) -> DataFrame:
        """The versions that came, and those held of the keys that are asked for."""
        if state is None:
            return told
        asked = released.select(*self.on).distinct()
        known = state.where(F.col("__kind") == VERSION).drop("__batch")
        return union([told, known.join(asked, self.on, "left_semi")])

    def _waiting(self, state: DataFrame, progress: Progress) -> DataFrame:
        """The records of the state that are not released."""
        records = state.where(F.col("__kind") == RECORD)
        return (
            records
            if progress.closed_ms is None
            else records.where(F.col("__event_ms") >= progress.closed_ms)
        )

    def _needed_ms(self, progress: Progress) -> int | None:
        """No record that is yet to be released has a timestamp below it; None: any may.

        One that waits is not below the frontier, and one to come not further than `history` below its partition's stream
        time, which is not below the lowest of its topic.
        """
        if self.node.history_ms is None or progress.closed_ms is None:
            return None
        streams = (progress.stream_ms[topic.name].values() for topic in self.node.stream.topics)
        lowest = min(ms for partitions in streams for ms in partitions)
        return min(progress.closed_ms, lowest - self.node.history_ms)

    def _found(  # type: ignore[override]
        self, released: DataFrame, versions: DataFrame
    ) -> DataFrame:
        """Each record with the version that it finds.

        A version in its partition's order is committed when any record at or beyond its timestamp is released, for the
        frontier is not beyond it before. So of these the last by time is right, in one pass. Of the others, `__astray`, each
        has to be compared with when the record was released.

        In:  released  rows of the state with `__released_ms`
        Out: the node's columns, `__topic`, `__partition`, `__offset`, `__ingested_at`, `__timestamp`, `__released_at`
        """
        version = F.struct("__event_ms", "__at", "__row").alias("__version")
        told = versions.select("__kind", *self.on, "__event_ms", "__at", "__astray", version)
        astray = told.where("__astray").select(*self.on, F.col("__version").alias("__other"))
        by_time = (
            Window.partitionBy(*self.on)
            .orderBy("__event_ms", F.col("__kind").desc(), "__at")
            .rowsBetween(Window.unboundedPreceding, Window.currentRow)
        )
        both = union([told.where(~F.col("__astray")), released])
        last = F.last("__version", ignorenulls=True).over(by_time)
        asked = both.withColumn("__last", last).where(F.col("__kind") == RECORD)
        visible = (F.col("__other.__event_ms") <= F.col("__event_ms")) & (
            F.col("__other.__at.__ingested_ms") <= F.col("__released_ms")
        )
        others = (
            released.select(*self.on, "__at", "__event_ms", "__released_ms")
            .join(astray, self.on)
            .where(visible)
            .groupBy("__at")
            .agg(F.max_by("__other", _rank("__other")).alias("__other"))
        )
        later = F.col("__last").isNull() | (_rank("__other") > _rank("__last"))
        found = F.when(F.col("__other").isNotNull() & later, F.col("__other")).otherwise(F.col("__last"))
        answers = asked.join(others, "__at", "left").withColumn("__is", found["__row"])
        return self._answered(answers).select(
            *self._shown(),
            *(F.col(f"__at.{name}").alias(name) for name in ("__topic", "__partition", "__offset")),
            F.timestamp_millis("__at.__ingested_ms").alias("__ingested_at"),
            F.timestamp_millis("__event_ms").alias("__timestamp"),
            F.timestamp_millis("__released_ms").alias("__released_at"),
        )


def _rank(version: str) -> Expr:
    return F.struct(F.col(f"{version}.__event_ms"), F.col(f"{version}.__at"))
