"""Left rows on their way to the right rows that they refer to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.changes.station import Route
from headrace.fold.contract import HASH, KEY
from headrace.fold.fates import with_column
from headrace.fold.keys import key_of_row

LEFT_KEY, LEFT_HASH = "__left_key", "__left_hash"
NOWHERE = (
    b"\xff"  # begins the KEY of a row that refers to nothing; no canonical bytes begin so (see `encode`)
)


@dataclass(frozen=True)
class ByForeignKey(Route):
    """By the columns that hold the key of the right table.

    on     these columns, in the order of that key
    inner  rows that refer to nothing are left out; otherwise they stay in the bucket of their own key
    """

    on: tuple[str, ...]
    inner: bool

    def columns(self, relation: pa.Schema) -> pa.Schema:
        """Those of the left table, LEFT_KEY and LEFT_HASH."""
        return pa.schema([*relation, pa.field(LEFT_KEY, pa.binary()), pa.field(LEFT_HASH, pa.int64())])

    def of(self, deltas: pa.Table) -> pa.Table:
        """The rows with the key that they refer to as KEY, and their own as LEFT_KEY."""
        refers = refers_to_a_key(deltas, self.on)
        if self.inner and not refers.all():
            deltas, refers = deltas.filter(pa.array(refers)), refers[refers]
        deltas = deltas.combine_chunks()
        own, own_hash = deltas[KEY], deltas[HASH]
        key, hashes = key_of_row(deltas, self.on)
        if not refers.all():
            there = pa.array(refers)
            key = pc.if_else(there, key, pc.binary_join_element_wise(pa.scalar(NOWHERE), own, pa.scalar(b"")))
            hashes = np.where(refers, hashes, own_hash.to_numpy())
        deltas = with_column(with_column(deltas, KEY, key), HASH, pa.array(hashes, pa.int64()))
        return deltas.append_column(LEFT_KEY, own).append_column(LEFT_HASH, own_hash)


def refers_to_a_key(rows: pa.Table, on: tuple[str, ...]) -> np.ndarray:
    """Which rows have a value in each of these columns."""
    found = np.ones(rows.num_rows, bool)
    for name in on:
        if rows[name].null_count:
            found &= rows[name].is_valid().to_numpy()
    return found
