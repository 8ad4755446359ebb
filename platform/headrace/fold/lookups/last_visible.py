"""Find, among ordered rows, the last row up to a given place that is visible by a given time."""

from __future__ import annotations

import numpy as np

NONE = -1


def last_visible(
    visible_ms: np.ndarray, first: np.ndarray, last: np.ndarray, by_ms: np.ndarray
) -> np.ndarray:
    """For each query the last place from `first` through `last` whose time is not after `by_ms`; NONE: there is none.

    Almost always it is `last`: only a row that came late in its partition may be visible after the query's time. For the
    others whole blocks of rows are passed over, of 2^k rows down to one, each by its earliest time.
    """
    found = np.where(last >= first, last, NONE)
    late = np.flatnonzero(found >= 0)
    late = late[visible_ms[found[late]] > by_ms[late]]
    if not len(late):
        return found
    place, first, by_ms = found[late], first[late], by_ms[late]
    for width, earliest in reversed([*_blocks(visible_ms, int((place - first).max()) + 1)]):
        inside = place - width + 1 >= first
        passed = inside & (earliest[np.maximum(place, 0)] > by_ms)
        place = np.where(passed, place - width, place)
    found[late] = np.where(place >= first, place, NONE)
    return found


def _blocks(visible_ms: np.ndarray, rows: int) -> list[tuple[int, np.ndarray]]:
    """For widths 1, 2, 4 … up to `rows`, the earliest time of the block that ends at each place."""
    blocks, width = [(1, visible_ms)], 1
    while width * 2 <= rows:
        earliest = blocks[-1][1]
        wider = earliest.copy()
        wider[width:] = np.minimum(earliest[width:], earliest[:-width])
        width *= 2
        blocks.append((width, wider))
    return blocks
