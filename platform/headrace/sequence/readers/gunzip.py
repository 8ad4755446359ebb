"""Values that are compressed with gzip (RFC 1952), one by one.

A value that does not begin with gzip's two magic bytes is taken as it is: no JSON and no CSV of people begins so, and
producers may change from one to the other at any record.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.sequence.reasons import Reasons

MAGIC = b"\x1f\x8b"
BYTES_MAX = 16 << 20  # of one value; a few bytes may stand for gigabytes
# What is given to a member at first, then twice as much: `zlib` copies what the member leaves, and there may be thousands.
FIRST_BYTES = 256
_GZIP = 16 + zlib.MAX_WBITS
_MEMBER = MAGIC + b"\x08"  # how each member begins
_SIZE_BYTES = 4  # at the end of a member: how much it holds


class _Unreadable(Exception):
    """A value is not gzip; the message says why."""


def gunzipped(raw: pa.Array, what: str, reasons: Reasons) -> pa.Array:
    """The values without compression; null where there is none, and where it is damaged.

    In: what  "key" or "value", as reasons call it
    """
    packed = pc.starts_with(raw, MAGIC).fill_null(False)
    if not pc.any(packed).as_py():
        return raw
    values = raw.to_pylist()
    for row in pc.indices_nonzero(packed).to_pylist():
        try:
            values[row] = _gunzip(values[row])
        except _Unreadable as why:
            reasons.add_one(row, f"malformed {what}: {why}")
            values[row] = None
    return pa.array(values, pa.binary())


def in_pieces(records: pa.Table, columns: Collection[str], bytes_max: int) -> Iterator[pa.Table]:
    """Records in stretches of neighbours, none of which is large without compression; a large record is alone.

    In: columns  those that may be compressed
    """
    if not columns or not records.num_rows:
        yield records
        return
    sizes = np.sum([unpacked_sizes(records[name]) for name in columns], axis=0)
    for begin, rows in stretches(sizes, bytes_max):
        yield records.slice(begin, rows)


def stretches(sizes: np.ndarray, size_max: int) -> Iterator[tuple[int, int]]:
    """Where stretches of neighbours begin that are not larger than a bound, and how many they are; a larger one is alone."""
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(ends):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + size_max, side="right")))
        yield begin, end - begin
        begin = end


def unpacked_sizes(raw: pa.ChunkedArray) -> np.ndarray:
    """How many bytes each value has without compression; of damaged values it may be more. In: raw  BINARY."""
    sizes: np.ndarray = pc.binary_length(raw).fill_null(0).to_numpy().astype(np.int64)
    for row in pc.indices_nonzero(pc.starts_with(raw, MAGIC).fill_null(False)).to_pylist():
        sizes[row] = _unpacked_size(raw[row].as_py())
    return sizes


def _unpacked_size(packed: bytes) -> int:
    if packed.find(_MEMBER, 1) < 0:  # one member, which `zlib` refuses unless it holds what its end says
        return min(int.from_bytes(packed[-_SIZE_BYTES:], "little"), BYTES_MAX)
    try:
        return len(_gunzip(packed))
    except _Unreadable:
        return BYTES_MAX


def _gunzip(packed: bytes) -> bytes:
    """The content of all members, one after the other."""
    parts, size, at = list[bytes](), 0, 0
    view = memoryview(packed)
    while at < len(packed):
        member, step = zlib.decompressobj(_GZIP), FIRST_BYTES
        while not member.eof:
            if at == len(packed):
                raise _Unreadable("its gzip is cut short")
            piece = view[at : at + step]
            try:
                parts.append(member.decompress(piece, BYTES_MAX - size + 1))
            except zlib.error:
                raise _Unreadable("its gzip is damaged") from None
            at, size, step = at + len(piece), size + len(parts[-1]), 2 * step
            if size > BYTES_MAX:
                raise _Unreadable(f"its gzip holds more than {BYTES_MAX:,} bytes")
        at -= len(member.unused_data)
    return b"".join(parts)
