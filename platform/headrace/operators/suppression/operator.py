"""Suppression by a time limit as an operator: the stream folds increments, a backfill the whole log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import Suppressed, quote
from headrace.operators.operator import Folded, Held, Operator, Schemas, nullable
from headrace.operators.progress import Progress
from headrace.operators.rows import KEPT
from headrace.operators.suppression.leaving import place_ends
from headrace.operators.suppression.timeline import Times, advances, counted, own_time, timed
from headrace.operators.suppression.updates import updates_of
from headrace.operators.suppression.values import value_waits
from headrace.operators.suppression.waits import UPDATE, assign_waits
from headrace.operators.tables.latest import columns, union

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

OPEN = ("__opened_ms", "__opened_offset")  # of the state: null where nothing waits
NOT_STATE = ("__opened_after_ms", "__opened_place", "__touched", "__latest", "__left", "__early")


class SuppressionOperator(Operator[Suppressed]):
    """Each key's latest value when its wait is over; see the package for the law.

    The state has one row for each entry and micro-batch that touched it: what it is worth, and its open wait if any.
    """

    appended = True
    final_at = "__committed_at"

    def __init__(self, node: Suppressed) -> None:
        """The operator of one node, and the updates that it suppresses."""
        super().__init__(node)
        self.updated = updates_of(node.updated)
        self.keys = [*self.updated.entry, "__partition"]

    @property
    def throttle_ms(self) -> int:
        """As described of what is suppressed."""
        return self.updated.operator.throttle_ms

    @property
    def identity(self) -> tuple[str, ...]:
        """A wait: its entry, and where it was opened."""
        return (*self.node.identity, "__partition", "__opened_offset")

    def decide(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """As what is suppressed decides."""
        return self.updated.decide(logs)

    def schemas(self, logs: Mapping[str, DataFrame]) -> Schemas:
        """Rows that left, and what entries are worth."""
        rows = self.decide(logs)
        waits = self._waits(rows, None, {})
        state = self._state(waits).withColumn("__batch", F.lit(0))
        return Schemas(rows.schema, nullable(self._results(waits, rows.schema)), nullable(state))

    def fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], held: Held, progress: Progress
    ) -> Folded:
        """Results are the waits that the increment ends; the state gains a row for each entry that it touches."""
        rows = self.decide(logs)
        tallies, own_ms = counted(rows, progress.own_ms)
        after = progress.after(upto_ms, tallies, (topic.name for topic in self.node.topics))
        after = replace(after, own_ms=own_ms)
        touched = self.updated.exploded(rows.where(F.col("__fate") == KEPT))
        known = None if held.state is None else self._relevant(held.state, touched, own_ms)
        waits = self._waits(rows, known, progress.own_ms).persist()
        state = self._state(waits).withColumn("__batch", F.lit(after.batch))
        results = None
        if not waits.where(F.col("__left").isNotNull()).isEmpty():
            results = self._results(waits, rows.schema)
        emitted = None if results is None else lambda: self.emitted(results)
        return Folded(results, state, after, emitted, waits.unpersist)

    def read(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """Every row that left."""
        assert held.results is not None
        return held.results

    def updates(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """What each entry was worth after each micro-batch that touched it; of those forgotten since, what left last."""
        assert held.results is not None
        users = columns(self.node.columns)
        left = F.struct("__committed_at", F.col("__offset").isNull(), "__offset", "__sub", "__opened_ms")
        others = [name for name in self.node.columns if name not in self.node.identity]
        last = held.results.groupBy(*columns(self.node.identity)).agg(
            F.max_by(F.struct(*columns(others)), left).alias("__row")
        )
        values = (F.col(f"__row.{quote(name)}").alias(name) for name in others)
        before = last.select(*columns(self.node.identity), *values).select(*users, F.lit(0).cast("long").alias("__batch"))
        if held.state is None:
            return before
        now = held.state.select(*self.updated.finished(inputs), "__batch")
        return before.unionByName(now.select(*users, "__batch"))

    def late(self, decided: DataFrame) -> DataFrame:
        """As what is suppressed says."""
        return self.updated.operator.late(decided)

    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """The records of waits that are not over."""
        waiting = self._newest(state).where(F.col("__opened_ms").isNotNull())
        return waiting.select(F.lit(self.node.topics[0].name).alias("__topic"), "__partition", "__records")

    @property
    def superseding(self) -> tuple[str, ...]:
        """An entry's newest row says what it is worth, and what waits."""
        return tuple(self.keys)

    def expired(self, progress: Progress) -> Expr | None:
        """Entries that neither wait nor are built upon."""
        forgotten = self.updated.forgotten(progress)
        return None if forgotten is None else F.col("__opened_ms").isNull() & forgotten

    def settled(self, progress: Progress) -> Expr:
        """Rows that left at or before the last log commit folded."""
        upto_ms = progress.upto_ms.get(self.node.topics[0].name, 0)
        return F.unix_millis("__committed_at") <= upto_ms

    def recompute(
        self, logs: Mapping[str, DataFrame], progress: Progress, span_ms: tuple[int, int] | None
    ) -> DataFrame:
        """Every row that left: any of them may rest on the log's first record."""
        rows = self.decide(logs)
        return self._results(self._waits(rows, None, {}), rows.schema)

    def emitted(self, results: DataFrame) -> DataFrame:
        """Rows in the order in which they left: by the record that let them, then oldest first, then by key."""
        order = ("__partition", F.col("__offset").asc_nulls_last(), "__sub", "__opened_ms", "__key")
        return results.select(
            *columns(self.node.columns),
            *("__deleted", "__timestamp"),
            F.unix_millis("__committed_at").alias("__sequence"),
            (F.row_number().over(Window.partitionBy("__committed_at").orderBy(*order)) - 1).alias("__ordinal"),
        )

    def _waits(self, decided: DataFrame, held: DataFrame | None, own_ms: Times) -> DataFrame:
        """The waits of an increment, with their values and where they are over (see `value_waits`, `place_ends`)."""
        rows, limit_ms = timed(decided, own_ms), self.node.policy.limit_ms
        assigned = assign_waits(
            self._updates(rows),
            held,
            entry=self.updated.entry,
            inputs=self.updated.inputs,
            limit_ms=limit_ms,
            highest=self.updated.highest,
        )
        waits = value_waits(assigned, held, self.updated, decided.schema)
        moved = advances(rows, self.updated.first_update())
        return place_ends(waits, moved, limit_ms).withColumn("__early", F.lit(False))

    def _updates(self, rows: DataFrame) -> DataFrame:
        """The updates of rows as `timed` gives them; what a record's first one moves is past when its others come."""
        updates = self.updated.exploded(rows.where(F.col("__fate") == KEPT))
        later = F.col("__sub") > self.updated.first_update()
        before = F.when(later, F.col("__after_ms")).otherwise(F.col("__before_ms"))
        named = [name for name in self.updated.inputs if name not in self.keys]
        shown = (name for name in UPDATE if name != "__before_ms")
        return updates.select(*columns(self.keys), *shown, before.alias("__before_ms"), *columns(named))

    def _relevant(self, state: DataFrame, touched: DataFrame, own_ms: Times) -> DataFrame:
        """What is held of the entries that are touched or whose wait is over."""
        over = F.col("__opened_ms") + self.node.policy.limit_ms <= own_time(own_ms)
        wanted = union([touched.select(*columns(self.keys)), state.where(over).select(*columns(self.keys))])
        return self._newest(state.join(wanted.distinct(), self.keys, "left_semi"))

    def _newest(self, state: DataFrame) -> DataFrame:
        others = [name for name in state.columns if name not in (*self.keys, "__batch")]
        newest = state.groupBy(*columns(self.keys)).agg(
            F.max_by(F.struct(*columns(others)), "__batch").alias("__newest")
        )
        return newest.select(*columns(self.keys), "__newest.*")

    def _state(self, waits: DataFrame) -> DataFrame:
        """The newest wait of each entry that is touched or no longer waits; open or not, it holds what the entry is worth."""
        waiting = F.col("__left").isNull()
        newest = waits.where(F.col("__latest") & (F.col("__touched") | ~waiting))
        closed = {name: F.when(waiting, F.col(name)) for name in OPEN}
        records = F.when(waiting, F.col("__records")).otherwise(0)
        return newest.withColumns({**closed, "__records": records}).drop(*NOT_STATE)

    def _results(self, waits: DataFrame, inputs: StructType) -> DataFrame:
        over = waits.where(F.col("__left").isNotNull())
        at = F.col("__left")
        return over.select(
            *self.updated.finished(inputs),
            F.col("__early"),
            F.timestamp_millis("__event_ms").alias("__timestamp"),
            F.timestamp_millis(at["stream_ms"]).alias("__emitted_at"),
            F.timestamp_millis(at["ingested_ms"]).alias("__committed_at"),
            F.col("__partition"),
            at["offset"].alias("__offset"),
            at["sub"].alias("__sub"),
            *OPEN,
            self._key_bytes().alias("__key"),
            F.col("__records"),
        )

    def _key_bytes(self) -> Expr:
        """An entry's bytes: text or JSON in UTF-8, then its window's start as eight bytes."""
        by, shape = self.updated.by, self.node.updated.stream.shape
        known = shape.type_of(by[0])
        plain = len(by) == 1 and known is not None and known.type == "STRING"
        text = F.col(quote(by[0])) if plain else F.to_json(F.struct(*columns(by)))
        key = F.encode(text, "UTF-8")
        if "__start" not in self.updated.entry:
            return key
        return F.concat(key, F.unhex(F.lpad(F.hex("__start"), 16, "0")))
