"""Keys or values that are one value without a name: the bytes of the value, and the value of the bytes.

Law: what becomes of a record is a function of its bytes. Bytes that are no UTF-8, and numbers of another length, are
malformed. `written` makes the bytes that `PlainValueReader` reads as the same value.
Source: Kafka, org.apache.kafka.common.serialization.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.formats.plain_values import BYTES, TEXT
from headrace.sequence.encodings import ValueBytes
from headrace.sequence.parse.letters import letters_of
from headrace.sequence.readers.gunzip import gunzipped
from headrace.sequence.readers.json_reader import NOT_UTF8, texts_of
from headrace.sequence.readers.read_part import ReadPart
from headrace.sequence.reasons import Reasons, marks_of

_CODES = {"int32": "i", "int64": "q", "float32": "f", "float64": "d"}  # of `struct`
_NUMPY = {"int32": ">i4", "int64": ">i8", "float32": ">f4", "float64": ">f8"}


class PlainValueReader:
    """Reads keys, or values, into structs of one field."""

    def __init__(self, of: ValueBytes, field: pa.Field, what: str) -> None:
        """In: what  "key" or "value", as reasons name it."""
        self._of, self._field, self._what = of, field, what

    def read(self, raw: pa.Array, reasons: Reasons) -> ReadPart:
        """Bytes as structs; null where there are none, and where they are malformed."""
        raw = gunzipped(raw, self._what, reasons) if self._of.gzip else raw
        values = self._values(raw, reasons)
        return ReadPart(pa.StructArray.from_arrays([values], fields=[self._field], mask=pc.is_null(values)))

    def _values(self, raw: pa.Array, reasons: Reasons) -> pa.Array:
        if self._of.kind == BYTES:
            return raw
        if self._of.kind != TEXT:
            return self._numbers(raw, reasons)
        texts, not_utf8 = texts_of(raw)
        reasons.add(not_utf8, f"malformed {self._what}: {NOT_UTF8}")
        return texts

    def _numbers(self, raw: pa.Array, reasons: Reasons) -> pa.Array:
        kind, width = self._of.kind, number_bytes(self._of.kind)
        ends, data = letters_of(raw)
        sizes = np.diff(ends)
        there = marks_of(raw.is_valid())
        fit = there & (sizes == width)
        rows = np.flatnonzero(there & ~fit)
        if len(rows):
            lengths, which = np.unique(sizes[rows], return_inverse=True)
            words = f"malformed {self._what}: it has {{}} bytes, and {kind} has {width}"
            reasons.add_each(rows, which, [words.format(length) for length in lengths.tolist()])
        numbers = np.zeros(len(raw), np.dtype(_NUMPY[kind]).newbyteorder("="))
        numbers[fit] = data[np.repeat(fit, sizes)].view(_NUMPY[kind])
        return pa.array(numbers, mask=~fit)


def number_bytes(kind: str) -> int:
    """How many bytes a number of a type has."""
    return struct.calcsize(f">{_CODES[kind]}")


def written(kind: str, value: Any) -> bytes:
    """The bytes of a value.

    In:     kind  see `PlainValue.kind`
    Raises: TypeError, ValueError, struct.error or OverflowError when it is no value of this kind
    """
    if kind == TEXT:
        return str(value).encode()
    return bytes(memoryview(value)) if kind == BYTES else struct.pack(f">{_CODES[kind]}", value)
