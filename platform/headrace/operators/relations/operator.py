"""Joins, and aggregates of tables, as an operator."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import Relation
from headrace.operators.operator import CurrentOperator, Folded, Held, Schemas, nullable, tallies
from headrace.operators.progress import Progress
from headrace.operators.relations.columnar import columnar_relation
from headrace.operators.relations.sides import Increment, JoinSide, Side
from headrace.operators.relations.store import FOLDED, RESULT, Store, as_state, state_columns
from headrace.operators.relations.tree import side_of
from headrace.operators.rows import KEPT, POSITION
from headrace.operators.tables.latest import alive, columns, union
from headrace.spark.frames import Cache
from headrace.spark.varying import varying

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headrace.operators.columnar import Columnar
    from headrace.operators.progress import Tally


class RelationOperator(CurrentOperator[Relation]):
    """The current result of a tree of relations; what its rows are computed from is held in parts beside it."""

    def __init__(self, node: Relation) -> None:
        """The operator of one node."""
        super().__init__(node)
        self._columns: Mapping[str, Sequence[Column]] = {}

    @cached_property
    def root(self) -> Side:
        """The tree."""
        return side_of(self.node)

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """The rows of each side, and of the sides below."""
        return {side.part: side.key for side in self.root.parts if side.part != RESULT}

    def decide(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """Position, `__fate` and `__reason` of each row: what any of the tables uses is kept."""
        decided = [
            side.operator.decide(logs).select(*POSITION, "__fate", "__reason") for side in self.root.leaves
        ]
        if not self._shares_topics:
            return union(decided)
        kept_first = F.struct(F.col("__fate") != KEPT, "__fate", "__reason")
        rows = union(decided).groupBy(*POSITION).agg(F.min(kept_first).alias("__decided"))
        return rows.select(*POSITION, "__decided.__fate", "__decided.__reason")

    def schemas(self, logs: Mapping[str, DataFrame]) -> Schemas:
        """The result; its changes and those of the sides; the sides."""
        changes = self._changes(self._increments(logs, None), Store())
        inputs = self.decide(logs).schema
        parts = {
            side.part: nullable(
                changes[side.part].withColumn("__gone", F.lit(False))
                if side.remembers
                else changes[side.part]
            )
            for side in self.root.parts
        }
        state = as_state(changes, self._state_columns(changes), 0)
        kept = {part: _without_deleted(schema) for part, schema in parts.items()}
        return Schemas(inputs, kept.pop(RESULT), nullable(state), kept)

    def fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], held: Held, progress: Progress
    ) -> Folded:
        """The state gains what has changed: rows of the sides, and of the result."""
        cache = Cache()
        store = Store(held, cache)
        increments = {
            part: replace(brought, rows=cache.share(brought.rows))
            for part, brought in self._increments(logs, None).items()
        }
        met = self._tallies(logs, increments)
        after = progress.after(upto_ms, met, (topic.name for topic in self.node.topics))
        for side in self.root.leaves:
            topics = [topic.name for topic in side.node.topics]
            kept = sum(tally.rows for tally in met if tally.fate == KEPT and tally.topic in topics)
            increments[side.part] = replace(
                increments[side.part],
                closed_ms=after.lowest_ms(topics),
                kept=None if self._shares_topics else kept,
            )
        changes = self._changes(increments, store)
        if self.node.sinks:
            changes[RESULT] = store.keep(changes[RESULT])
        state = as_state(changes, self._state_columns(changes), after.batch)
        return Folded(None, state, after, lambda: self._emitted(changes[RESULT], after), cache.release)

    def columnar(self, schemas: Schemas) -> Columnar | None:
        """Joins of tables alone that read no topic twice, and compute values at the top alone; by their columns' types."""
        return None if self._shares_topics else columnar_relation(self.root, schemas.state)

    def emitted(
        self, logs: Mapping[str, DataFrame], held: Held, state: DataFrame, after: Progress
    ) -> DataFrame:
        """The rows of the result that this increment changes."""
        return self._emitted(state.where(F.col("__part") == RESULT).select(f"{RESULT}.*"), after)

    def read(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """The result as of now."""
        rows = Store(held).current(RESULT, self.node.identity)
        assert rows is not None
        return alive(rows)

    def updates(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """Each row of the result after each micro-batch that touched it and is not folded yet, and before these.

        Out: of a row that is no longer there the values are null
        """
        store = Store(held)
        base, pending = store.folded(RESULT), store.pending(RESULT)
        frames = [] if pending is None else [pending]
        if base is not None:
            frames.append(base.withColumn("__batch", F.lit(FOLDED)))
        return union(frames).select(*columns((*self.node.columns, "__batch")))

    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """Nothing waits: what is kept is used."""
        return None

    def recompute(
        self, logs: Mapping[str, DataFrame], progress: Progress, span_ms: tuple[int, int] | None
    ) -> DataFrame:
        """The result of what the whole logs leave of the tables."""
        times = None
        if self.node.longest_wait_ms:
            met = tallies(self.decide(logs).withColumn("__records", F.lit(1)))
            times = Progress().after(progress.upto_ms, met, ())
        return alive(self._changes(self._increments(logs, times), Store())[RESULT])

    def rejoined(self, held: Held) -> DataFrame:
        """The result anew from the rows held of the tables, whatever stands in the result table; the columns of `read`."""
        return alive(self.root.recomputed(Store(held)))

    def orphans(self, held: Held) -> DataFrame:
        """Of a join: the left rows that refer to a right row, one row each (see `JoinSide.orphans`)."""
        assert isinstance(self.root, JoinSide)
        return self.root.orphans(Store(held))

    def compacted(self, held: Held, inputs: StructType) -> DataFrame:
        """The rows of the result that have changed since."""
        changed = Store(held).changed(RESULT, self.node.identity)
        assert changed is not None
        return changed

    def compacted_parts(self, held: Held) -> Mapping[str, DataFrame]:
        """The rows of each side that have changed since; deleted ones stay where an older record may come later."""
        store, changes = Store(held), {}
        for side in self.root.parts:
            rows = store.changed(side.part, side.key)
            if side.part != RESULT and rows is not None:
                gone = {"__gone": F.col("__deleted"), "__deleted": F.lit(False)}
                changes[side.part] = rows.withColumns(gone) if side.remembers else rows
        return changes

    def expired_parts(self, progress: Progress) -> Mapping[str, Column]:
        """Deleted rows that no later record can precede."""
        expired = {}
        for side in self.root.leaves:
            if isinstance(side.operator, CurrentOperator):
                for forgotten in side.operator.expired_parts(progress).values():
                    expired[side.part] = F.col("__gone") & forgotten
        return expired

    @property
    def _shares_topics(self) -> bool:
        """Whether a topic is read by several of the tables that are joined."""
        read = [topic.name for side in self.root.leaves for topic in side.node.topics]
        return len(set(read)) < len(read)

    def _increments(self, logs: Mapping[str, DataFrame], times: Progress | None) -> dict[str, Increment]:
        """What rows of the logs bring to each leaf; `times`: stream times after them, None while these are not known."""
        increments = {}
        for side in self.root.leaves:
            decided = side.operator.decide(logs)
            topics = [topic.name for topic in side.node.topics]
            closed_ms = None if times is None else times.lowest_ms(topics)
            increments[side.part] = Increment(side.increment(decided), decided.schema, closed_ms)
        return increments

    def _changes(self, increments: Mapping[str, Increment], store: Store) -> dict[str, DataFrame]:
        found = self.root.changes(increments, store)
        return {RESULT: found.rows, **found.below}

    def _state_columns(self, changes: Mapping[str, DataFrame]) -> Mapping[str, Sequence[Column]]:
        if not self._columns:
            self._columns = state_columns({part: frame.schema for part, frame in changes.items()})
        return self._columns

    def _tallies(self, logs: Mapping[str, DataFrame], increments: Mapping[str, Increment]) -> list[Tally]:
        if self._shares_topics:
            return tallies(self.decide(logs).withColumn("__records", F.lit(1)))
        counted = ("__topic", "__partition", "__fate", "__records", "__stream_ms")
        return tallies(union([increment.rows.select(*counted) for increment in increments.values()]))

    def _emitted(self, changes: DataFrame, after: Progress) -> DataFrame:
        """The rows of the result that this increment changes, in the order of the records that it stands for.

        One record can change many rows, and logs are read to frontiers of their own: so the sequence is how far all of them
        are read, the sum of their commit times, which grows with each micro-batch, and the ordinal is counted within it.
        """
        read_ms = varying(max(after.upto_ms.values(), default=0))
        order = Window.orderBy("__at", *columns(self.node.identity))
        return changes.select(
            *columns(self.node.columns),
            "__deleted",
            F.timestamp_millis(F.coalesce("__event_ms", read_ms)).alias("__timestamp"),
            varying(sum(after.upto_ms.values())).alias("__sequence"),
            F.row_number().over(order).alias("__ordinal"),
        )


def _without_deleted(schema: StructType) -> StructType:
    kept = [field for field in schema.fields if field.name != "__deleted"]
    return type(schema)(kept)
