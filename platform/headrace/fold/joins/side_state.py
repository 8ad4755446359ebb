"""The rows of a join's sides as its state holds them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.changes.deltas import AFTER, BEFORE, SIGN, signed
from headrace.fold.changes.station import Ports
from headrace.fold.contract import DELETED, EVENT, HASH, INGESTED, KEY, StateTable
from headrace.fold.fates import with_column

FROM_STATE = pa.schema(
    [
        (KEY, pa.binary()),
        (HASH, pa.int64()),
        (DELETED, pa.bool_()),
        (EVENT, pa.int64()),
        (INGESTED, pa.int64()),
    ]
)


def known_rows(state: Ports, name: str, table: StateTable) -> pa.Table:
    """The rows that are there, as rows after; those of keys that nothing touches lead to no change."""
    rows = state.get(name, table.empty())
    deleted = rows[DELETED].to_numpy()
    rows = rows.filter(pa.array(~deleted)) if deleted.any() else rows
    return signed(rows, np.full(rows.num_rows, AFTER))


def as_state(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Changes as rows of a state table."""
    rows = with_column(rows, DELETED, pc.equal(rows[SIGN], BEFORE))
    return rows.select(schema.names).cast(schema)
