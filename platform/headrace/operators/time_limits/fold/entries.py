"""The state of entries: what each is worth, and its open wait if any."""

from __future__ import annotations

import pyarrow as pa

from headrace.fold.contract import HASH, Clock, StateTable
from headrace.operators.time_limits.fold.names import DUE, OPENED, START
from headrace.operators.time_limits.fold.shape import Newest, Shape


class Expired:
    """Entries that neither wait nor are built upon."""

    def __init__(self, shape: Shape) -> None:
        """In: shape  of the node."""
        self.shape = shape

    def __call__(self, rows: pa.Table, after: Clock) -> pa.Array:
        """See the class."""
        waits = rows[OPENED].is_valid().to_numpy()
        return pa.array(~waits & self.shape.updates.forgotten(rows, after))


def entry_table(shape: Shape) -> StateTable:
    """One row per entry; read by group, and by when its wait was opened, or is over, once that may be."""
    ends = DUE if shape.by_wall_clock else OPENED
    return StateTable(shape.entries, (ends, HASH), Newest(START), ends, Expired(shape))
