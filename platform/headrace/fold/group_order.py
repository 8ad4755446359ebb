"""Rows by group, and those of a group in a given order."""

from __future__ import annotations

import numpy as np


def order_by_group(codes: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The permutation that sorts rows by group and then by place; stable.

    In: codes  of each row the number of its group, from 0
        place  numbers that compare as rows of a group do (see `positions.order_of`)
    """
    rows = len(codes)
    in_order = (place[1:] >= place[:-1]).all()  # as rows of a log mostly are
    by_place = np.arange(rows) if in_order else np.argsort(place, kind="stable")
    bits = max(rows - 1, 1).bit_length()
    if int(codes.max(initial=0)).bit_length() + bits > 62:
        both = np.argsort(codes[by_place], kind="stable")
        return np.asarray(by_place[both])
    # The rank by place rides in the lower bits: NumPy sorts numbers many times faster than it finds a permutation.
    both = (codes[by_place].astype(np.int64, copy=False) << bits) | np.arange(rows)
    both.sort()
    both &= (1 << bits) - 1
    return np.asarray(by_place[both])
