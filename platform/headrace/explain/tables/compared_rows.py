"""Two tables of rows compared by their values, in this process.

Law: rows count as often as they occur. The order of rows, and columns that one table alone has, make no difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.keys import group, key_of_row

SHOWN = 5  # examples
Values = Mapping[str, Any]


@dataclass(frozen=True)
class DifferingRow:
    """A row that differs. In: before, after  its values in the two tables; None: one of them has no such row."""

    before: Values | None
    after: Values | None


@dataclass(frozen=True)
class ComparedRows:
    """Two tables, compared.

    rows_before, rows_after  how many rows each has
    added, removed, changed  rows that differ, by key
    differing                the first of them, by the bytes of their keys
    """

    rows_before: int
    rows_after: int
    added: int
    removed: int
    changed: int
    differing: Sequence[DifferingRow] = ()

    @property
    def total(self) -> int:
        """How many rows differ."""
        return self.added + self.removed + self.changed


def compare_rows(
    before: pa.Table, after: pa.Table, key: Sequence[str], *, shown: int = SHOWN
) -> ComparedRows:
    """Compare two tables by the columns that both have with one type.

    In: key    the columns that say what a row is about; columns that one table lacks are left out
        shown  how many differing rows the answer names
    """
    shared = [
        n for n in after.column_names if n in before.column_names and _type(before, n) == _type(after, n)
    ]
    rows = pa.concat_tables([before.select(shared), after.select(shared)]).combine_chunks()
    values = group(key_of_row(rows, shared)[0])
    side = np.arange(rows.num_rows) >= before.num_rows
    surplus = _surplus(values.codes, side, len(values))
    rows, side = rows.take(pa.array(surplus)), side[surplus]
    keys, _ = key_of_row(rows, [name for name in key if name in shared] or shared)
    codes = group(keys).codes
    both = int(codes.max()) + 1 if len(codes) else 0
    old, new = (np.bincount(codes[side == of], minlength=both) for of in (False, True))
    changed = np.minimum(old, new)
    added, removed, changes = (int(each.sum()) for each in (new - changed, old - changed, changed))
    order = pc.sort_indices(
        pa.table({"key": keys, "side": side}), [("key", "ascending"), ("side", "ascending")]
    ).to_numpy()
    differing = _differing(rows, codes, side, order)[:shown]
    return ComparedRows(before.num_rows, after.num_rows, added, removed, changes, differing)


def _type(rows: pa.Table, name: str) -> pa.DataType:
    return rows.schema.field(name).type


def _surplus(codes: np.ndarray, side: np.ndarray, count: int) -> np.ndarray:
    """The rows that one table has more often than the other."""
    old, new = (np.bincount(codes[side == of], minlength=count) for of in (False, True))
    unequal = np.flatnonzero((old != new)[codes])
    if not len(unequal):
        return unequal
    order = unequal[np.lexsort((side[unequal], codes[unequal]))]
    runs = codes[order] * 2 + side[order]
    rank = np.arange(len(runs)) - np.searchsorted(runs, runs)
    more = np.where(side, new[codes] - old[codes], old[codes] - new[codes])
    return np.sort(order[rank < more[order]])


def _differing(rows: pa.Table, codes: np.ndarray, side: np.ndarray, order: np.ndarray) -> list[DifferingRow]:
    """The rows of each key in pairs."""
    differing: list[DifferingRow] = []
    first = order[: 4 * SHOWN * SHOWN]
    shown, by_key = (
        rows.take(pa.array(first, pa.int64())).to_pylist(),
        dict[int, tuple[list[Any], list[Any]]](),
    )
    for row, number in zip(shown, first.tolist(), strict=True):
        by_key.setdefault(int(codes[number]), ([], []))[int(side[number])].append(row)
    for old, new in by_key.values():
        for place in range(max(len(old), len(new))):
            differing.append(DifferingRow(*(of[place] if place < len(of) else None for of in (old, new))))
    return differing
