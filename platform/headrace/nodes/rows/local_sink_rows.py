"""Result rows as sinks get them, made in this process: the counterpart of `sink_rows` for few rows.

Law: the rows, places and ordinals are those of `sink_rows`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates.kind import whole
from headrace.fold.contract import DELETED
from headrace.fold.records import CHAIN, ELEMENT
from headrace.fold.values.columns import MOMENT, int64
from headrace.fold.values.encode import ordered_bytes, sortable
from headrace.nodes.rows.sink_rows import END, HASH_BYTES, NULL, ORDINAL, THERE
from headrace.operators.contract import OF_PLACE, PLACE, SEQUENCE, TIMESTAMP
from headrace.operators.registry import operator_for
from headrace.sequence.replays.hops import closed_chains

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.description import Node


def sink_rows_here(node: Node, rows: pa.Table, order: Sequence[str]) -> pa.Table:
    """Rows of appended results, or changes of a table, as `Sink.deliver` gets them, in the order of their places.

    In: order  the columns of which a place is made; some may be missing
    """
    placed = pa.table({SEQUENCE: rows[SEQUENCE], PLACE: _places(rows, order)})
    ranked = pc.sort_indices(placed, [(SEQUENCE, "ascending"), (PLACE, "ascending")])
    rows, placed = rows.take(ranked), placed.take(ranked)
    nothing_deleted = pa.repeat(pa.scalar(False), rows.num_rows)
    own = [name for name in operator_for(node).identity if name not in (*node.columns, *OF_PLACE)]
    columns: dict[str, Any] = {
        **{name: rows[name] for name in node.columns},
        DELETED: rows[DELETED] if DELETED in rows.column_names else nothing_deleted,
        TIMESTAMP: rows[TIMESTAMP].cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(MOMENT),
        SEQUENCE: placed[SEQUENCE],
        PLACE: placed[PLACE],
        **{name: rows[name] for name in own},
    }
    if CHAIN in rows.column_names:
        element = whole(rows[ELEMENT]) if ELEMENT in rows.column_names else None
        columns[CHAIN] = closed_chains(
            whole(rows[CHAIN]), element, node.required_name, whole(placed[SEQUENCE])
        )
    columns[ORDINAL] = pa.array(_ranks(int64(placed[SEQUENCE])), pa.int32())
    return pa.table(columns)


def _ranks(numbers: np.ndarray) -> np.ndarray:
    """The rank of each row among those of the same number, from 0. In: numbers  in order."""
    rows, first = np.arange(len(numbers)), np.ones(len(numbers), bool)
    first[1:] = numbers[1:] != numbers[:-1]
    return rows - np.maximum.accumulate(np.where(first, rows, 0))


def _places(rows: pa.Table, order: Sequence[str]) -> pa.Array:
    """Bytes that compare as the rows do by these columns, nulls last."""
    return _joined(*(_sortable(whole(rows[name])) for name in order if name in rows.column_names))


def _sortable(values: pa.Array) -> pa.Array:
    """See `sink_rows._sortable`."""
    if pa.types.is_string(values.type):
        own = _joined(values.cast(pa.binary()), pa.scalar(bytes(END)))
    elif pa.types.is_binary(values.type):
        own = pa.array([_hash(value) for value in values.to_pylist()], pa.binary())
    else:
        own = ordered_bytes(sortable(values))
    return pc.if_else(values.is_valid(), _joined(pa.scalar(bytes(THERE)), own), pa.scalar(bytes(NULL)))


def _hash(value: bytes | None) -> bytes | None:
    return None if value is None else hashlib.sha256(value).digest()[:HASH_BYTES]


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(b""))
