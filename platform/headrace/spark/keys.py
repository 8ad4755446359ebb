"""Keys as numbers: the same number for the same key, so that rows are found by place in an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    Columns = Sequence[pa.Array | pa.ChunkedArray]

NONE = -1


def encoded(*tables: Columns) -> tuple[list[np.ndarray], int]:
    """Number the keys of some tables.

    In:  of each table the columns of its key, of the same types in the same order
    Out: of each table the number of each row's key, `NONE` where a part of it is null; how many numbers there are
    """
    lengths = [len(columns[0]) for columns in tables]
    key, count = np.zeros(sum(lengths), np.int64), 1
    for place, columns in enumerate(zip(*tables, strict=True)):
        chunks = [chunk for column in columns for chunk in _chunks(column)]
        values = pa.chunked_array(chunks, columns[0].type).combine_chunks().dictionary_encode()
        number = values.indices.fill_null(NONE).to_numpy().astype(np.int64)
        there = (key != NONE) & (number != NONE)
        key, count = np.where(there, key * len(values.dictionary) + number, NONE), len(values.dictionary)
        if place:
            distinct, of = np.unique(key[there], return_inverse=True)
            key[there], count = of, len(distinct)
    return np.split(key, np.cumsum(lengths)[:-1]), count


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def rows_by_key(key: np.ndarray, count: int) -> np.ndarray:
    """For each number the row that has it, the last of several, `NONE` if none has; at the end `NONE`, for `NONE`."""
    row = np.full(count + 1, NONE)
    row[key] = np.arange(len(key))
    row[NONE] = NONE
    return row


def newest(key: np.ndarray, count: int, rank: Sequence[np.ndarray]) -> np.ndarray:
    """The rows that rank highest of their keys, rising; none without a key.

    In: rank  numbers of each row, of which the first that differs decides
    """
    order = np.lexsort([*reversed(rank)])
    row = rows_by_key(key[order], count)
    return np.sort(order[row[row != NONE]])


def among(columns: Columns, wanted: Columns) -> np.ndarray:
    """Which keys are among those wanted; none of which a part is null."""
    (mine, theirs), count = encoded(columns, wanted)
    there = np.zeros(count + 1, bool)
    there[theirs] = True
    there[NONE] = False
    found: np.ndarray = there[mine]
    return found
