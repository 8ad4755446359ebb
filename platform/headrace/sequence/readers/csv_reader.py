"""Keys or values that are lines of CSV, many at a time: each line becomes a JSON object, which is read as all JSON is.

Law: what becomes of a record is a function of its bytes. A line without quotes is split in columns, together with all
others; one with quotes is taken apart by itself, by RFC 4180. Both give the same fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.sequence.encodings import CsvBytes
from headrace.sequence.parse.json_columns import ObjectReader
from headrace.sequence.readers.gunzip import gunzipped
from headrace.sequence.readers.json_reader import NOT_UTF8, read_objects, texts_of
from headrace.sequence.readers.read_part import ReadPart
from headrace.sequence.reasons import Reasons, marks_of

_NUMBER = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$"
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\t", "\\t"), ("\b", "\\b"), ("\f", "\\f"))


class CsvReader:
    """Reads keys, or values, into structs of some fields."""

    def __init__(self, of: CsvBytes, fields: Sequence[pa.Field], ddl: str, what: str) -> None:
        """In: what  "key" or "value", and `ddl` what was declared, as reasons say them."""
        self._of, self._fields, self._ddl, self._what = of, list(fields), ddl, what
        self._objects = ObjectReader(self._fields)
        between = re.escape(of.separator)
        # `++` and `*+` keep nothing to go back to: without them a letter in quotes takes 100 bytes of memory.
        self._field = re.compile(rf'"((?:[^"]++|"")*+)"|([^"{between}\r\n]*)')

    def read(self, raw: pa.Array, reasons: Reasons) -> ReadPart:
        """Bytes as structs; null where there are none, and where they are malformed."""
        raw = gunzipped(raw, self._what, reasons) if self._of.gzip else raw
        texts, not_utf8 = texts_of(raw)
        reasons.add(not_utf8, f"malformed {self._what}: {NOT_UTF8}")
        texts = pc.replace_substring_regex(texts, r"\r?\n\z", "")
        odd = marks_of(pc.match_substring_regex(texts, '["\\r\\n\\x00-\\x08\\x0b\\x0e-\\x1f]'))
        plain = pc.if_else(pa.array(odd), pa.scalar(None, pa.string()), texts)
        objects = self._split(plain, reasons)
        if odd.any():
            objects = pc.coalesce(objects, self._one_by_one(texts, np.flatnonzero(odd), reasons))
        raw_objects = objects.cast(pa.binary())
        return ReadPart(read_objects(raw_objects, self._objects, self._what, self._ddl, reasons))

    def _split(self, texts: pa.Array, reasons: Reasons) -> pa.Array:
        """Lines without quotes as JSON objects; null where there is none, and where the number of fields is another."""
        lists = pc.split_pattern(texts, self._of.separator)
        counts = pc.list_value_length(lists).fill_null(-1).to_numpy(zero_copy_only=False)
        for count in np.unique(counts).tolist():
            if count not in (-1, len(self._fields)):
                reasons.add(counts == count, self._miscounted(count))
        fit = np.flatnonzero(counts == len(self._fields))
        flat = lists.take(pa.array(fit)).flatten()
        parts = [
            self._pair(field, flat.take(pa.array(np.arange(place, len(flat), len(self._fields)))))
            for place, field in enumerate(self._fields)
        ]
        whole = pc.binary_join_element_wise("{", pc.binary_join_element_wise(*parts, ","), "}", "")
        place = np.full(len(texts), -1, np.int64)
        place[fit] = np.arange(len(fit))
        return whole.take(pa.array(place, mask=place < 0))

    def _pair(self, field: pa.Field, values: pa.Array) -> pa.Array:
        """A column's name and its values as JSON."""
        quoted = values
        for letter, escape in _ESCAPES:
            quoted = pc.replace_substring(quoted, letter, escape)
        written = pc.binary_join_element_wise('"', quoted, '"', "")
        if _is_bare(field.type):
            bare = pc.match_substring_regex(values, _bare(field.type))
            written = pc.if_else(bare, values, written)
        written = pc.if_else(pc.equal(values, ""), "null", written)
        return pc.binary_join_element_wise(json.dumps(field.name, ensure_ascii=False) + ":", written, "")

    def _one_by_one(self, texts: pa.Array, rows: np.ndarray, reasons: Reasons) -> pa.Array:
        found: list[str | None] = [None] * len(texts)
        for row in rows.tolist():
            fields = self._fields_of(texts[row].as_py())
            if isinstance(fields, str):
                reasons.add_one(row, f"malformed {self._what}: {fields}")
            elif len(fields) != len(self._fields):
                reasons.add_one(row, self._miscounted(len(fields)))
            else:
                found[row] = self._object(fields)
        return pa.array(found, pa.string())

    def _fields_of(self, line: str) -> list[tuple[str, bool]] | str:
        """The fields of a line, and whether each is quoted; a text: why it is no line."""
        fields, at = list[tuple[str, bool]](), 0
        while True:
            found = self._field.match(line, at)
            assert found is not None
            quoted = found[1] is not None
            fields.append((found[1].replace('""', '"') if quoted else found[2], quoted))
            at = found.end()
            if at == len(line):
                return fields
            if line[at] in "\r\n":
                return "more than one line"
            if line[at] != self._of.separator:
                return f"a quote is out of place in field {len(fields)}"
            at += 1

    def _object(self, fields: Sequence[tuple[str, bool]]) -> str:
        pairs = {}
        for of, (text, quoted) in zip(self._fields, fields, strict=True):
            bare = _is_bare(of.type) and not quoted and re.fullmatch(_bare(of.type).strip("^$"), text)
            value = (
                text
                if bare
                else "null"
                if text == "" and not quoted
                else json.dumps(text, ensure_ascii=False)
            )
            pairs[of.name] = value
        return "{" + ",".join(f"{json.dumps(n, ensure_ascii=False)}:{v}" for n, v in pairs.items()) + "}"

    def _miscounted(self, count: int) -> str:
        return f"malformed {self._what}: it has {count} fields, and there are {len(self._fields)} columns"


def _is_bare(of: pa.DataType) -> bool:
    """Whether JSON writes values of a type without quotes."""
    return bool(pa.types.is_boolean(of) or pa.types.is_integer(of) or pa.types.is_floating(of))


def _bare(of: pa.DataType) -> str:
    return "^(?:true|false)$" if pa.types.is_boolean(of) else _NUMBER
