"""Values that are compressed with gzip (RFC 1952), one by one.

A value that does not begin with gzip's two magic bytes is taken as it is: no JSON and no CSV of people begins so, and
producers may change from one to the other at any record.
"""

from __future__ import annotations

import zlib

import pyarrow as pa
import pyarrow.compute as pc

from headrace.sequence.reasons import Reasons

MAGIC = b"\x1f\x8b"
BYTES_MAX = 16 << 20  # of one value; a few bytes may stand for gigabytes
_GZIP = 16 + zlib.MAX_WBITS


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


def _gunzip(packed: bytes) -> bytes:
    """The content of all members, one after the other."""
    parts, size = list[bytes](), 0
    while packed:
        member = zlib.decompressobj(_GZIP)
        try:
            parts.append(member.decompress(packed, BYTES_MAX - size + 1))
        except zlib.error:
            raise _Unreadable("its gzip is damaged") from None
        size += len(parts[-1])
        if size > BYTES_MAX:
            raise _Unreadable(f"its gzip holds more than {BYTES_MAX:,} bytes")
        if not member.eof:
            raise _Unreadable("its gzip is cut short")
        packed = member.unused_data
    return b"".join(parts)
