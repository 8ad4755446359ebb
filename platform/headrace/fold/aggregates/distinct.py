"""count_distinct: the set of values, merged exactly.

Law: values are the same if their canonical keys are (see `encode`): NaN is one value, and -0.0 is 0.0.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates.extremes import comparable
from headrace.fold.aggregates.kind import Inputs, Kind, Parts
from headrace.fold.aggregates.nested import items_of, lists_of
from headrace.fold.segments import begins
from headrace.fold.values.encode import encode, is_sortable, sortable

VALUES = "values"


class CountDistinct(Kind):
    """The number of different values that are not null.

    State: each value once, sorted: as the number that `sortable` makes of it, or else as its canonical bytes.
    """

    def __init__(self, column: str, of: pa.DataType) -> None:
        self.columns = (column,)
        self.numbers = is_sortable(of)
        self.fields = {VALUES: pa.list_(pa.int64() if self.numbers else pa.binary())}
        self.result = pa.int64()

    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.partial`."""
        (column,) = self.columns
        kept = np.flatnonzero(rows.there(column))
        values = rows.column(column).take(pa.array(kept))
        keys = pa.array(sortable(values), pa.int64()) if self.numbers else encode(values)
        return {VALUES: _sets(keys, codes[kept], groups)}

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        keys, which = items_of(parts[VALUES], codes)
        return {VALUES: _sets(keys, which, groups)}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        return pc.list_value_length(parts[VALUES]).fill_null(0).cast(pa.int64())

    def running(self, parts: Parts, segment: np.ndarray) -> pa.Array:
        """See `Kind.running`. A set is never held for each row: a row adds the values that no row before it had."""
        keys, row = items_of(parts[VALUES], np.arange(len(segment)))
        numbers = comparable(keys)
        order = np.lexsort((row, numbers, segment[row]))
        new = begins(segment[row[order]]) | begins(numbers[order])
        through = np.cumsum(np.bincount(row[order[new]], minlength=len(segment)))
        start = np.searchsorted(segment, segment)
        return pa.array(through - np.concatenate([[0], through])[start], pa.int64())


def _sets(keys: pa.Array, codes: np.ndarray, groups: int) -> pa.Array:
    """The keys of each group, each once, sorted."""
    numbers = comparable(keys)
    order = np.lexsort((numbers, codes))
    rows = order[begins(codes[order]) | begins(numbers[order])]
    return lists_of(keys.take(pa.array(rows)), codes[rows], groups)
