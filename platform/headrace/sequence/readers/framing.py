"""Confluent's wire format: a magic byte 0, the id of a schema in 4 bytes, the highest first, then the payload."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.sequence.parse.letters import letters_of
from headrace.sequence.reasons import Reasons

HEADER_BYTES = 5  # the magic byte and the id
ID_MAX = 2**31 - 1  # beyond it a registry has no id, and takes a question for a wrong address


def schema_ids(raw: pa.Array, what: str, reasons: Reasons) -> tuple[np.ndarray, np.ndarray]:
    """The records that name a schema, and its id; others that are not null get a reason.

    In: what  "key" or "value", as reasons call it
    """
    there = raw.is_valid().to_numpy(zero_copy_only=False)
    ends, data = letters_of(raw)
    begins, sizes = ends[:-1], np.diff(ends)
    long = there & (sizes >= HEADER_BYTES)
    reasons.add(there & ~long, f"malformed {what}: it is too short for a magic byte and the id of a schema")
    rows = np.flatnonzero(long)
    header = data[begins[rows][:, None] + np.arange(HEADER_BYTES)].astype(np.int64)
    for magic in np.unique(header[:, 0]).tolist():
        if magic != 0:
            words = f"malformed {what}: its first byte is {magic}, not the magic byte 0"
            reasons.add(marks(len(raw), rows[header[:, 0] == magic]), words)
    rows, header = rows[header[:, 0] == 0], header[header[:, 0] == 0]
    return rows, header[:, 1:] @ (256 ** np.arange(4)[::-1])


def unframed(raw: pa.Array, what: str, reasons: Reasons) -> pa.Array:
    """The payloads of records; null where there is none, and where the wire format is another."""
    rows, _ = schema_ids(raw, what, reasons)
    good, (ends, data) = marks(len(raw), rows), letters_of(raw)
    sizes = np.diff(ends)
    kept = np.repeat(good, sizes)  # of all bytes; Arrow's own slicing raises for short values
    kept[(ends[rows][:, None] + np.arange(HEADER_BYTES)).ravel()] = False
    begins = np.concatenate([[0], np.cumsum(np.where(good, sizes - HEADER_BYTES, 0))]).astype(np.int32)
    buffers = [pa.array(good).buffers()[1], pa.py_buffer(begins), pa.py_buffer(data[kept])]
    return pa.Array.from_buffers(pa.binary(), len(raw), buffers)


def marks(rows: int, marked: np.ndarray) -> np.ndarray:
    """True where a row is among the marked."""
    found = np.zeros(rows, bool)
    found[marked] = True
    return found
