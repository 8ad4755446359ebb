"""JSON keys of one column: the value alone stands for the object, `1234` for `{"id": 1234}`.

Law: a key that is a JSON number, text or BOOLEAN is read as the object of the column with this value. An object is read as
it is, so columns that are objects or arrays themselves are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.formats.plain_values import NUMBER_TYPES
from headrace.description.schema import Column
from headrace.sequence.parse.letters import letters_of
from headrace.sequence.readers.json_reader import texts_of
from headrace.sequence.readers.plain_values import number_bytes
from headrace.sequence.readers.read_part import Read, ReadPart
from headrace.sequence.reasons import Reasons, marks_of

_BARE = r'^[ \t\r\n]*(?:-?[0-9][0-9.eE+-]*|true|false|"(?:[^"\\]|\\.)*")[ \t\r\n]*$'
_NESTED = ("STRUCT<", "ARRAY<", "MAP<")
_PRINTABLE = range(0x20, 0x7F)


def with_bare_keys(columns: Sequence[Column], read: Read) -> Read:
    """A reader of JSON keys that takes the value alone, too, if there is one column that is no object."""
    if len(columns) != 1 or columns[0].type.startswith(_NESTED):
        return read
    begin, kind = f"{{{json.dumps(columns[0].name)}:", _number_type(columns[0])

    def read_keys(raw: pa.Array, reasons: Reasons) -> ReadPart:
        texts, _ = texts_of(raw)
        bare = pc.match_substring_regex(texts, _BARE).fill_null(False)
        if kind is not None:
            _explain_numbers(raw, bare, kind, reasons)
        objects = pc.binary_join_element_wise(begin, texts, "}", "").cast(pa.binary())
        return read(pc.if_else(bare, objects, raw), reasons)

    return read_keys


def _number_type(column: Column) -> str | None:
    return next((kind for kind, of in NUMBER_TYPES.items() if of == column.type), None)


def _explain_numbers(raw: pa.Array, bare: pa.Array, kind: str, reasons: Reasons) -> None:
    """Give keys a reason that look like numbers of Kafka's serializers: the length of one, with bytes that are no text.

    In: bare  keys that are JSON, perhaps with a newline
    """
    ends, data = letters_of(raw)
    sizes, width = np.diff(ends), number_bytes(kind)
    fit = marks_of(raw.is_valid()) & (sizes == width)
    odd = (data < _PRINTABLE.start) | (data >= _PRINTABLE.stop)
    odd_bytes = np.concatenate([[0], np.cumsum(odd)])
    has_odd = odd_bytes[ends[1:]] > odd_bytes[ends[:-1]]
    blanks = pc.match_substring_regex(raw, r"^[ \t\r\n]*\{")  # an object may begin with a newline
    marks = fit & has_odd & ~marks_of(blanks) & ~marks_of(bare)
    reasons.add(marks, f"malformed key: no JSON, but {width} bytes, as key_format=hr.Number('{kind}') reads")
