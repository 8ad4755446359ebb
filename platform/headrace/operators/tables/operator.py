"""Tables as an operator."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import Table, quote
from headrace.log.columns import DEAD_LETTER
from headrace.operators.operator import CurrentOperator, Folded, Held, Schemas, nullable, of_batch, tallies
from headrace.operators.progress import Progress
from headrace.operators.rows import KEPT, TOMBSTONE, position, rows_of
from headrace.operators.sequence import numbered
from headrace.operators.tables.columnar import columnar_table
from headrace.operators.tables.latest import alive, columns, latest, latest_of_increment, rank, union
from headrace.spark.frames import Cache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headrace.operators.columnar import Columnar

DELETED = "deleted"


class TableOperator(CurrentOperator[Table]):
    """The latest rows; the state holds the changes that are not folded into them."""

    @property
    def remembers(self) -> bool:
        """Whether a later micro-batch may bring a record that a delete precedes in the order of the table.

        Within one topic positions rise from commit to commit; between two topics, and by timestamp, they need not.
        """
        return self.node.order_by == "timestamp" or len(self.node.topics) > 1

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """The keys that are deleted, where deletes are remembered."""
        return {DELETED: self.node.key} if self.remembers else {}

    def decide(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """Every record that has a key is kept, tombstones too; with `__deleted` (the key goes) and `__at`."""
        rows = rows_of(logs, self.node.stream)
        usable = F.col("__fate").isNull() | (F.col("__fate") == TOMBSTONE)
        nothing = F.lit(None).cast("string")
        keyless = reduce(
            lambda rest, name: F.when(F.col(quote(name)).isNull(), f"key: {name} is null").otherwise(rest),
            reversed(self.node.key),
            nothing,
        )
        fails = (~F.coalesce(F.expr(condition), F.lit(False)) for condition in self.node.conditions)
        gone = reduce(lambda one, other: one | other, fails, F.col("__fate").eqNullSafe(TOMBSTONE))
        rows = rows.withColumns(
            {
                "__deleted": gone,
                "__at": position(),
                "__reason": F.when(usable, keyless).otherwise(F.col("__reason")),
            }
        )
        fate = F.when(F.col("__reason").isNotNull(), DEAD_LETTER).otherwise(KEPT)
        return rows.withColumn("__fate", F.when(usable, fate).otherwise(F.col("__fate")))

    def schemas(self, logs: Mapping[str, DataFrame]) -> Schemas:
        """The latest rows; changes with the micro-batch that appended them; deletes, where they are remembered."""
        rows = self.decide(logs)
        changes = self.changes(self.increment(rows))
        parts = {part: nullable(self._memory(changes)) for part in self.parts}
        state = nullable(changes.withColumn("__batch", F.lit(0)))
        return Schemas(rows.schema, nullable(changes.drop("__deleted")), state, parts)

    def fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], held: Held, progress: Progress
    ) -> Folded:
        """The state gains the latest row of each key touched."""
        cache = Cache()
        increment = cache.share(self.increment(self.decide(logs)))
        after = progress.after(upto_ms, tallies(increment), (topic.name for topic in self.node.topics))
        changes = self.changes(increment)
        state = of_batch(changes, after.batch)
        return Folded(None, state, after, lambda: self.emitted(logs, held, state, after), cache.release)

    def columnar(self, schemas: Schemas) -> Columnar | None:
        """By the types of its columns."""
        return columnar_table(self, schemas.state)

    def read(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """The latest row of every key that is not deleted."""
        assert held.results is not None
        if held.state is None:
            return held.results
        untouched = held.results.join(held.state.select(*self._key()), [*self.node.key], "left_anti")
        return untouched.unionByName(alive(self._touched(held, held.state)))

    def updates(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """The latest row of each key after each micro-batch that touched it and is not folded yet, and before these.

        Out: of a deleted key the values are null
        """
        changes = [] if held.state is None else [held.state]
        so_far = (
            Window.partitionBy(*self._key())
            .orderBy("__batch")
            .rowsBetween(Window.unboundedPreceding, Window.currentRow)
        )
        rows = union([*(base.withColumn("__batch", F.lit(0)) for base in self._bases(held)), *changes])
        row = F.struct(*columns((*self.node.values, "__deleted")))
        rows = rows.select(
            *self._key(), F.max_by(row, rank(self.node.order_by)).over(so_far).alias("__row"), "__batch"
        )
        shown = rows.where((F.col("__batch") > 0) | ~F.col("__row.__deleted"))
        values = (F.col(f"__row.{quote(name)}").alias(name) for name in self.node.values)
        return shown.select(*self._key(), *values, "__batch")

    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """Nothing waits: what is kept is used."""
        return None

    def recompute(
        self, logs: Mapping[str, DataFrame], progress: Progress, span_ms: tuple[int, int] | None
    ) -> DataFrame:
        """The latest rows of the whole log."""
        return alive(self.changes(self.increment(self.decide(logs))))

    def compacted(self, held: Held, inputs: StructType) -> DataFrame:
        """The latest row of each key that was touched since."""
        assert held.state is not None
        return self._touched(held, held.state)

    def compacted_parts(self, held: Held) -> Mapping[str, DataFrame]:
        """Of each key that was touched since: it is deleted, or no longer."""
        if not self.remembers:
            return {}
        assert held.state is not None
        now = self._touched(held, held.state)
        return {DELETED: self._memory(now, (~F.col("__deleted")).alias("__deleted"))}

    def expired_parts(self, progress: Progress) -> Mapping[str, Column]:
        """By position a delete may be forgotten when every topic has been read beyond it; by timestamp never."""
        read_ms = [progress.upto_ms.get(topic.name, 0) for topic in self.node.topics]
        if self.node.order_by == "timestamp" or not self.remembers:
            return {}
        return {DELETED: F.col("__at.__ingested_ms") <= min(read_ms)}

    def increment(self, decided: DataFrame) -> DataFrame:
        """The latest of the rows that are kept, and a count of all (see `latest_of_increment`)."""
        return latest_of_increment(decided, self.node.key, self.node.values, rank(self.node.order_by))

    def changes(self, increment: DataFrame) -> DataFrame:
        """The latest row of each key: the node's columns, `__deleted`, `__event_ms`, `__at`."""
        kept = increment.where(F.col("__fate") == KEPT).select(*self._key(), "__row.*")
        return latest(kept, self.node.key, rank(self.node.order_by))

    def _bases(self, held: Held) -> list[DataFrame]:
        """What is folded: rows, and the memory of deletes."""
        frames = []
        if held.results is not None:
            frames.append(held.results.withColumn("__deleted", F.lit(False)))
        if DELETED in held.parts:
            frames.append(held.parts[DELETED].withColumn("__deleted", F.lit(True)))
        return frames

    def _touched(self, held: Held, changes: DataFrame) -> DataFrame:
        """The latest rows, deleted ones too, of the keys in some changes, one each: bases and changes merged."""
        keys = changes.select(*self._key()).distinct()
        bases = [base.join(keys, [*self.node.key], "left_semi") for base in self._bases(held)]
        return latest(union([changes.drop("__batch"), *bases]), self.node.key, rank(self.node.order_by))

    def _memory(self, rows: DataFrame, *also: Column) -> DataFrame:
        return rows.select(*self._key(), "__event_ms", "__at", *also)

    def _key(self) -> list[Column]:
        return columns(self.node.key)

    def emitted(
        self, logs: Mapping[str, DataFrame], held: Held, state: DataFrame, after: Progress
    ) -> DataFrame:
        """The changes of this increment, but those that a later record preceded."""
        changes = state.drop("__batch")
        if self.remembers:
            keys = changes.select(*self._key())
            pending = [] if held.state is None else [held.state.join(keys, [*self.node.key], "left_semi")]
            now = self._touched(held, union([state, *pending]))
            own = changes.select(*self._key(), F.col("__at").alias("__own"))
            changes = now.join(own, [*self.node.key]).where(F.col("__at") == F.col("__own")).drop("__own")
        return numbered(changes, logs, "__at").select(
            *columns(self.node.columns),
            "__deleted",
            F.timestamp_millis("__event_ms").alias("__timestamp"),
            *("__sequence", "__ordinal"),
        )
