"""Rows by numbers: their order, their ranks, and the last of each group."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.fold.positions import POSITION as PLACE
from headrace.fold.positions import order_of, position_columns
from headrace.fold.segments import LOWEST

__all__ = ["PLACE", "int64", "last_of_each", "order", "places", "ranks"]


def int64(values: pa.ChunkedArray, null: int = LOWEST) -> np.ndarray:
    """Whole numbers as int64; `null` where one is null."""
    found: np.ndarray = (values.fill_null(null) if values.null_count else values).to_numpy()
    return found.astype(np.int64, copy=False)


def places(rows: pa.Table) -> np.ndarray:
    """Numbers that compare as the places of these rows do, and of no others."""
    return order_of(position_columns(rows.select(PLACE).combine_chunks()))


def order(*columns: np.ndarray) -> np.ndarray:
    """The permutation that sorts rows by the first column, then by the second, and so on; stable."""
    if _is_sorted(columns):
        return np.arange(len(columns[0]))
    varying = [column for column in columns if column[0] != column[-1] or (column != column[0]).any()]
    together = _together(varying)
    return np.lexsort(varying[::-1]) if together is None else np.argsort(together, kind="stable")


def ranks(permutation: np.ndarray) -> np.ndarray:
    """For each row its number in the order that a permutation makes; of ranks the permutation."""
    found = np.empty(len(permutation), np.int64)
    found[permutation] = np.arange(len(permutation))
    return found


def last_of_each(codes: np.ndarray, sequence: np.ndarray) -> np.ndarray:
    """The row of each group that comes last in a sequence of all rows. In: codes  the group's number, from 0."""
    last = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    last[codes[sequence]] = sequence  # of equal numbers the last one written stays
    return last[last >= 0]


def _together(columns: Sequence[np.ndarray]) -> np.ndarray | None:
    """Numbers that compare as rows of these columns do, which are sorted in one pass; None: int64 cannot hold them."""
    if any(column.dtype.kind not in "ib" for column in columns):
        return None
    ends = [(int(column.min()), int(column.max())) for column in columns]
    if math.prod(highest - lowest + 1 for lowest, highest in ends) >= 1 << 62:
        return None
    found = np.zeros(len(columns[0]), np.int64)
    for column, (lowest, highest) in zip(columns, ends, strict=True):
        found = found * (highest - lowest + 1) + (column.astype(np.int64, copy=False) - lowest)
    return found


def _is_sorted(columns: tuple[np.ndarray, ...]) -> bool:
    equal = np.ones(max(len(columns[0]) - 1, 0), bool)
    for column in columns:
        if (equal & (column[1:] < column[:-1])).any():
            return False
        equal &= column[1:] == column[:-1]
    return True
