"""Batches as an operator: the stream cuts increments, a backfill the whole log."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import Batches, quote
from headrace.log.columns import DRAIN
from headrace.operators.batches.columnar import columnar_batches
from headrace.operators.batches.cut import Cutter, event_of
from headrace.operators.batches.place import open_state, place_of, source_of
from headrace.operators.batches.stretches import stretches
from headrace.operators.operator import (
    CUT_ONE_BY_ONE,
    AppendedOperator,
    Folded,
    Held,
    Schemas,
    nullable,
    of_batch,
)
from headrace.operators.partials import decide_by_group
from headrace.operators.progress import Progress, Tally
from headrace.operators.rows import KEPT, rows_of
from headrace.operators.sequence import in_order
from headrace.spark.frames import Cache
from headrace.spark.varying import varying

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.operators.columnar import Columnar


class BatchOperator(AppendedOperator[Batches]):
    """Batches by number, size and wall-clock time; see the package for their law."""

    clock = "ingested_at"
    rows_max = 1_000_000  # whole events are gathered: after an outage of the sink they must fit all the same
    final_at = "closed_at"

    @cached_property
    def _cutter(self) -> Cutter:
        return Cutter(self.node)

    @property
    def ordered(self) -> bool:
        """A batch takes its group's records as they come, from whichever topic."""
        return len(self.node.topics) > 1

    @property
    def uncuttable(self) -> str:
        """The balance would have to be struck at one place in the order of all topics."""
        return CUT_ONE_BY_ONE if self.ordered else ""

    def decide(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """Every record that has a group is kept."""
        return decide_by_group(rows_of(logs, self.node.stream), self.node.by, ())

    def schemas(self, logs: Mapping[str, DataFrame]) -> Schemas:
        """Batches that closed, and where those begin that have not."""
        rows = self.decide(logs)
        found = self._cutter.cut(_kept(rows), None, drains=(), upto_ms=0)
        state = self._state(found, 0).withColumn("__batch", F.lit(0))
        return Schemas(rows.schema, nullable(self._results(found)), nullable(state))

    def fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], held: Held, progress: Progress
    ) -> Folded:
        """Results are the batches that the increment closes; the state gains a row for each group that it touches."""
        rows = self.decide(logs)
        counted, drains = _counted(rows)
        after = progress.after(upto_ms, counted, (topic.name for topic in self.node.topics))
        before_ms, wait_ms = self.frontier_ms(progress), self.node.max_wait_ms
        known = held.state_within("__opened_ms", 0 if wait_ms is None else before_ms - wait_ms + 1)
        still_open = None if known is None else self.open_batches(known, before_ms)
        frontier_ms = self.frontier_ms(after)
        cache = Cache()
        found = cache.share(self._cutter.cut(_kept(rows), still_open, drains=drains, upto_ms=frontier_ms))
        closed, continued = (
            F.col("__closed_by").isNotNull(),
            F.col("__held") & F.col("__closed_by").isNotNull(),
        )
        begun_before = F.when(continued, F.col("__commits"))
        summary = found.agg(
            F.count_if(closed).alias("closed"),
            F.array_distinct(F.flatten(F.collect_set(begun_before))).alias("commits"),
            F.min(F.when(continued & F.col("__commits").isNull(), F.col("__opened_ms"))).alias("from_ms"),
        ).first()
        assert summary is not None
        results = None
        if summary["closed"]:
            earlier = None
            reread = stretches(summary["commits"], summary["from_ms"], before_ms)
            if reread:
                assert held.earlier is not None
                earlier = self.decide(held.earlier(reread))
            results = self._results(found.where(closed), earlier)
        state = of_batch(self._state(found, frontier_ms), after.batch)
        emitted = None if results is None else lambda: self.emitted(results)
        return Folded(results, state, after, emitted, cache.release)

    def columnar(self, schemas: Schemas) -> Columnar | None:
        """Of one topic, grouped by one text, if what it collects are no lists, maps or structs."""
        return columnar_batches(self, schemas.inputs)

    def read(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """The batches that closed."""
        assert held.results is not None
        return held.results

    def updates(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """A batch has one update: itself."""
        return self.read(held, progress, inputs).withColumn("__batch", F.lit(None).cast("long"))

    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """The records of batches that are open."""
        counts = self.open_batches(state, self.frontier_ms(progress)).select(
            F.explode("__counts").alias("count")
        )
        return counts.select(
            self._topic("count.topic").alias("__topic"),
            F.col("count.partition").alias("__partition"),
            F.col("count.records").alias("__records"),
        )

    @property
    def superseding(self) -> tuple[str, ...]:
        """A group's newest row says which batch of it is open, if any."""
        return self.node.by

    def expired(self, progress: Progress) -> Expr | None:
        """Groups without an open batch, and batches whose deadline has passed."""
        gone = F.col("__records") == 0
        if self.node.max_wait_ms is None:
            return gone
        return gone | (F.col("__opened_ms") <= self.frontier_ms(progress) - self.node.max_wait_ms)

    def asks_again_ms(self, state: DataFrame, progress: Progress) -> int | None:
        """Since the first record of the oldest open batch: its events are read when it closes."""
        row = self.open_batches(state, self.frontier_ms(progress)).agg(F.min("__opened_ms")).first()
        return None if row is None else row[0]

    def settled(self, progress: Progress) -> Expr:
        """Batches that closed at or before the last log commit folded."""
        return F.unix_millis("closed_at") <= self.frontier_ms(progress)

    def recompute(
        self, logs: Mapping[str, DataFrame], progress: Progress, span_ms: tuple[int, int] | None
    ) -> DataFrame:
        """The batches opened in the span that have closed.

        Where the first of them begin depends on all batches before: these are cut from the log's start, without events.
        """
        rows, upto_ms, before = self.decide(logs), self.frontier_ms(progress), None
        drains = _drains(rows)
        if span_ms is not None:
            first_ms, last_ms = span_ms
            past = rows.where(F.col("__ingested_ms") < first_ms)
            done = [ms for ms in drains if ms < first_ms]
            counting = Cutter(self.node, collect=False)
            before = self._open_rows(counting.cut(_kept(past), None, drains=done, upto_ms=first_ms - 1))
            if self.node.max_wait_ms is not None:
                upto_ms = min(upto_ms, last_ms + self.node.max_wait_ms)
            rows = rows.where(F.col("__ingested_ms").between(first_ms, upto_ms))
            drains = [ms for ms in drains if first_ms <= ms <= upto_ms]
        found = self._cutter.cut(_kept(rows), before, drains=drains, upto_ms=upto_ms)
        return self._results(found.where(F.col("__closed_by").isNotNull() & ~F.col("__held")))

    def emitted(self, results: DataFrame) -> DataFrame:
        """Batches in the order in which they closed; those of one moment, which always close together, as they opened."""
        order = ("opened_at", *source_of(self.node))
        return results.select(
            *(F.col(quote(name)) for name in self.node.columns),
            F.lit(False).alias("__deleted"),
            F.col("__timestamp"),
            F.unix_millis("closed_at").alias("__sequence"),
            (F.row_number().over(Window.partitionBy("closed_at").orderBy(*order)) - 1).alias("__ordinal"),
        )

    def frontier_ms(self, progress: Progress) -> int:
        """The last commit time folded: the wall clock as far as the logs tell it. Of all topics it is the same."""
        return min(progress.upto_ms.get(topic.name, 0) for topic in self.node.topics)

    def open_batches(self, state: DataFrame, frontier_ms: int) -> DataFrame:
        """The open batches as of a frontier, one row per group: `by` and `open_state`."""
        if self.node.max_wait_ms is not None:
            state = state.where(F.col("__opened_ms") > varying(frontier_ms - self.node.max_wait_ms))
        by = [F.col(quote(name)) for name in self.node.by]
        newest = state.groupBy(*by).agg(
            F.max_by(F.struct(*open_state(self.node)), "__batch").alias("__newest")
        )
        return newest.select(*by, "__newest.*").where(F.col("__records") > 0)

    def _open_rows(self, found: DataFrame) -> DataFrame:
        return found.where(F.col("__closed_by").isNull()).select(*self._groups(), *open_state(self.node))

    def _state(self, found: DataFrame, frontier_ms: int) -> DataFrame:
        """Batches that have grown and are open; and groups whose batch closed before its time and has no successor."""
        is_open = F.col("__closed_by").isNull()
        ended = ~is_open & F.col("__known") & F.col("__last")
        if self.node.max_wait_ms is not None:
            ended = ended & (F.col("__opened_ms") > varying(frontier_ms - self.node.max_wait_ms))
        records = F.when(is_open, F.col("__records")).otherwise(0).alias("__records")
        columns = [records if name == "__records" else F.col(name) for name in open_state(self.node)]
        return found.where((is_open & F.col("__touched")) | ended).select(*self._groups(), *columns)

    def _results(self, closed: DataFrame, earlier: DataFrame | None = None) -> DataFrame:
        by, events = self._groups(), F.col("__events")
        if earlier is not None:
            closed = closed.join(self._events_before(closed, earlier), list(self.node.by), "left")
            events = F.when(
                F.col("__held"), F.concat(F.col("__before"), F.col("__events"))
            ).otherwise(F.col("__events"))  # fmt: skip
        return closed.select(
            *by,
            self._batch_id().alias("batch_id"),
            events.alias("events"),
            F.col("__records").alias("records"),
            F.timestamp_millis("__opened_ms").alias("opened_at"),
            F.timestamp_millis("__closed_ms").alias("closed_at"),
            F.col("__closed_by").alias("closed_by"),
            *("__records", "__bytes", *source_of(self.node)),
            F.timestamp_millis("__event_ms").alias("__timestamp"),
        )

    def _events_before(self, closed: DataFrame, earlier: DataFrame) -> DataFrame:
        """For each group whose batch was open before: the events that it had then, `__before`, in the log's order."""
        by = self._groups()
        place, first = place_of(self.node), F.struct("__opened_ms", *source_of(self.node))
        begun = closed.where("__held").select(*by, first.alias("__begun"))
        own = _kept(earlier).join(begun, list(self.node.by)).where(F.struct(*place) >= F.col("__begun"))
        record = F.struct(*place, event_of(self.node).alias("__event"))
        gathered = own.groupBy(*by).agg(F.collect_list(record).alias("__records_before"))
        ordered = in_order(gathered, "__records_before", place)
        return gathered.select(*by, F.transform(ordered, lambda record: record["__event"]).alias("__before"))

    def _batch_id(self) -> Expr:
        """Topic, partition and offset of the first record, which no other batch has; and the group, for people."""
        by, shape = self.node.by, self.node.stream.shape
        known = shape.type_of(by[0])
        plain = len(by) == 1 and known is not None and known.type == "STRING"
        group = self._groups()[0] if plain else F.to_json(F.struct(*self._groups()))
        return F.concat_ws("/", self._topic("__topic"), "__partition", "__offset", group)

    def _topic(self, column: str) -> Expr:
        """The topic, from a column that tables of one topic do not have."""
        return F.col(column) if self.ordered else F.lit(self.node.topics[0].name)

    def _groups(self) -> list[Expr]:
        return [F.col(quote(name)) for name in self.node.by]


def _kept(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("__fate") == KEPT)


def _counted(rows: DataFrame) -> tuple[list[Tally], list[int]]:
    """The fates of an increment, and the commit times of its drains, in one pass."""
    drained = F.when(F.col("__fate") == DRAIN, F.col("__ingested_ms"))
    counted = rows.groupBy("__topic", "__partition", "__fate").agg(
        F.count(F.lit(1)).alias("records"),
        F.max("__stream_ms").alias("stream_ms"),
        F.collect_set(drained).alias("drains"),
    )
    found = counted.collect()
    tallies = [
        Tally(r["__topic"], r["__partition"], r["__fate"], r["records"], r["stream_ms"]) for r in found
    ]
    return tallies, sorted(ms for row in found for ms in row["drains"])


def _drains(rows: DataFrame) -> Sequence[int]:
    drained = rows.where(F.col("__fate") == DRAIN).select("__ingested_ms").distinct()
    return sorted(row["__ingested_ms"] for row in drained.collect())
