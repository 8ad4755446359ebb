"""Partials merged along the rows of a segment: each with all before it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates import Aggregates
from headrace.fold.segments import numbered


def merge_along(
    parts: Mapping[str, pa.Array], first: np.ndarray, aggregates: Aggregates
) -> dict[str, pa.Array]:
    """Merge the partials of each row with those of all rows before it in its segment.

    In:     parts  partial columns; first: marks the first row of each segment
    Law:    merges are associative. In round k each row has its last 2^k partials,
            and takes those of the row that stands so far before it.
    """
    found = dict(parts)
    place = (
        np.arange(len(first)) - np.flatnonzero(first)[numbered(first)]
        if len(first)
        else np.empty(0, np.int64)
    )
    step = 1
    while (place >= step).any():
        rows = np.flatnonzero(place >= step)
        pairs = np.stack([rows - step, rows], axis=1).ravel()
        names = [*found]
        table = pa.table(found)
        merged = aggregates.merge(table.take(pa.array(pairs)), np.repeat(np.arange(len(rows)), 2), len(rows))
        at = np.arange(len(first))
        at[rows] = len(first) + np.arange(len(rows))
        both = pa.concat_tables([table, pa.table({name: merged[name] for name in names})])
        found = {
            name: column.combine_chunks()
            for name, column in zip(names, both.take(pa.array(at)).columns, strict=True)
        }
        step *= 2
    return found
