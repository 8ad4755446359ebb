"""Aggregates of a table's rows that are one of these rows' values, or some of them, in an order of the rows.

Law (L20): the first rows of a set in a total order are a function of the set. The first of a union are the first of the
firsts, so a group that only gains rows is found from what was picked before; one that loses rows is found from its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.description.aggregates import BOUNDED, RANKED, Aggregate
from headrace.fold.aggregates.extremes import ordered_by, ranks
from headrace.fold.aggregates.kind import whole
from headrace.fold.aggregates.nested import fields_of, items_of, lists_of, structs_of
from headrace.fold.aggregates.table import spelling
from headrace.fold.grouped.alive import first_alive
from headrace.fold.keys import canonical

BY, VALUE, MEMBER = "by", "value", "__member"  # MEMBER: the canonical key of a row of the table, BINARY
EXTREMES = ("min", "max")
PICKED = (*EXTREMES, "collect", *RANKED)  # kinds of aggregates
LOWEST_FIRST = ("min", "min_by")


@dataclass(frozen=True)
class Candidates:
    """Rows among which is picked.

    rows        with MEMBER and the columns that are read
    group       of each the number of its group
    begin, end  of each the questions at which it is there (see `alive`)
    """

    rows: pa.Table
    group: np.ndarray
    begin: np.ndarray
    end: np.ndarray


@dataclass(frozen=True)
class Pick:
    """One aggregate.

    value  the column whose values it shows
    by     the column that ranks rows. A row with null in it is not picked. If several rows rank the same, the row with the
           lowest key is first. None: keys rank the rows, and a row whose value is null is not picked
    most   how many rows are picked
    ascending  of a rank of several columns their directions (see `extremes.ordered_by`)
    """

    name: str
    kind: str
    value: pa.Field
    by: pa.Field | None
    most: int
    ascending: tuple[bool, ...] = ()
    needs_rows = False  # True if a group that only gains rows cannot be told from what was found of it before

    @classmethod
    def described(cls, name: str, aggregate: Aggregate, rows: pa.Schema) -> Pick:
        """An aggregate of a description. In: rows  the columns of the table."""
        value, *by = (plain_field(rows.field(spelling(rows, column))) for column in aggregate.columns)
        by = [value] if aggregate.kind in EXTREMES else by
        most, ascending = aggregate.max_items or 1, aggregate.ascending
        return cls(name, aggregate.kind, value, by[0] if by else None, most, ascending)

    @property
    def read(self) -> tuple[pa.Field, ...]:
        """The columns that it reads."""
        return (self.value,) if self.by is None else (self.value, self.by)

    @property
    def result(self) -> pa.Field:
        """The column of its results."""
        return pa.field(self.name, pa.list_(self.value.type) if self.kind in BOUNDED else self.value.type)

    @property
    def field(self) -> pa.Field:
        """The column of what was picked: a list with what must be known of each row, the first one first."""
        member = [] if self.kind in EXTREMES else [pa.field(MEMBER, pa.binary())]
        by = [self.by.with_name(BY)] if self.kind in RANKED and self.by is not None else []
        return pa.field(
            f"__{self.name}_picked", pa.list_(pa.struct([*member, *by, self.value.with_name(VALUE)]))
        )

    def finish(self, picked: pa.Array) -> pa.Array:
        """The results of what was picked."""
        items, which = items_of(picked, np.arange(len(picked)))
        values = fields_of(items)[VALUE]
        if self.kind in BOUNDED:
            return lists_of(values, which, len(picked))
        first = np.searchsorted(which, np.arange(len(picked) + 1))
        return values.take(pa.array(first[:-1], mask=first[1:] == first[:-1]))

    def among(self, candidates: Candidates, questions: int) -> pa.Array:
        """For each question the picked rows, as a list."""
        ranking = whole(candidates.rows[(self.by or self.value).name])
        there = np.flatnonzero(ranking.is_valid().to_numpy(zero_copy_only=False))
        rows = candidates.rows.take(pa.array(there))
        rank = self._places(ranking.take(pa.array(there)), whole(rows[MEMBER]))
        question, row = first_alive(candidates.begin[there], candidates.end[there], rank, self.most)
        names = {MEMBER: MEMBER, BY: (self.by or self.value).name, VALUE: self.value.name}
        columns = {
            of.name: whole(rows[names[of.name]].take(pa.array(row))) for of in self.field.type.value_type
        }
        if self.kind in EXTREMES:
            columns[VALUE] = canonical(columns[VALUE])
        return lists_of(structs_of(columns), question, questions)

    def rows_of(self, groups: pa.Table) -> tuple[np.ndarray, pa.Table]:
        """The rows that groups have picked, as rows of the table: the number of each row's group, and the rows."""
        picked = whole(groups[self.field.name])
        items, which = items_of(picked, np.arange(len(picked)))
        parts = fields_of(items)
        columns = {MEMBER: parts.get(MEMBER, pa.nulls(len(which), pa.binary()))}
        if self.by is not None:
            columns[self.by.name] = parts.get(BY, parts[VALUE])
        return which, pa.table({**columns, self.value.name: parts[VALUE]})

    def _places(self, ranking: pa.Array, members: pa.Array) -> np.ndarray:
        """The place of each row in the order, from 0."""
        columns = [] if self.kind in EXTREMES else [ranks(members)]
        if self.by is not None:
            numbers = ordered_by(ranking, self.ascending)
            # Of int64, ~n is in the opposite order, and never overflows.
            columns.append(numbers if self.kind in LOWEST_FIRST else ~numbers)
        found = np.empty(len(ranking), np.int64)
        found[np.lexsort(columns)] = np.arange(len(ranking))
        return found


def plain_field(field: pa.Field) -> pa.Field:
    """A column without a dictionary."""
    of = field.type
    return pa.field(field.name, of.value_type if pa.types.is_dictionary(of) else of)
