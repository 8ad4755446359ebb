"""Lists made of rows that say which list they are in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def as_lists(values: pa.Array, of: np.ndarray, lists: int, null: np.ndarray | None = None) -> pa.ListArray:
    """Values as lists.

    In: of    of each value its list, in the order of the lists
        null  which lists are null, which have no values
    """
    ends = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=lists))])
    mask = None if null is None else pa.array(null)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values, mask=mask)


def distinct_pairs(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The different pairs, rising; and of each pair given which of them it is."""
    order = np.lexsort((right, left))
    left, right = left[order], right[order]
    new = np.ones(len(order), bool)
    new[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    return left[new], right[new], number
