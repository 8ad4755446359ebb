"""Values as canonical bytes, of any Arrow type.

Law: two values of one type have the same bytes if and only if they are equal, and bytes compare as the values do: null is
lowest, NaN is one value and the highest number, -0.0 is 0.0, texts compare by their bytes, shorter arrays that are
prefixes come first. Bytes of several values can be joined: no encoding is a prefix of another.

Format: one byte, 0 for null or 1, and then
  whole numbers, dates, times  8 bytes, big-endian, sign bit inverted (times in microseconds)
  FLOAT and DOUBLE             8 bytes of the double, so that they compare as numbers
  DECIMAL                      its unscaled number, 16 bytes (32 beyond 38 digits), big-endian, sign bit inverted
  texts and binaries           the bytes, 00 written as 00 FF, then 00 01
  STRUCT                       its fields
  ARRAY                        for each element 01 and the element, then 00
  MAP                          as an array of entries, sorted by their bytes
Bytes of a fixed length are 0 where a value is null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TOP_BIT = np.uint64(1 << 63)


def encode(values: pa.Array) -> pa.Array:
    """The canonical bytes of each value: BINARY without nulls."""
    of = values.type
    if pa.types.is_dictionary(of):
        return encode(values.dictionary_decode())
    if pa.types.is_null(of):
        return _of_bytes(np.zeros((len(values), 1), np.uint8))
    if _is_text(of):
        return _joined(_tags(values), _texts(values), pa.scalar(b"\x00\x01"))
    if pa.types.is_struct(of):
        return _joined(_tags(values), *(encode(field) for field in values.flatten()))
    if pa.types.is_map(of):
        return _joined(_tags(values), _maps(values))
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        return _joined(_tags(values), _lists(values))
    number = _decimals(values) if pa.types.is_decimal(of) else _numbers(values)
    there = _there(values)
    number[~there] = 0
    return _of_bytes(np.concatenate([there.astype(np.uint8)[:, None], number], axis=1))


def sortable(values: pa.Array) -> np.ndarray:
    """Numbers, dates, times and BOOLEAN as int64 that compare as they do; anything where a value is null.

    In: values  of a type that `is_sortable`
    """
    of = values.type
    values = values.fill_null(False) if pa.types.is_boolean(of) else values
    if pa.types.is_floating(of):
        numbers = _plain(values.cast(pa.float64())).view(np.float64) + 0.0
        numbers[np.isnan(numbers)] = np.nan
        bits = numbers.view(np.int64)
        return bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))
    if pa.types.is_timestamp(of):
        values = values.cast(pa.timestamp("us", of.tz), safe=False)
    elif pa.types.is_time(of):
        values = values.cast(pa.time64("us"), safe=False)
    elif pa.types.is_duration(of):
        values = values.cast(pa.duration("us"), safe=False)
    elif pa.types.is_date32(of):
        values = values.cast(pa.int32())
    elif pa.types.is_date64(of):
        values = values.cast(pa.date32()).cast(pa.int32())
    return _plain(values.view(pa.int64()) if values.type.bit_width == 64 else values.cast(pa.int64()))


def from_sortable(numbers: np.ndarray, of: pa.DataType, null: np.ndarray | None = None) -> pa.Array:
    """The values that `sortable` made numbers of; -0.0 comes back as 0.0."""
    if pa.types.is_floating(of):
        doubles = (numbers ^ ((numbers >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))).view(np.float64)
        return pa.array(doubles, mask=null, from_pandas=False).cast(of)
    found = pa.array(numbers, pa.int64(), mask=null)
    if pa.types.is_date32(of):
        return found.cast(pa.int32()).cast(of)
    if pa.types.is_date64(of):
        return found.cast(pa.int32()).cast(pa.date32()).cast(of)
    if pa.types.is_timestamp(of):
        return found.cast(pa.timestamp("us", of.tz)).cast(of)
    if pa.types.is_time(of):
        return found.cast(pa.time64("us")).cast(of)
    if pa.types.is_duration(of):
        return found.cast(pa.duration("us")).cast(of)
    return found.cast(of)


def ordered_bytes(numbers: np.ndarray) -> pa.Array:
    """Whole numbers (int64) as eight bytes that compare as they do: BINARY without nulls."""
    return _of_bytes(_big_endian(numbers))


def is_sortable(of: pa.DataType) -> bool:
    """Whether `sortable` takes values of a type."""
    return bool(
        pa.types.is_integer(of)
        or pa.types.is_floating(of)
        or pa.types.is_boolean(of)
        or (pa.types.is_temporal(of) and of.id != pa.lib.Type_INTERVAL_MONTH_DAY_NANO)
    )


def _is_text(of: pa.DataType) -> bool:
    return any(
        test(of)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
        )
    )


def _there(values: pa.Array) -> np.ndarray:
    there: np.ndarray = values.is_valid().to_numpy(zero_copy_only=False)
    return there


def _tags(values: pa.Array) -> pa.Array:
    return _of_bytes(_there(values).astype(np.uint8)[:, None])


def _plain(values: pa.Array) -> np.ndarray:
    """The buffer of values of 64 bits, as int64; undefined where one is null."""
    raw = np.frombuffer(values.buffers()[1], np.int64) if len(values) else np.empty(0, np.int64)
    return raw[values.offset : values.offset + len(values)]


def _numbers(values: pa.Array) -> np.ndarray:
    return _big_endian(sortable(values))


def _big_endian(numbers: np.ndarray) -> np.ndarray:
    return (numbers.view(np.uint64) ^ TOP_BIT).astype(">u8").view(np.uint8).reshape(-1, 8)


def _decimals(values: pa.Array) -> np.ndarray:
    of = values.type
    if not (pa.types.is_decimal128(of) or pa.types.is_decimal256(of)):
        values = values.cast(pa.decimal128(of.precision, of.scale))
    width = values.type.byte_width
    raw = np.frombuffer(values.buffers()[1], np.uint8) if len(values) else np.empty(0, np.uint8)
    raw = raw[values.offset * width : (values.offset + len(values)) * width].reshape(-1, width)
    number = raw[:, ::-1].copy()
    number[:, 0] ^= 0x80
    return number


def _texts(values: pa.Array) -> pa.Array:
    texts = values.cast(pa.binary()).fill_null(b"")
    data = texts.buffers()[2]
    if data is not None and data.size and (np.frombuffer(data, np.uint8) == 0).any():
        return pc.replace_substring(texts, b"\x00", b"\x00\xff")
    return texts


def _lists(values: pa.Array) -> pa.Array:
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    return _joined(_strung(encode(values.flatten()), lengths), pa.scalar(b"\x00"))


def _maps(values: pa.Array) -> pa.Array:
    there = _there(values)
    offsets = values.offsets.to_numpy().astype(np.int64)
    lengths = np.where(there, np.diff(offsets), 0)
    which = np.repeat(np.arange(len(values)), lengths)
    place = np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    at = pa.array(offsets[:-1][which] - offsets[0] + place)
    # `keys` and `items` are those of the slice; a null map may still have entries, which are passed over.
    first = int(offsets[0])
    keys, items = (
        (side if len(side) == offsets[-1] - first else side.slice(first)).take(at)
        for side in (values.keys, values.items)
    )
    entries = _joined(encode(keys), encode(items))
    rank = np.empty(len(entries), np.int64)
    rank[pc.array_sort_indices(entries).to_numpy()] = np.arange(len(entries))
    order = np.lexsort((rank, which))
    return _joined(_strung(entries.take(pa.array(order)), lengths), pa.scalar(b"\x00"))


def _strung(elements: pa.Array, lengths: np.ndarray) -> pa.Array:
    """The bytes of the elements of each list one after another, 01 before each."""
    elements = _joined(pa.scalar(b"\x01"), elements) if len(elements) else elements
    starts = np.frombuffer(elements.buffers()[1], np.int32)[: len(elements) + 1] if len(elements) else [0]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    offsets = pa.py_buffer(np.asarray(starts, np.int32)[ends].tobytes())
    data = elements.buffers()[2] if len(elements) else pa.py_buffer(b"")
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, offsets, data])


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(b""))


def _of_bytes(rows: np.ndarray) -> pa.Array:
    """Rows of bytes, all of one length, as BINARY."""
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)[: count + 1]
    data = pa.py_buffer(np.ascontiguousarray(rows).tobytes())
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets.tobytes()), data])
