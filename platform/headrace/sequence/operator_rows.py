"""Rows of logs as operators take them, made of columns as the log has them.

Law: row by row; no row is dropped. A row that a `where` refuses is `filtered`, so the ledger accounts for every record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import (
    EVENT,
    FATE,
    INGESTED,
    OFFSET,
    PARTITION,
    REASON,
    SIZE,
    STREAM,
    TOPIC,
)
from headrace.fold.fates import FILTERED, REPLAY, TOMBSTONE
from headrace.fold.values.columns import MOMENT
from headrace.sequence.log_columns import (
    BUSY,
    COMPLETE,
    CONTROL,
    DRAIN,
    ERASED,
    IDLE,
    RECORD,
    SET_LIMITS,
)

REFUSED = "__refused"  # true where a `where` is not
HEEDED = (DRAIN, SET_LIMITS, COMPLETE, IDLE, BUSY)  # the actions of control rows that operators heed
# Columns of the log by which a row's fate is told, beside its position and times.
RAW_COLUMNS = pa.schema(
    [
        ("ingested_at", MOMENT),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", MOMENT),
        ("stream_time", MOMENT),
        ("size_bytes", pa.int32()),
        ("kind", pa.string()),
        ("control", pa.string()),
        ("reason", pa.string()),
        ("replay", pa.bool_()),
        ("tombstone", pa.bool_()),
    ]
)


def row_columns(raw: Mapping[str, pa.ChunkedArray], rows: int) -> dict[str, pa.ChunkedArray]:
    """The columns that operators read of each row, beside the user's own.

    In:  raw   RAW_COLUMNS, and REFUSED if a `where` was among the steps
    Out: ROW_COLUMNS. FATE is null while a row is undecided; ticks and control rows carry their kind; drains and limits that
         are set are told apart. REASON of limits that are set is their JSON
    """
    actions = _actions(raw, rows)
    return {
        INGESTED: _ms(raw["ingested_at"]),
        TOPIC: raw["topic"],
        PARTITION: raw["partition"],
        OFFSET: raw["offset"],
        EVENT: _ms(raw["timestamp"]),
        STREAM: _ms(raw["stream_time"]),
        SIZE: raw["size_bytes"].cast(pa.int64()),
        FATE: _fates(raw, actions, rows),
        REASON: _reasons(raw, actions),
    }


def _ms(moments: pa.ChunkedArray) -> pa.ChunkedArray:
    us = moments.cast(MOMENT).cast(pa.int64())
    if not len(us):
        return us
    low = pc.min(us).as_py()
    if low is not None and low < 0:  # Arrow divides towards zero
        us = pc.subtract(us, pc.if_else(pc.less(us, 0), 999, 0))
    return pc.divide(us, 1000)


def _actions(raw: Mapping[str, pa.ChunkedArray], rows: int) -> pa.ChunkedArray | None:
    """The actions of control rows that operators heed; None: there are no such rows."""
    controls = np.flatnonzero(pc.equal(raw["kind"], CONTROL).fill_null(False).to_numpy(zero_copy_only=False))
    if not len(controls):
        return None
    said = raw["control"].take(pa.array(controls))
    known = {text: json.loads(text)["action"] for text in pc.unique(said).to_pylist()}
    found: list[str | None] = [None] * rows
    for place, text in zip(controls.tolist(), said.to_pylist(), strict=True):
        found[place] = known[text] if known[text] in HEEDED else None
    return pa.array(found, pa.string()) if any(known[text] in HEEDED for text in known) else None


def _fates(raw: Mapping[str, pa.ChunkedArray], actions: pa.ChunkedArray | None, rows: int) -> pa.ChunkedArray:
    kind, fates = raw["kind"], pa.nulls(rows, pa.string())
    refused = raw.get(REFUSED)
    # The last that holds decides.
    for fate, holds in (
        (FILTERED, refused),
        (TOMBSTONE, raw["tombstone"]),
        (REPLAY, raw["replay"]),
    ):
        if holds is not None and pc.any(holds).as_py():
            fates = pc.if_else(holds.fill_null(False), fate, fates)
    if raw["reason"].null_count < rows:
        fates = pc.if_else(pc.equal(raw["reason"], ERASED).fill_null(False), ERASED, fates)
    other = pc.not_equal(kind, RECORD)
    if pc.any(other).as_py():
        fates = pc.if_else(other, kind, fates)
    return fates if actions is None else pc.coalesce(actions, fates)


def _reasons(raw: Mapping[str, pa.ChunkedArray], actions: pa.ChunkedArray | None) -> pa.ChunkedArray:
    if actions is None:
        return raw["reason"]
    sets = pc.equal(actions, SET_LIMITS).fill_null(False)
    return pc.if_else(sets, raw["control"], raw["reason"])
