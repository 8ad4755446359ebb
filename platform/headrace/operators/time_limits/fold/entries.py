"""The state of entries: what each is worth, and its open wait if any."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from headrace.fold.contract import HASH, KEY, Clock, StateTable
from headrace.fold.keys import newest
from headrace.operators.time_limits.fold.names import DUE, OPENED, START
from headrace.operators.time_limits.fold.shape import Shape


def entry_table(shape: Shape) -> StateTable:
    """One row per entry; read by group, and by when its wait was opened, or is over, once that may be."""
    ends, merge = DUE if shape.by_wall_clock else OPENED, partial(newest, of=(KEY, START))
    return StateTable(shape.entries, (ends, HASH), merge, ends, partial(_expired, shape=shape))


def _expired(rows: pa.Table, after: Clock, *, shape: Shape) -> pa.Array:
    """Entries that neither wait nor are built upon."""
    waits = rows[OPENED].is_valid().to_numpy()
    return pa.array(~waits & shape.updates.forgotten(rows, after))
