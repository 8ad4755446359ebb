"""Aggregates of a table's rows that are one of these rows' values, or some of them, in an order of the rows.

Law (L20): the first rows of a set in a total order are a function of the set. The first of a union are the first of the
firsts, so a group that only gains rows is found from what was picked before; one that loses rows is found from its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.description.aggregates import Aggregate
from headrace.fold.aggregates.extremes import ranks
from headrace.fold.aggregates.kind import whole
from headrace.fold.aggregates.table import spelling
from headrace.fold.encode import is_sortable, sortable
from headrace.fold.grouped.alive import first_alive
from headrace.fold.keys import canonical

VALUE, MEMBER = "value", "__member"  # MEMBER: the canonical key of a row of the table, BINARY
LOWEST, HIGHEST, BY_KEY = "lowest", "highest", "key"
ORDERS = {"min": LOWEST, "max": HIGHEST, "collect": BY_KEY}
PICKED = tuple(ORDERS)  # kinds of aggregates


@dataclass(frozen=True)
class Pick:
    """One aggregate. Rows whose value is null are never picked.

    name    of the aggregate
    column  whose values it shows; of: their type
    order   of rows: LOWEST value first, HIGHEST value first, or BY_KEY of the row
    most    how many are picked
    """

    name: str
    column: str
    of: pa.DataType
    order: str
    most: int

    @classmethod
    def described(cls, name: str, aggregate: Aggregate, rows: pa.Schema) -> Pick:
        """An aggregate of a description. In: rows  the columns of the table."""
        assert aggregate.column is not None
        column = spelling(rows, aggregate.column)
        of = rows.field(column).type
        of = of.value_type if pa.types.is_dictionary(of) else of
        return cls(name, column, of, ORDERS[aggregate.kind], aggregate.max_items or 1)

    @property
    def result(self) -> pa.Field:
        """The column of its results."""
        return pa.field(self.name, pa.list_(self.of) if self.order == BY_KEY else self.of)

    @property
    def field(self) -> pa.Field:
        """The column of what was picked: a list of the picked rows' values, and with BY_KEY of their keys."""
        by_key = [pa.field(MEMBER, pa.binary())] if self.order == BY_KEY else []
        return pa.field(f"__{self.name}_picked", pa.list_(pa.struct([*by_key, pa.field(VALUE, self.of)])))

    def finish(self, picked: pa.Array) -> pa.Array:
        """The results of what was picked."""
        ends = _ends(picked)
        values = _values(picked.flatten())[VALUE]
        if self.order == BY_KEY:
            return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)
        return values.take(pa.array(ends[:-1], mask=ends[1:] == ends[:-1]))

    def among(self, candidates: Candidates, questions: int) -> pa.Array:
        """What is picked at each question."""
        values = whole(candidates.rows[self.column])
        there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        values = values.take(pa.array(there))
        if self.order == BY_KEY:
            keys = whole(candidates.rows[MEMBER]).take(pa.array(there))
            rank, columns = _places(ranks(keys)), [keys, values]
        else:
            values = canonical(values)
            numbers = sortable(values) if is_sortable(values.type) else ranks(values)
            # Of int64, ~n is in the opposite order, and never overflows.
            rank, columns = _places(numbers if self.order == LOWEST else ~numbers), [values]
        question, row = first_alive(candidates.begin[there], candidates.end[there], rank, self.most)
        fields = [*self.field.type.value_type]
        structs = pa.StructArray.from_arrays([c.take(pa.array(row)) for c in columns], fields=fields)
        ends = np.concatenate([[0], np.cumsum(np.bincount(question, minlength=questions))])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs)

    def rows_of(self, groups: pa.Table) -> tuple[np.ndarray, pa.Table]:
        """What groups have picked, as rows of the table: the number of each row's group, and the rows."""
        picked = whole(groups[self.field.name])
        ends = _ends(picked)
        which = np.repeat(np.arange(len(picked)), np.diff(ends))
        parts = _values(picked.flatten())
        keys = parts.get(MEMBER, pa.nulls(len(which), pa.binary()))
        return which, pa.table({MEMBER: keys, self.column: parts[VALUE]})


@dataclass(frozen=True)
class Candidates:
    """Rows among which is picked.

    rows        with MEMBER and the columns that are read
    begin, end  of each the questions at which it is there (see `alive`)
    """

    rows: pa.Table
    begin: np.ndarray
    end: np.ndarray


def picks_of(aggregates: Sequence[tuple[str, Aggregate]], rows: pa.Schema) -> tuple[Pick, ...]:
    """Those of a description that pick. In: rows  the columns of the table."""
    return tuple(Pick.described(name, each, rows) for name, each in aggregates if each.kind in PICKED)


def _places(numbers: np.ndarray) -> np.ndarray:
    """The place of each number in their order, from 0; of equal ones in any."""
    found = np.empty(len(numbers), np.int64)
    found[np.argsort(numbers, kind="stable")] = np.arange(len(numbers))
    return found


def _ends(lists: pa.Array) -> np.ndarray:
    lengths = np.diff(lists.offsets.to_numpy()).astype(np.int64)
    lengths[lists.is_null().to_numpy(zero_copy_only=False)] = 0
    found: np.ndarray = np.concatenate([[0], np.cumsum(lengths)])
    return found


def _values(structs: pa.Array) -> dict[str, pa.Array]:
    return {field.name: part for field, part in zip(structs.type, structs.flatten(), strict=True)}
