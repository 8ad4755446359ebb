"""Aggregates over a table's rows, as rows of a table: what a row contributed is taken back when it changes or goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description import Aggregate, TableAggregate, count, quote
from headrace.operators.partials import finished_columns, merged_columns, partial_columns
from headrace.operators.relations.sides import Changes, Increment, Leaf, Side
from headrace.operators.relations.store import RESULT, Store
from headrace.operators.tables.latest import alive, columns, union

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame

ROWS = "__rows"  # how many rows are in a group, as an aggregate beside the user's
VALUES = "__values_{}"  # and how many values are in a sum: one of none is null, and not 0


class GroupedSide(Side):
    """The groups of a table, which is held beside them.

    Law: partials are sums, so those of what has come less those of what has gone, merged with what is held, are the
    partials of what is there now, and the same numbers whatever came and went in between.
    """

    node: TableAggregate

    def __init__(self, node: TableAggregate, part: str, rows: Side) -> None:
        """The groups of `rows`."""
        super().__init__(node, part)
        self.rows = rows
        sums = {VALUES.format(name): count(a.column) for name, a in node.aggregates if a.kind == "sum"}
        beside: dict[str, Aggregate] = {ROWS: count(), **sums}
        self._all = (*node.aggregates, *beside.items())

    @property
    def leaves(self) -> Iterator[Leaf]:
        """Those of the rows."""
        yield from self.rows.leaves

    @property
    def parts(self) -> Iterator[Side]:
        """Itself, and those of the rows."""
        yield self
        yield from self.rows.parts

    def recomputed(self, store: Store) -> DataFrame:
        """The groups of all rows."""
        rows = self.rows.recomputed(store)
        return self._groups([self._partials(alive(rows))], rows)

    def changes(self, increments: Mapping[str, Increment], store: Store) -> Changes:
        """The groups that a changed row was in, or is in now."""
        below = self.rows.changes(increments, store)
        came, key = below.rows, self.rows.key
        partials = [self._partials(alive(came))]
        known = store.lookup(self.rows.part, key, key, came.select(*columns(key)))
        if known is not None:
            partials.append(self._partials(alive(known), taken_back=True))
        touched = store.keep(union(partials))
        held = store.lookup(self.part, self.key, self.key, touched.select(*columns(self.key)).distinct())
        parts = [touched] if held is None else [touched, held.select(*columns(touched.columns))]
        groups = self._groups(parts, came)
        changes = groups if self.part == RESULT else store.keep(groups)
        return Changes(changes, {**below.below, self.rows.part: came})

    def _partials(self, rows: DataFrame, *, taken_back: bool = False) -> DataFrame:
        """The group and the partial columns of some rows, one row per group; with `taken_back` what to add to undo them."""
        for name in self.key:
            rows = rows.where(F.col(quote(name)).isNotNull())
        partials = rows.groupBy(*columns(self.key)).agg(*partial_columns(self._all, rows.schema))
        return partials.select(
            *columns(self.key),
            *(
                (-_zero_if_null(field) if taken_back else _zero_if_null(field))
                .cast(field.dataType)
                .alias(field.name)
                for field in partials.schema
                if field.name not in self.key
            ),
        )

    def _groups(self, partials: list[DataFrame], rows: DataFrame) -> DataFrame:
        """The groups that partials add up to: the node's columns, partials, `__deleted`, `__event_ms`, `__at`.

        The last two are null: which record changed a group last cannot be read off the rows that are there.
        """
        merged = union(partials).groupBy(*columns(self.key)).agg(*merged_columns(self._all, rows.schema))
        finished = merged.select("*", *finished_columns(self._all, rows.schema))
        shown = [self._shown(name, aggregate) for name, aggregate in self.node.aggregates]
        partial = [F.col(quote(name)) for name in merged.columns if name not in self.key]
        return finished.select(
            *columns(self.key),
            *shown,
            *partial,
            (F.col(ROWS) == 0).alias("__deleted"),
            F.lit(None).cast("long").alias("__event_ms"),
            F.lit(None).cast(rows.schema["__at"].dataType).alias("__at"),
        )

    def _shown(self, name: str, aggregate: Aggregate) -> Column:
        there = F.col(ROWS) > 0
        if aggregate.kind == "sum":
            there = there & (F.col(quote(VALUES.format(name))) > 0)
        return F.when(there, F.col(quote(name))).alias(name)


def _zero_if_null(field: T.StructField) -> Column:
    return F.coalesce(F.col(quote(field.name)), F.lit(0).cast(field.dataType))
