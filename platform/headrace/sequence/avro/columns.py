"""Decoded Avro values as Arrow columns: first as Avro encodes them, then as the columns have them.

Law: a row that is not marked odd holds what its schema says. Odd are rows with
  a date or a time beyond the years 1 to 9999,
  a decimal with more digits than its type has.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.description.arrow_types import arrow_type
from headrace.description.formats.avro_types import AvroType
from headrace.sequence.parse.scalars import DAY_US, FIRST_US, LAST_US

_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
_DECIMAL_BYTES = 16


class Mismatch(Exception):
    """A type of a schema does not fit the column that was declared; the message says where and how."""


def encoded_type(of: AvroType, wanted: pa.DataType, path: str = "") -> pa.DataType:
    """The Arrow type as which values are taken from the decoder: dates, times and decimals as they are encoded.

    In:     wanted  the column's type; of a record those fields that it lacks are left out
    Raises: Mismatch when the type does not fit the column
    """
    match of.kind:
        case "record":
            _require(pa.types.is_struct(wanted), of, wanted, path)
            has = {field.name: field.type for field in of.fields}
            fields = [field for field in wanted if field.name in has]
            return pa.struct(
                [(f.name, encoded_type(has[f.name], f.type, f"{path}.{f.name}")) for f in fields]
            )
        case "array":
            _require(pa.types.is_list(wanted), of, wanted, path)
            return pa.list_(encoded_type(of.inner[0], wanted.value_type, f"{path}[]"))
        case "map":
            _require(pa.types.is_map(wanted) and pa.types.is_string(wanted.key_type), of, wanted, path)
            return pa.map_(pa.string(), encoded_type(of.inner[0], wanted.item_type, f"{path}{{}}"))
        case "union" if len(of.branches) == 1:
            return encoded_type(of.branches[0], wanted, path)
        case "union" if of.widest is None and of.branches:
            _require(pa.types.is_struct(wanted), of, wanted, path)
            has = {f"member{number}": each for number, each in enumerate(of.branches)}
            fields = [field for field in wanted if field.name in has]
            return pa.struct(
                [(f.name, encoded_type(has[f.name], f.type, f"{path}.{f.name}")) for f in fields]
            )
        case "union" | "null":
            _require(bool(of.branches) and of.kind != "null", of, wanted, path)
            kind = of.widest or ""
            _require(_fits(_PLAIN[kind], wanted), of, wanted, path)
            return _PLAIN[kind]
        case _:
            _require(_fits(arrow_type(of.column()), wanted), of, wanted, path)
            return _PLAIN[of.kind]


def finished(
    read: pa.Array, of: AvroType, wanted: pa.DataType, rows: np.ndarray, odd: list[np.ndarray]
) -> pa.Array:
    """Values of the wanted type.

    In: read  of the type `encoded_type(of, wanted)`
        rows  of each value the row in which it stands; odd  takes rows that are
    """
    if of.kind == "union" and len(of.branches) == 1:
        of = of.branches[0]
    if pa.types.is_struct(wanted):
        return _structs(read, _fields(of), wanted, rows, odd)
    if of.kind in ("array", "map"):
        lengths = np.diff(read.offsets.to_numpy()) if len(read) else np.zeros(0, np.int64)
        begin = read.offsets[0].as_py() if len(read) else 0
        inner = read.items if of.kind == "map" else read.values
        end = begin + int(lengths.sum())
        item_type = wanted.item_type if of.kind == "map" else wanted.value_type
        items = finished(
            inner.slice(begin, end - begin), of.inner[0], item_type, np.repeat(rows, lengths), odd
        )
        ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        mask = read.is_null() if read.null_count else None
        if of.kind == "map":
            keys = read.keys.slice(begin, end - begin)
            return pa.MapArray.from_arrays(ends, keys, items, type=wanted, mask=mask)
        return pa.ListArray.from_arrays(ends, items, type=wanted, mask=mask)
    if of.precision is not None:
        return _decimals(read, of, rows, odd).cast(wanted)
    if of.logical is not None:
        return _moments(read, of, wanted, rows, odd)
    return read.cast(wanted)


def _fields(of: AvroType) -> dict[str, AvroType]:
    if of.kind == "union":
        return {f"member{number}": each for number, each in enumerate(of.branches)}
    return {field.name: field.type for field in of.fields}


def _structs(
    read: pa.StructArray,
    has: dict[str, AvroType],
    wanted: pa.DataType,
    rows: np.ndarray,
    odd: list[np.ndarray],
) -> pa.StructArray:
    parts = dict(zip([field.name for field in read.type], read.flatten(), strict=True))
    fields = [
        finished(parts[f.name], has[f.name], f.type, rows, odd)
        if f.name in parts
        else pa.nulls(len(read), f.type)
        for f in wanted
    ]
    mask = read.is_null() if read.null_count else None
    return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=mask)


def _moments(
    read: pa.Array, of: AvroType, wanted: pa.DataType, rows: np.ndarray, odd: list[np.ndarray]
) -> pa.Array:
    there = read.is_valid().to_numpy(zero_copy_only=False)
    numbers = read.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    unit = DAY_US if of.logical == "date" else 1000 if str(of.logical).endswith("millis") else 1
    beyond = (numbers < -(-FIRST_US // unit)) | (numbers > LAST_US // unit)
    _mark(odd, rows, beyond & there)
    numbers = np.where(beyond, 0, numbers)
    if of.logical == "date":
        return pa.array(numbers.astype(np.int32), mask=~there).cast(wanted)
    return pa.array(numbers * unit, mask=~there).cast(wanted)


def _decimals(read: pa.Array, of: AvroType, rows: np.ndarray, odd: list[np.ndarray]) -> pa.Array:
    """Whole numbers, the highest byte first, as decimals."""
    assert of.precision is not None
    limit, words, beyond = 10**of.precision, bytearray(), np.zeros(len(read), bool)
    for row, digits in enumerate(read.to_pylist()):
        number = int.from_bytes(digits or b"", "big", signed=True)
        if not -limit < number < limit:
            beyond[row], number = True, 0
        words += number.to_bytes(_DECIMAL_BYTES, "little", signed=True)
    _mark(odd, rows, beyond)
    of_type = pa.decimal128(of.precision, of.scale)
    found = pa.Array.from_buffers(of_type, len(read), [None, pa.py_buffer(bytes(words))])
    if not read.null_count:
        return found
    return found.take(pa.array(np.arange(len(read)), mask=read.is_null().to_numpy(zero_copy_only=False)))


def _fits(has: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether each value of a type is one of another."""
    if has == wanted:
        return True
    if pa.types.is_decimal(has) and pa.types.is_decimal(wanted):
        whole = has.precision - has.scale <= wanted.precision - wanted.scale
        return bool(whole and has.scale <= wanted.scale)
    wider = {pa.int32(): (pa.int64(), pa.float64()), pa.float32(): (pa.float64(),)}
    return wanted in wider.get(has, ())


def _require(fits: bool, of: AvroType, wanted: pa.DataType, path: str) -> None:
    if not fits:
        raise Mismatch(f"{path.lstrip('.') or 'it'} is {of.logical or of.kind}, and its column is {wanted}")


def _mark(odd: list[np.ndarray], rows: np.ndarray, marks: np.ndarray) -> None:
    if marks.any():
        odd.append(rows[marks])
