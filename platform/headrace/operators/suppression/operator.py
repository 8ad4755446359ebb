"""Suppression by a time limit as an operator: the stream folds increments, a backfill the whole log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import Suppressed, quote
from headrace.description.suppression import EMIT_EARLY, SHUT_DOWN
from headrace.operators.bounds import refusal
from headrace.operators.limits import InForce, entries_in, in_force
from headrace.operators.operator import AppendedOperator, Folded, Held, Schemas, nullable, of_batch
from headrace.operators.progress import Progress
from headrace.operators.rows import KEPT
from headrace.operators.suppression.bounded import (
    HELD,
    OTHER,
    UPDATE,
    going_in,
    joins,
    leaves,
    pass_over,
)
from headrace.operators.suppression.leaving import place_ends
from headrace.operators.suppression.sizes import buffered, peaks
from headrace.operators.suppression.timeline import (
    Known,
    Times,
    advances,
    counted,
    expiry_after,
    timed,
)
from headrace.operators.suppression.updates import updates_of
from headrace.operators.suppression.values import value_waits
from headrace.operators.suppression.waits import COLUMNS, assign_waits
from headrace.operators.tables.latest import columns, latest, union
from headrace.spark.frames import Cache
from headrace.spark.varying import varying_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.description import UntilTimeLimit
    from headrace.errors import TerminalError

OPEN = ("__opened_ms", "__opened_offset")  # of the state: null where nothing waits
NOT_STATE = ("__opened_after_ms", "__opened_place", "__touched", "__latest", "__left", "__early")


@dataclass(frozen=True)
class Found:
    """What an increment leads to: updates with their waits; waits with their values and ends."""

    assigned: DataFrame
    waits: DataFrame


class SuppressionOperator(AppendedOperator[Suppressed]):
    """Each key's latest value when its wait is over; see the package for the law.

    The state has one row for each entry and micro-batch that touched it: what it is worth, and its open wait if any.
    """

    final_at = "__committed_at"

    def __init__(self, node: Suppressed) -> None:
        """The operator of one node, and the updates that it suppresses."""
        super().__init__(node)
        self.updated = updates_of(node.updated)
        self.keys = [*self.updated.entry, "__partition"]
        self.name = node.name or ""

    @property
    def throttle_ms(self) -> int:
        """As described of what is suppressed."""
        return int(self.updated.operator.throttle_ms)

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
        waits = self._all(rows, InForce(self.node.policy))
        state = self._state(waits).withColumn("__batch", F.lit(0))
        return Schemas(rows.schema, nullable(self._results(waits, rows.schema)), nullable(state))

    def fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], held: Held, progress: Progress
    ) -> Folded:
        """Results are the waits that the increment ends; the state gains a row for each entry that it touches."""
        rows = self.decide(logs)
        tallies, own_ms, entries = counted(rows, progress.own_ms, self.name)
        policies = in_force(self.node.policy, progress.limits, entries)
        before = Known(progress.own_ms, progress.expiry_ms)
        cache = Cache()
        times = cache.share(timed(rows, before, policies, self.name))
        expiry_ms = expiry_after(times, before, own_ms, policies)
        known = None
        if held.state is not None:
            touched = self.updated.exploded(times.where(F.col("__fate") == KEPT))
            known = cache.share(self._relevant(held.state, touched, expiry_ms))
        found = self._found(times, known, rows.schema, policies, cache)
        waits = cache.share(found.waits)
        ended, buffer = buffered(waits, known, progress.buffer)
        after = progress.after(upto_ms, tallies, (topic.name for topic in self.node.topics))
        after = replace(after, own_ms=own_ms, expiry_ms=expiry_ms, buffer=buffer, limits=policies.altered)
        state = of_batch(self._state(waits), after.batch)
        results = self._results(waits, rows.schema) if ended else None
        emitted = None if results is None else lambda: self.emitted(results)
        refused = self._refusal(found.assigned, known, waits, progress, policies.last)
        return Folded(results, state, after, emitted, cache.release, refused)

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
        before = last.select(*columns(self.node.identity), *values).select(
            *users, F.lit(0).cast("long").alias("__batch")
        )
        if held.state is None:
            return before
        now = held.state.select(*self.updated.finished(inputs), "__batch")
        return before.unionByName(now.select(*users, "__batch"))

    def late(self, decided: DataFrame) -> DataFrame:
        """As what is suppressed says."""
        late: DataFrame = self.updated.operator.late(decided)
        return late

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
        policies = in_force(self.node.policy, {}, entries_in(rows, self.name))
        return self._results(self._all(rows, policies).where(F.col("__left").isNotNull()), rows.schema)

    def emitted(self, results: DataFrame) -> DataFrame:
        """Rows in the order in which they left: by the record that let them, then oldest first, then by key."""
        order = ("__partition", F.col("__offset").asc_nulls_last(), "__sub", "__opened_ms", "__key")
        return results.select(
            *columns(self.node.columns),
            *("__deleted", "__timestamp"),
            F.unix_millis("__committed_at").alias("__sequence"),
            (F.row_number().over(Window.partitionBy("__committed_at").orderBy(*order)) - 1).alias(
                "__ordinal"
            ),
        )

    def _all(self, rows: DataFrame, policies: InForce[UntilTimeLimit]) -> DataFrame:
        """The waits of a log from its beginning."""
        return self._found(timed(rows, Known(), policies, self.name), None, rows.schema, policies).waits

    def _found(
        self,
        times: DataFrame,
        held: DataFrame | None,
        inputs: StructType,
        policies: InForce[UntilTimeLimit],
        cache: Cache | None = None,
    ) -> Found:
        """The waits of rows as `timed` gives them."""
        if self.node.policy.bound.when_full == EMIT_EARLY:
            return self._in_one_pass(times, held, inputs, policies, cache)
        assigned = assign_waits(
            self._updates(times),
            held,
            entry=self.updated.entry,
            inputs=self.updated.inputs,
            highest=self.updated.highest,
        )
        waits = value_waits(assigned, held, self.updated, inputs)
        ended = place_ends(waits, advances(times, self.updated.first_update()))
        return Found(assigned, ended.withColumn("__early", F.lit(False)))

    def _in_one_pass(
        self,
        times: DataFrame,
        held: DataFrame | None,
        inputs: StructType,
        policies: InForce[UntilTimeLimit],
        cache: Cache | None,
    ) -> Found:
        """The same where a bound lets the oldest leave early (see `pass_over`)."""
        key, updates = self._key_bytes(), self._updates(times)
        going = [
            going_in(self._stamped(updates, held), UPDATE, key),
            going_in(times.where(F.col("__fate") != KEPT), OTHER, F.lit(None)),
        ]
        if held is not None:
            going.append(going_in(held.where(F.col("__opened_ms").isNotNull()), HELD, key))
        passed = pass_over(union(going), policies)
        if cache is not None:
            passed = cache.share(passed)
        assigned = updates.join(joins(passed), ["__partition", "__offset", "__sub"])
        waits = value_waits(assigned, held, self.updated, inputs).withColumn("__key", key)
        ended = waits.join(leaves(passed), ["__partition", "__key", "__opened_offset"], "left").drop("__key")
        return Found(assigned, ended)

    def _refusal(
        self,
        assigned: DataFrame,
        held: DataFrame | None,
        waits: DataFrame,
        progress: Progress,
        policy: UntilTimeLimit,
    ) -> TerminalError | None:
        """By the bound at the increment's end: a higher one lets a stream go on from where it stopped."""
        bound = policy.bound
        if bound.when_full != SHUT_DOWN:
            return None
        highest = peaks(assigned, held, waits, self.keys, progress.buffer)
        return refusal(self.name, bound, highest, "suppressed updates")

    def _stamped(self, updates: DataFrame, held: DataFrame | None) -> DataFrame:
        """Updates with their timestamps as `__opened_ms`: that of a wait, should they open one."""
        stamp = F.col("__event_ms")
        if self.updated.highest:
            order = Window.partitionBy(*columns(self.keys)).orderBy("__offset")
            so_far = F.max(stamp).over(order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
            if held is None:
                return updates.withColumn("__opened_ms", so_far)
            before = held.select(*columns(self.keys), F.col("__event_ms").alias("__held_ms"))
            updates = updates.join(before, self.keys, "left")
            stamp = F.greatest(so_far, F.col("__held_ms"))
        return updates.withColumn("__opened_ms", stamp)

    def _updates(self, rows: DataFrame) -> DataFrame:
        """The updates of rows as `timed` gives them; what a record's first one moves is past when its others come."""
        updates = self.updated.exploded(rows.where(F.col("__fate") == KEPT))
        later = F.col("__sub") > self.updated.first_update()
        before = F.when(later, F.col("__after_ms")).otherwise(F.col("__before_ms"))
        named = [name for name in self.updated.inputs if name not in self.keys]
        shown = (name for name in COLUMNS if name != "__before_ms")
        return updates.select(*columns(self.keys), *shown, before.alias("__before_ms"), *columns(named))

    def _relevant(self, state: DataFrame, touched: DataFrame, expiry_ms: Times) -> DataFrame:
        """What is held of the entries that are touched or whose wait is over."""
        over = F.col("__opened_ms") <= varying_by("__partition", expiry_ms)
        if self.node.policy.bound.when_full == EMIT_EARLY:  # any wait can end early
            over = F.col("__opened_ms").isNotNull()
        wanted = union([touched.select(*columns(self.keys)), state.where(over).select(*columns(self.keys))])
        return self._newest(state.join(wanted.distinct(), self.keys, "left_semi"))

    def _newest(self, state: DataFrame) -> DataFrame:
        return latest(state, self.keys, F.col("__batch")).drop("__batch")

    def _state(self, waits: DataFrame) -> DataFrame:
        """The newest wait of each entry that is touched or no longer waits: it holds what the entry is worth."""
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
