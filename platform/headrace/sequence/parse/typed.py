"""Columns as Arrow's JSON reader gives them, made columns of the declared types.

Law: a row that is not marked odd holds what `strict_json` makes of its text. Odd are rows with
  a date, a time or bytes in a form that `text_columns` does not take,
  a decimal that has too many digits,
  no value of a nested field that is NOT NULL,
  a key that occurs twice in a map.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.sequence.parse.text_columns import from_texts
from headrace.sequence.parse.types import DIGITS_MAX_256, is_written_as_text

HUGE_BITS = 60  # beyond 2^64


def typed(read: pa.StructArray, wanted: pa.DataType) -> tuple[pa.StructArray, np.ndarray]:
    """Structs of the wanted type, and the rows that are odd, sorted. In: read  of the type `types.read_as(wanted)`."""
    odd: list[np.ndarray] = []
    structs = _typed(read, wanted, np.arange(len(read)), odd)
    return structs, np.unique(np.concatenate(odd)) if odd else np.zeros(0, np.int64)


def _typed(read: pa.Array, wanted: pa.DataType, rows: np.ndarray, odd: list[np.ndarray]) -> pa.Array:
    """In: rows  of each value the row in which it stands; odd  takes rows that are."""
    if pa.types.is_struct(wanted):
        return _structs(read, wanted, rows, odd)
    if pa.types.is_list(wanted):
        return _lists(read, wanted, rows, odd)
    if pa.types.is_map(wanted):
        return _maps(read, wanted, rows, odd)
    if is_written_as_text(wanted):
        values, not_taken = from_texts(read, wanted)
        _mark(odd, rows, not_taken)
        return values
    if pa.types.is_decimal(wanted):
        values, too_long = _decimals(read, wanted)
        _mark(odd, rows, too_long)
        return values
    return read


def _structs(read: pa.StructArray, wanted: pa.DataType, rows: np.ndarray, odd: list[np.ndarray]) -> pa.Array:
    fields = [_typed(values, of.type, rows, odd) for values, of in zip(read.flatten(), wanted, strict=True)]
    for values, of in zip(fields, wanted, strict=True):
        if not of.nullable and values.null_count:
            _mark(odd, rows, pc.and_(values.is_null(), read.is_valid()).to_numpy(zero_copy_only=False))
    mask = read.is_null() if read.null_count else None
    return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=mask)


def _lists(read: pa.ListArray, wanted: pa.DataType, rows: np.ndarray, odd: list[np.ndarray]) -> pa.Array:
    lengths = pc.list_value_length(read).fill_null(0).to_numpy(zero_copy_only=False)
    values = _typed(read.flatten(), wanted.value_type, np.repeat(rows, lengths), odd)
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(
        ends, values, type=wanted, mask=read.is_null() if read.null_count else None
    )


def _maps(read: pa.ListArray, wanted: pa.DataType, rows: np.ndarray, odd: list[np.ndarray]) -> pa.Array:
    """Lists of pairs as maps (see `map_texts`)."""
    lengths = pc.list_value_length(read).fill_null(0).to_numpy(zero_copy_only=False)
    of_pairs, which = np.repeat(rows, lengths), np.repeat(np.arange(len(read)), lengths)
    keys, values = read.flatten().flatten()
    _mark(odd, of_pairs, keys.is_null().to_numpy(zero_copy_only=False))
    _mark(odd, of_pairs, _repeated(which, keys))
    values = _typed(values, wanted.item_type, of_pairs, odd)
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    keys = keys.fill_null("") if keys.null_count else keys
    mask = read.is_null() if read.null_count else None
    return pa.MapArray.from_arrays(ends, keys, values, type=wanted, mask=mask)


def _repeated(which: np.ndarray, keys: pa.Array) -> np.ndarray:
    """Which keys occur again in their map."""
    codes = keys.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    own = which * (int(codes.max(initial=0)) + 1) + codes
    _, number, count = np.unique(own, return_inverse=True, return_counts=True)
    found: np.ndarray = (count > 1)[number]
    return found


def _decimals(read: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """Numbers as 16 bytes each, and which have more digits than their type."""
    if not len(read):
        return pa.array([], wanted), np.zeros(0, bool)
    huge = np.zeros(len(read), bool)
    if read.type.scale > wanted.scale:
        read, huge = _rounded(read, wanted.scale)
    words = read.type.byte_width // 8
    parts = np.frombuffer(read.buffers()[1], np.uint64).reshape(-1, words)
    parts = parts[read.offset : read.offset + len(read)]
    low, high = parts[:, 0], parts[:, 1].view(np.int64)
    there: np.ndarray = read.is_valid().to_numpy(zero_copy_only=False)
    wider = (parts[:, 2:].view(np.int64) != (high >> 63)[:, None]).any(axis=1)
    negative = high < 0
    high = np.where(negative, ~high + (low == 0), high)
    low = np.where(negative, ~low + np.uint64(1), low)
    top_high, top_low = divmod(10**wanted.precision, 1 << 64)
    too_long = (wider | (high > top_high) | ((high == top_high) & (low >= np.uint64(top_low)))) & there | huge
    if words == 2:
        return read, too_long
    buffer = pa.py_buffer(np.ascontiguousarray(parts[:, :2]).tobytes())
    narrow = pa.Array.from_buffers(wanted, len(read), [None, buffer])
    return (pc.if_else(pa.array(there), narrow, None) if read.null_count else narrow), too_long


def _rounded(read: pa.Array, scale: int) -> tuple[pa.Array, np.ndarray]:
    """Numbers with so many decimals, rounded half up, and which are too large for that: null, and odd."""
    # Arrow rounds numbers of more than 128 bits wrongly now and then: these are read one by one.
    words = np.frombuffer(read.buffers()[1], np.int64).reshape(-1, 4)[read.offset : read.offset + len(read)]
    huge = (words[:, 2:] != (words[:, 1] >> 63)[:, None]).any(axis=1) | (np.abs(words[:, 1] >> HUGE_BITS) > 1)
    huge &= read.is_valid().to_numpy(zero_copy_only=False)
    if huge.any():
        read = pc.if_else(pa.array(huge), pa.scalar(None, read.type), read)
    rounded = pc.round(read, ndigits=scale, round_mode="half_towards_infinity")
    return rounded.cast(pa.decimal256(DIGITS_MAX_256, scale)), huge


def _mark(odd: list[np.ndarray], rows: np.ndarray, marks: np.ndarray) -> None:
    if marks.any():
        odd.append(rows[marks])
