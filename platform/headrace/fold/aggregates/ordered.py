"""First, last and collect: by position in the log's order. Positions differ, so values are never compared."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.kind import Inputs, Kind, Parts, highest_by, lowest_by, row_with
from headrace.fold.aggregates.nested import fields_of, first_of_each, items_of, lists_of, structs_of
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
            AT: structs_of({name: column.take(picked) for name, column in columns.items()}, picked.is_null())
        }

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        at = parts[AT]
        there = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
        kept = at.take(pa.array(there))
        picked = self._best(order_of(fields_of(kept)), codes[there], groups)
        return {AT: kept.take(picked)}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        return fields_of(parts[AT])[VALUE]

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
            ITEMS: lists_of(
                structs_of({name: column.take(at) for name, column in columns.items()}), which, groups
            )
        }

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        items, which = items_of(parts[ITEMS], codes)
        picked, which = self._first(order_of(fields_of(items)), which)
        return {ITEMS: lists_of(items.take(pa.array(picked)), which, groups)}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        items, which = items_of(parts[ITEMS], np.arange(len(parts[ITEMS])))
        return lists_of(fields_of(items)[VALUE], which, len(parts[ITEMS]))

    def _first(self, order: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows that stay, by group and position, and the group of each."""
        return first_of_each(np.lexsort((order, codes)), codes, self.max_items)
