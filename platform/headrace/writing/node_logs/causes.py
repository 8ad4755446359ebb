"""The clocks of what caused the rows of a node, and its places, as bytes in the node's log.

Law (L32): they follow from the node's table, whatever the commits were. Those of rows of one clock compare as their causes
do: records of a partition by their offsets, elements by their places, the rows of a call by their number. No bytes of a key
are in them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates.kind import whole
from headrace.fold.contract import CAUSE, OFFSET, PARTITION, TOPIC
from headrace.fold.keys import key_of_row
from headrace.fold.values.columns import int64
from headrace.fold.values.encode import ordered_bytes
from headrace.operators.contract import POSITION, RowClock
from headrace.operators.stream_joins.fold.result_rows import PARTNER, PARTNER_CAUSE

NOTHING = pa.scalar(b"", pa.binary())


def places_of(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """The place of each row's cause. In: columns  those that tell it, in their order (see `Operator.cause`)."""
    parts = [pa.repeat(NOTHING, rows.num_rows)]
    parts += [part for name in columns if name in rows.column_names for part in _parts(rows, name, columns)]
    return whole(pc.binary_join_element_wise(*(pc.fill_null(part, NOTHING) for part in parts), NOTHING))


def clocks_of(rows: pa.Table, of: RowClock | None, before: np.ndarray) -> np.ndarray:
    """The clock of each row. In: the log's clock before the commit of each, which is that of rows without their own."""
    if of is None:
        return before
    column = rows[of.column]
    in_ms = int64(column.cast(pa.int64())) // (1_000 if pa.types.is_timestamp(column.type) else 1)
    return np.where(column.is_valid().to_numpy(), in_ms + of.later_ms, before)


def _parts(rows: pa.Table, name: str, columns: Sequence[str]) -> list[pa.Array]:
    """The bytes that a column adds to the place. The topic stands for the whole position."""
    if name != TOPIC or OFFSET not in columns:
        if name in (*PARTNER, OFFSET) or (name == PARTITION and OFFSET in columns):
            return []
        return [_value(rows, name)]
    own = _position(rows, POSITION, CAUSE)
    if PARTNER[0] not in rows.column_names:
        return [own]
    partner = _position(rows, PARTNER, PARTNER_CAUSE)
    return [pc.min_element_wise(own, partner), pc.max_element_wise(own, partner)]


def _position(rows: pa.Table, columns: tuple[str, str, str], cause: str) -> pa.Array:
    """The position of a record, or the place of its cause if it has one; null: there is no record."""
    topic, partition, offset = columns
    named = pc.binary_join_element_wise(
        whole(rows[topic]).cast(pa.binary()),
        *(ordered_bytes(int64(rows[name].fill_null(0))) for name in (partition, offset)),
        pa.scalar(b"\0", pa.binary()),
    )
    return pc.coalesce(whole(rows[cause]), named) if cause in rows.column_names else named


def _value(rows: pa.Table, name: str) -> pa.Array:
    """A number as bytes, nulls last; a hash if it is anything else."""
    column = rows[name]
    if pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
        numbers = ordered_bytes(int64(column.cast(pa.int64()).fill_null(0)))
        there = pc.binary_join_element_wise(pa.scalar(b"\0", pa.binary()), numbers, NOTHING)
        return pc.if_else(whole(column.is_valid()), there, pa.scalar(b"\1", pa.binary()))
    return ordered_bytes(key_of_row(rows, [name])[1])
