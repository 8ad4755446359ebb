"""max_by, min_by and top: values of the records that a second column ranks highest or lowest.

Law: records compare by that column, and where it is equal by position, so no two are the same. A record whose ranking
column is null does not count; its value may be null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.extremes import comparable, ordered_by
from headrace.fold.aggregates.kind import Inputs, Kind, Parts, highest_by, lowest_by, row_with
from headrace.fold.aggregates.nested import fields_of, first_of_each, items_of, lists_of, structs_of
from headrace.fold.positions import FIELDS, order_of

AT, BY, ITEMS, VALUE = "at", "by", "items", "value"


class _Ranked(Kind):
    """The common part of max_by, min_by and top."""

    by_position = True

    def __init__(self, value: pa.Field, by: pa.Field, ascending: tuple[bool, ...] = ()) -> None:
        self.columns = (value.name, by.name)
        self.ascending = ascending
        self.placed = pa.struct([*FIELDS, pa.field(BY, by.type), pa.field(VALUE, value.type)])

    def _ranked(self, rows: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """The rows that count, and numbers that compare as what ranks them does."""
        by = self.columns[1]

        def ranked() -> tuple[np.ndarray, np.ndarray]:
            kept = np.flatnonzero(rows.there(by))
            return kept, ordered_by(rows.column(by).take(pa.array(kept)), self.ascending)

        return rows.once(("ranked", by, self.ascending), ranked)

    def _placed(self, rows: Inputs, at: pa.Array) -> pa.Array:
        """Rows with what ranks them and their position; null where `at` is null."""
        value, by = self.columns
        columns = rows.position() | {BY: rows.column(by), VALUE: rows.column(value)}
        return structs_of({name: column.take(at) for name, column in columns.items()}, at.is_null())


class BestBy(_Ranked):
    """The value of the record that ranks highest or lowest, of several such the first; null if none counts."""

    def __init__(self, value: pa.Field, by: pa.Field, *, highest: bool) -> None:
        super().__init__(value, by)
        self.highest = highest
        self.result = value.type
        self.fields = {AT: self.placed}

    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.partial`."""
        kept, numbers = self._ranked(rows)
        picked = self._best(numbers, rows.order()[kept], codes[kept], groups)
        return {AT: self._placed(rows, pa.array(kept).take(picked))}

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        there = np.flatnonzero(parts[AT].is_valid().to_numpy(zero_copy_only=False))
        kept = parts[AT].take(pa.array(there))
        fields = fields_of(kept)
        picked = self._best(comparable(fields[BY]), order_of(fields), codes[there], groups)
        return {AT: kept.take(picked)}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        return fields_of(parts[AT])[VALUE]

    def _best(self, numbers: np.ndarray, order: np.ndarray, codes: np.ndarray, groups: int) -> pa.Array:
        best = (highest_by if self.highest else lowest_by)(codes, groups, numbers)
        hits = np.flatnonzero(numbers == best[codes])
        first = lowest_by(codes[hits], groups, order[hits])
        return row_with(first, codes[hits], order[hits], hits)


class Top(_Ranked):
    """The values of the `n` records that rank highest, the highest first; an empty array if none counts.

    Law: with ties a record stays if fewer than `n` rank above it. The `n`-th of a union is among the parts' own.
    """

    def __init__(
        self, value: pa.Field, by: pa.Field, n: int, ascending: tuple[bool, ...] = (), *, ties: bool = False
    ) -> None:
        super().__init__(value, by, ascending)
        self.n, self.ties = n, ties
        self.result = pa.list_(value.type)
        self.fields = {ITEMS: pa.list_(self.placed)}

    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.partial`."""
        kept, numbers = self._ranked(rows)
        picked, which = self._highest(numbers, rows.order()[kept], codes[kept])
        return {ITEMS: lists_of(self._placed(rows, pa.array(kept[picked])), which, groups)}

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        items, which = items_of(parts[ITEMS], codes)
        fields = fields_of(items)
        picked, which = self._highest(ordered_by(fields[BY], self.ascending), order_of(fields), which)
        return {ITEMS: lists_of(items.take(pa.array(picked)), which, groups)}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        items, which = items_of(parts[ITEMS], np.arange(len(parts[ITEMS])))
        return lists_of(fields_of(items)[VALUE], which, len(parts[ITEMS]))

    def _highest(
        self, numbers: np.ndarray, order: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows that stay, by group and rank, and the group of each."""
        rows = np.lexsort((order, ~numbers, codes))
        if not self.ties:
            return first_of_each(rows, codes, self.n)
        ordered = codes[rows]
        last = np.searchsorted(ordered, ordered) + self.n - 1  # of each group the place of the n-th
        last = np.minimum(last, np.searchsorted(ordered, ordered, "right") - 1)
        stay = numbers[rows] >= numbers[rows][last]
        return rows[stay], ordered[stay]
