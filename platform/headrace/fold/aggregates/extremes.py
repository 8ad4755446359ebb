"""Min and max of any type, as SQL orders: NaN highest, texts by their bytes, arrays and structs from the left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates.kind import Inputs, Kind, Parts, highest_by, lowest_by, row_with
from headrace.fold.keys import canonical
from headrace.fold.values.encode import encode, from_sortable, is_sortable, sortable

VALUE = "value"


class Extreme(Kind):
    """The lowest or the highest value that is not null; null if there is none."""

    def __init__(self, column: str, of: pa.DataType, *, highest: bool) -> None:
        self.columns = (column,)
        self.result = of
        self.highest = highest
        self.fields = {VALUE: of}

    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.partial`."""
        return {VALUE: self._best(rows.column(self.columns[0]), codes, groups)}

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        return {VALUE: self._best(parts[VALUE], codes, groups)}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        return parts[VALUE]

    def _best(self, values: pa.Array, codes: np.ndarray, groups: int) -> pa.Array:
        rows = np.arange(len(values))
        if values.null_count:
            rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
            values, codes = values.take(pa.array(rows)), codes[rows]
        numbers = comparable(values)
        best = (highest_by if self.highest else lowest_by)(codes, groups, numbers)
        if is_sortable(values.type):
            none = np.ones(groups, bool)
            none[codes] = False
            return from_sortable(np.where(none, 0, best), values.type, none)
        return canonical(values.take(row_with(best, codes, numbers, np.arange(len(values)))))


def comparable(values: pa.Array) -> np.ndarray:
    """Numbers (int64) that compare as values without nulls do; of any type. Those of two arrays do not compare."""
    return sortable(values) if is_sortable(values.type) else ranks(values)


def ordered_by(values: pa.Array, ascending: Sequence[bool]) -> np.ndarray:
    """Numbers (int64) that are the higher, the earlier values stand in an order; of STRUCTs each field has a direction.

    In: ascending  of each field whether its lowest value is first; null is the lowest. Empty: the highest value is first
    """
    if not ascending:
        return comparable(values)
    numbers = [_encoded_ranks(field) for field in values.flatten()]
    columns = [-number if lowest else number for number, lowest in zip(numbers, ascending, strict=True)]
    order = np.lexsort(columns[::-1])
    changes = np.zeros(len(order), bool)
    for column in columns:
        changes[1:] |= column[order][1:] != column[order][:-1]
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(changes)
    return found


def _encoded_ranks(values: pa.Array) -> np.ndarray:
    """Numbers that compare as values do, nulls too."""
    encoded = encode(values).dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
    found: np.ndarray = rank[encoded.indices.to_numpy()]
    return found


def ranks(values: pa.Array) -> np.ndarray:
    """Numbers (int64) that compare as values without nulls do; of any type."""
    if pa.types.is_nested(values.type):
        return _encoded_ranks(values)
    encoded = values.dictionary_encode()
    distinct = encode(encoded.dictionary)
    rank = np.empty(len(distinct), np.int64)
    rank[pc.array_sort_indices(distinct).to_numpy()] = np.arange(len(distinct))
    found: np.ndarray = rank[encoded.indices.to_numpy()]
    return found
