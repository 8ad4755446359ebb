"""Keys or values that are plain text: the text is the one column.

Law: what becomes of a record is a function of its bytes. Bytes that are not UTF-8 are malformed; all others are read.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headrace.sequence.encodings import TextBytes
from headrace.sequence.gunzip import gunzipped
from headrace.sequence.json_reader import NOT_UTF8, texts_of
from headrace.sequence.read_part import ReadPart
from headrace.sequence.reasons import Reasons


class TextReader:
    """Reads keys, or values, into structs of one field."""

    def __init__(self, of: TextBytes, field: pa.Field, what: str) -> None:
        """In: what  "key" or "value", as reasons name it."""
        self._of, self._field, self._what = of, field, what

    def read(self, raw: pa.Array, reasons: Reasons) -> ReadPart:
        """Bytes as structs; null where there are none, and where they are malformed."""
        raw = gunzipped(raw, self._what, reasons) if self._of.gzip else raw
        texts, not_utf8 = texts_of(raw)
        reasons.add(not_utf8, f"malformed {self._what}: {NOT_UTF8}")
        structs = pa.StructArray.from_arrays([texts], fields=[self._field], mask=pc.is_null(texts))
        return ReadPart(structs)
