"""Partials of a segment through each of its rows, and what they are worth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.kind import whole
from headrace.fold.aggregates.table import Aggregates
from headrace.fold.segments import numbered


def running_values(aggregates: Aggregates, rows: pa.Table, first: np.ndarray) -> dict[str, pa.Array]:
    """For each row the results of its segment through it. In: see `running_partials`."""
    found, others = aggregates.running(rows, numbered(first))
    if others.kinds:
        found |= others.finish(running_partials(others, rows, first))
    return {name: found[name] for name in aggregates.kinds}


def running_partials(aggregates: Aggregates, rows: pa.Table, first: np.ndarray) -> dict[str, pa.Array]:
    """For each row the merge of the partials of its segment through it.

    In:  rows   partials, sorted; first  marks of the first row of each segment
    Law: merging is associative, so each row may take in first its neighbour, then what two rows before it stands for, and
         so on by powers of two.
    """
    count = rows.num_rows
    found = {field.name: whole(rows[field.name]) for field in aggregates.fields}
    if not count:
        return found
    row = np.arange(count)
    place = row - np.flatnonzero(first)[numbered(first)]
    step = 1
    while step <= int(place.max()):
        later = np.flatnonzero(place >= step)
        table = pa.table(found)
        both = pa.concat_tables([table.take(pa.array(later - step)), table]).combine_chunks()
        found = aggregates.merge(both, np.concatenate([later, row]), count)
        step *= 2
    return found
