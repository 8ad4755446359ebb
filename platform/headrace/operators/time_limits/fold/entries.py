"""The state of entries: what each is worth, and its open wait if any; and the steps that fold it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pyarrow as pa

from headrace.fold.contract import HASH, KEY, Clock, Scope, StateTable, Step
from headrace.fold.keys import newest
from headrace.operators.time_limits.fold.names import DUE, OPENED, START
from headrace.operators.time_limits.fold.shape import Shape

ENTRIES = "entries"


def entry_table(shape: Shape) -> StateTable:
    """One row per entry; read by group, and by when its wait was opened, or is over, once that may be."""
    ends, merge = DUE if shape.by_wall_clock else OPENED, partial(newest, of=(KEY, START))
    return StateTable(shape.entries, (ends, HASH), merge, ends, partial(_expired, shape=shape))


def _expired(rows: pa.Table, after: Clock, *, shape: Shape) -> pa.Array:
    """Entries that neither wait nor are built upon."""
    waits = rows[OPENED].is_valid().to_numpy()
    return pa.array(~waits & shape.updates.forgotten(rows, after))


class EntryStep(Step):
    """A step by group and partition. State: `entries`, one row per entry."""

    scope = Scope.GROUP_AND_PARTITION

    def __init__(self, shape: Shape) -> None:
        """In: shape  of the node."""
        self.shape = shape
        self.keys = tuple(shape.updates.by.names)
        self.state: Mapping[str, StateTable] = {ENTRIES: entry_table(shape)}

    def known(self, state: Mapping[str, pa.Table]) -> pa.Table:
        """The entries that were read; none were where none are needed."""
        return state.get(ENTRIES, self.state[ENTRIES].empty())
