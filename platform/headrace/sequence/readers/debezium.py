"""Debezium's envelopes as rows of the captured table.

Law: the outcome for a record is a function of its bytes. Each operation has one outcome:
  r, c, u    (read by a snapshot, created, updated) the row of `after`
  d          (deleted) a tombstone: its row is null
  others     t (truncated), and a value that is no envelope: a dead letter
PostgreSQL does not send a value that is long and did not change. A row with such a value is a dead letter, too: it would
replace the value by a placeholder. In an array of texts the placeholder is an element. In an array of integers the bytes of
the placeholder are the elements.
Source: Debezium 2.7 and 3.x, reference of the PostgreSQL connector, "Data change events"; its class
UnchangedToastedPlaceholder.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.sequence.encodings import DebeziumBytes
from headrace.sequence.readers.read_part import Read, ReadPart
from headrace.sequence.reasons import Reasons, marks_of

UNAVAILABLE = "__debezium_unavailable_value"
ROWS, DELETED, TRUNCATED = ("r", "c", "u"), "d", "t"
PAYLOAD = "payload"


def envelope_fields(of: DebeziumBytes, fields: Sequence[pa.Field]) -> list[pa.Field]:
    """The fields that are read from the bytes. In: fields  the fields of the topic's values."""
    row = [field for field in fields if field.name not in of.more]
    envelope = [
        pa.field("op", pa.string()),
        pa.field("after", pa.struct(row)),
        *([pa.field("source", pa.struct([("ts_ms", pa.int64())]))] if of.changed_at else []),
        *([pa.field("transaction", pa.struct([("id", pa.string())]))] if of.transaction else []),
    ]
    return [*envelope, pa.field(PAYLOAD, pa.struct(envelope))] if of.may_be_wrapped else envelope


class DebeziumReader:
    """Reads values into structs of some fields."""

    def __init__(self, of: DebeziumBytes, fields: Sequence[pa.Field], envelopes: Read) -> None:
        """In: envelopes  reads bytes into structs of `envelope_fields`."""
        self._of, self._fields, self._envelopes = of, list(fields), envelopes

    def read(self, raw: pa.Array, reasons: Reasons) -> ReadPart:
        """Bytes as structs; null where there are none, and where they are malformed."""
        read = self._envelopes(raw, reasons)
        parts = _parts(read.structs)
        if self._of.may_be_wrapped:
            parts = _unwrapped(parts)
        op, after = parts["op"], parts["after"]
        self._refuse(op, after, raw, reasons)
        columns = dict(zip([field.name for field in after.type], after.flatten(), strict=True))
        self._refuse_unavailable(columns, reasons)
        more = {
            self._of.operation: op,
            self._of.changed_at: _inner(parts, "source"),
            self._of.transaction: _inner(parts, "transaction"),
        }
        columns |= {name: column for name, column in more.items() if name is not None and column is not None}
        structs = pa.StructArray.from_arrays(
            [columns[field.name] for field in self._fields], fields=self._fields, mask=raw.is_null()
        )
        return ReadPart(structs, read.asked, marks_of(pc.equal(op, DELETED)) & ~reasons.dead)

    def _refuse(self, op: pa.Array, after: pa.Array, raw: pa.Array, reasons: Reasons) -> None:
        there = marks_of(raw.is_valid())
        is_row = marks_of(pc.is_in(op, pa.array(ROWS)))
        reasons.add(
            there & marks_of(op.is_null()), "malformed value: it is no envelope of Debezium: op is null"
        )
        reasons.add(is_row & marks_of(after.is_null()), "malformed value: its after is null, and its op no d")
        truncated = "malformed value: op t, a truncation of the table, cannot be followed"
        reasons.add(marks_of(pc.equal(op, TRUNCATED)), truncated)
        known = is_row | marks_of(pc.is_in(op, pa.array([DELETED, TRUNCATED])))
        odd = np.flatnonzero(there & ~known & marks_of(op.is_valid()))
        for row in odd.tolist():
            reasons.add_one(row, f"malformed value: Debezium has no op {op[row].as_py()[:20]!r}")

    def _refuse_unavailable(self, columns: dict[str, pa.Array], reasons: Reasons) -> None:
        for name, column in columns.items():
            why = f"malformed value: {name} was not sent, for it did not change; its table needs REPLICA IDENTITY FULL"
            reasons.add(_unavailable(column), why)


def _unavailable(column: pa.Array) -> np.ndarray:
    """Which values are, or hold, Debezium's placeholder."""
    of = column.type
    if pa.types.is_string(of) or pa.types.is_binary(of):
        sign = UNAVAILABLE if pa.types.is_string(of) else UNAVAILABLE.encode()
        return marks_of(pc.equal(column, pa.scalar(sign, of)))
    if pa.types.is_struct(of):
        inside = [_unavailable(part) for part in column.flatten()]
        found: np.ndarray = np.any(np.column_stack(inside), axis=1)
        return found
    if pa.types.is_map(of):
        return _within(column, _unavailable(column.keys) | _unavailable(column.items))
    if pa.types.is_list(of):
        if pa.types.is_integer(of.value_type):
            return _spelt(column)
        return _within(column, _unavailable(column.values))
    return np.zeros(len(column), bool)


def _within(lists: pa.ListArray, inner: np.ndarray) -> np.ndarray:
    """Which lists, or maps, hold one of the marked elements. In: inner  of all elements, whoever has them."""
    before, ends = np.concatenate([[0], np.cumsum(inner)]), lists.offsets.to_numpy()
    found: np.ndarray = (before[ends[1:]] > before[ends[:-1]]) & marks_of(lists.is_valid())
    return found


def _spelt(lists: pa.ListArray) -> np.ndarray:
    """Which lists of integers are the bytes of the placeholder, one after the other."""
    sign, ends = np.frombuffer(UNAVAILABLE.encode(), np.uint8), lists.offsets.to_numpy()
    found: np.ndarray = (np.diff(ends) == len(sign)) & marks_of(lists.is_valid())
    rows = np.flatnonzero(found)
    if len(rows):
        places = ends[rows][:, None] + np.arange(len(sign))
        numbers = lists.values.fill_null(0).to_numpy(zero_copy_only=False)[places]
        found[rows] = (numbers == sign).all(axis=1)
    return found


def unwrapped_keys(read: ReadPart) -> ReadPart:
    """Keys that may stand in a `payload`. In: read  the fields of keys, and a struct of them."""
    parts = _unwrapped(_parts(read.structs))
    fields = list(read.structs.type)[:-1]
    mask = read.structs.is_null()
    found = pa.StructArray.from_arrays([parts[f.name] for f in fields], fields=fields, mask=mask)
    return ReadPart(found, read.asked)


def _parts(structs: pa.StructArray) -> dict[str, pa.Array]:
    return dict(zip([field.name for field in structs.type], structs.flatten(), strict=True))


def _unwrapped(parts: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The parts of the payload where there is one."""
    payload = parts.pop(PAYLOAD)
    inside = marks_of(payload.is_valid())
    if not inside.any():
        return parts
    place = np.arange(len(inside)) + len(inside) * inside
    return {
        name: pa.concat_arrays([parts[name], column]).take(pa.array(place))
        for name, column in _parts(payload).items()
    }


def _inner(parts: dict[str, pa.Array], name: str) -> pa.Array | None:
    """The one field of a part; None: it is not read."""
    return parts[name].flatten()[0] if name in parts else None
