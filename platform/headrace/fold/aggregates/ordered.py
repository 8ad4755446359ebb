"""First, last and collect: by position in the log's order. Positions differ, so values are never compared."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates.kind import Inputs, Kind, Parts, highest_by, lowest_by, row_with
from headrace.fold.positions import FIELDS, order_of

AT, ITEMS, VALUE = "at", "items", "value"


def _placed(of: pa.DataType) -> pa.DataType:
    """A value and its position."""
    return pa.struct([*FIELDS, pa.field(VALUE, of)])


class ByPosition(Kind):
    """The value, null too, of the record that stands first or last."""

    by_position = True

    def __init__(self, column: str, of: pa.DataType, *, last: bool) -> None:
        self.columns = (column,)
        self.result = of
        self.last = last
        self.fields = {AT: _placed(of)}

    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.partial`."""
        picked = self._best(rows.order(), codes, groups)
        columns = rows.position() | {VALUE: rows.column(self.columns[0])}
        return {
            AT: _structs({name: column.take(picked) for name, column in columns.items()}, picked.is_null())
        }

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        at = parts[AT]
        there = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
        kept = at.take(pa.array(there))
        picked = self._best(order_of(_fields(kept)), codes[there], groups)
        return {AT: kept.take(picked)}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        return _fields(parts[AT])[VALUE]

    def _best(self, order: np.ndarray, codes: np.ndarray, groups: int) -> pa.Array:
        best = (highest_by if self.last else lowest_by)(codes, groups, order)
        return row_with(best, codes, order, np.arange(len(order)))


class Collect(Kind):
    """The first values that are not null, at most `max_items` of them; an empty array if there are none."""

    by_position = True

    def __init__(self, column: str, of: pa.DataType, max_items: int) -> None:
        self.columns = (column,)
        self.max_items = max_items
        self.result = pa.list_(of)
        self.fields = {ITEMS: pa.list_(_placed(of))}

    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.partial`."""
        kept = np.flatnonzero(rows.there(self.columns[0]))
        columns = rows.position() | {VALUE: rows.column(self.columns[0])}
        picked, which = self._first(rows.order()[kept], codes[kept])
        at = pa.array(kept[picked])
        return {
            ITEMS: _lists(
                _structs({name: column.take(at) for name, column in columns.items()}), which, groups
            )
        }

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        lists = parts[ITEMS]
        lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
        items = lists.flatten()
        picked, which = self._first(order_of(_fields(items)), np.repeat(codes, lengths))
        return {ITEMS: _lists(items.take(pa.array(picked)), which, groups)}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        lists = parts[ITEMS]
        lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
        ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        return pa.ListArray.from_arrays(ends, _fields(lists.flatten())[VALUE])

    def _first(self, order: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows that stay, by group and position, and the group of each."""
        rows = np.lexsort((order, codes))
        sorted_codes = codes[rows]
        begins = np.searchsorted(sorted_codes, sorted_codes)
        stay = np.arange(len(rows)) - begins < self.max_items
        return rows[stay], sorted_codes[stay]


def _structs(columns: dict[str, pa.Array], null: pa.Array | None = None) -> pa.Array:
    fields = [*FIELDS, pa.field(VALUE, columns[VALUE].type)]
    mask = null if null is not None and pc.any(null).as_py() else None
    return pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields, mask=mask)


def _fields(structs: pa.Array) -> dict[str, pa.Array]:
    return {field.name: column for field, column in zip(structs.type, structs.flatten(), strict=True)}


def _lists(items: pa.Array, which: np.ndarray, groups: int) -> pa.Array:
    ends = np.concatenate([[0], np.cumsum(np.bincount(which, minlength=groups))])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items)
