"""Result rows as sinks get them, made in this process: the counterpart of `sink_rows` for few rows.

Law: the rows, places and ordinals are those of `sink_rows`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.description.epoch_time import EPOCH
from headrace.fold.contract import DELETED
from headrace.fold.records import CHAIN, ELEMENT
from headrace.nodes.sink_rows import HASH_BYTES, ORDINAL
from headrace.operators.contract import OF_PLACE, PLACE, SEQUENCE, TIMESTAMP
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.description import Node

LOWEST = 1 << 63
MOMENT = pa.timestamp("us", "UTC")


def sink_rows_here(node: Node, rows: pa.Table, order: Sequence[str]) -> pa.Table:
    """Rows of appended results, or changes of a table, as `Sink.deliver` gets them, in the order of their places.

    In: order  the columns of which a place is made; some may be missing
    """
    places, sequences = _places(rows, order), rows[SEQUENCE].to_pylist()
    ranked = sorted(range(rows.num_rows), key=lambda number: (sequences[number], places[number]))
    ordinals, before = [0] * rows.num_rows, None
    for number in ranked:
        same = before is not None and sequences[before] == sequences[number]
        ordinals[number] = ordinals[before] + 1 if same and before is not None else 0
        before = number
    deleted = rows[DELETED] if DELETED in rows.column_names else pa.array([False] * rows.num_rows, pa.bool_())
    own = [name for name in operator_for(node).identity if name not in (*node.columns, *OF_PLACE)]
    columns: dict[str, Any] = {
        **{name: rows[name] for name in node.columns},
        DELETED: deleted,
        TIMESTAMP: rows[TIMESTAMP].cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(MOMENT),
        SEQUENCE: rows[SEQUENCE],
        PLACE: pa.array(places, pa.binary()),
        **{name: rows[name] for name in own},
    }
    if CHAIN in rows.column_names:
        columns[CHAIN] = pa.array(_chains(rows, node.required_name), pa.string())
    columns[ORDINAL] = pa.array(ordinals, pa.int32())
    return pa.table(columns).take(pa.array(ranked, pa.int64()))


def _chains(rows: pa.Table, name: str) -> list[str | None]:
    """The source chain of each row (see `hops.closed_chains`)."""
    nothing = [None] * rows.num_rows
    elements = rows[ELEMENT].to_pylist() if ELEMENT in rows.column_names else nothing
    parts = zip(rows[CHAIN].to_pylist(), elements, rows[SEQUENCE].to_pylist(), strict=True)
    with_element = ELEMENT in rows.column_names
    return [
        None
        if chain is None or (with_element and element is None)
        else f'{chain}{f",{element}" if with_element else ""}],["{name}",0,{sequence}]]'
        for chain, element, sequence in parts
    ]


def _places(rows: pa.Table, order: Sequence[str]) -> list[bytes]:
    """Bytes that compare as the rows do by these columns, nulls last."""
    names = [name for name in order if name in rows.column_names]
    parts = [map(_sortable, rows[name].to_pylist()) for name in names]
    return [b"".join(part) for part in zip(*parts, strict=True)] if rows.num_rows else []


def _sortable(value: Any) -> bytes:
    match value:
        case None:
            return b"\xff"
        case str():
            return b"\x00" + value.encode() + b"\x00"
        case bytes():
            return b"\x00" + hashlib.sha256(value).digest()[:HASH_BYTES]
        case dt.datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return _sortable((moment - EPOCH) // dt.timedelta(microseconds=1))
    return b"\x00" + (int(value) + LOWEST).to_bytes(8)
