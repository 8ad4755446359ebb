"""Keys or values that are JSON, many at a time: objects, objects within others, or several objects a record.

Law: what becomes of a record is a function of its bytes and of the topic's description: not of the chunk in which it came.
Unknown fields are kept as `parse.json_values` keeps any JSON in a STRING column: in their order, numbers as written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.sequence.encodings import JsonBytes
from headrace.sequence.parse.json_columns import ObjectReader
from headrace.sequence.parse.letters import letters_of
from headrace.sequence.parse.strict_json import BLANKS, DOES_NOT_FIT, Malformed
from headrace.sequence.parse.unknown_fields import UnknownFields
from headrace.sequence.readers.framing import unframed
from headrace.sequence.readers.gunzip import gunzipped, stretches
from headrace.sequence.readers.read_part import ReadPart
from headrace.sequence.reasons import Reasons, marks_of

NOT_UTF8, NOT_AN_OBJECT = "not UTF-8", "not a JSON object"
ROWS_MAX, BYTES_MAX = 1 << 16, 4 << 20  # of texts that are read at once
# The most lines that are split at once, because each takes many bytes in memory. A final newline adds no line.
LINES_MAX = 1_000_000


class JsonReader:
    """Reads keys, or values, into structs of some fields."""

    def __init__(self, of: JsonBytes, fields: Sequence[pa.Field], ddl: str, what: str) -> None:
        """In: what  "key" or "value", and `ddl` what was declared, as reasons say them."""
        self._of, self._ddl, self._what, self._type = of, ddl, what, pa.struct(list(fields))
        own = [field for field in self._type if field.name != of.unknown]
        inner = list(self._type.field(0).type.value_type) if of.lines else own
        self._unknown = None if of.unknown is None else UnknownFields(inner, of.path)
        for name in reversed(of.path):
            inner = [pa.field(name, pa.struct(inner))]
        self._objects = ObjectReader(inner)

    def read(self, raw: pa.Array, reasons: Reasons) -> ReadPart:
        """Bytes as structs; null where there are none, and where they are malformed."""
        raw = unframed(raw, self._what, reasons) if self._of.framed else raw
        raw = gunzipped(raw, self._what, reasons) if self._of.gzip else raw
        if self._of.lines:
            return ReadPart(self._lines(raw, reasons))
        structs = read_objects(raw, self._objects, self._what, self._ddl, reasons)
        for name in self._of.path:
            structs = structs.flatten()[0]
            lacks = raw.is_valid().to_numpy(zero_copy_only=False) & ~_valid(structs)
            reasons.add(lacks, f"malformed {self._what}: {name} is null or missing")
        if self._unknown is None:
            return ReadPart(structs)
        unknown = self._unknown.read(raw, _valid(structs))
        fields = [*structs.flatten(), unknown]
        mask = structs.is_null() if structs.null_count else None
        return ReadPart(pa.StructArray.from_arrays(fields, fields=list(self._type), mask=mask))

    def _lines(self, raw: pa.Array, reasons: Reasons) -> pa.StructArray:
        """Records of several lines: a list of objects for each; lines of white space count for nothing."""
        texts, not_utf8 = texts_of(raw)
        reasons.add(not_utf8, f"malformed {self._what}: {NOT_UTF8}")
        lines = _line_counts(texts)
        many = lines > LINES_MAX
        reasons.add(many, f"malformed {self._what}: it has more than {LINES_MAX:,} lines")
        if many.any():
            texts, lines = pc.if_else(pa.array(many), pa.scalar(None, pa.string()), texts), lines * ~many
        parts = [self._split(texts.slice(at, n), at, reasons) for at, n in stretches(lines, LINES_MAX)]
        return pa.concat_arrays(parts) if parts else pa.array([], self._type)

    def _split(self, texts: pa.Array, begin: int, reasons: Reasons) -> pa.StructArray:
        """The same of some of the texts. In: begin  the place of the first of them."""
        lists = pc.split_pattern(texts, "\n")
        lines, whose = lists.flatten(), pc.list_parent_indices(lists).to_numpy()
        number = np.arange(len(lines)) - (np.cumsum(counts := _lengths(lists)) - counts)[whose]
        filled = marks_of(pc.not_equal(pc.ascii_trim(lines, BLANKS), ""))
        lines, whose, number = lines.filter(pa.array(filled)), whose[filled], number[filled]
        of_lines = Reasons(len(lines))
        structs = read_objects(lines.cast(pa.binary()), self._objects, self._what, self._ddl, of_lines)
        words = of_lines.as_column()
        for row in np.flatnonzero(of_lines.dead).tolist():
            said = words[row].as_py().removeprefix(f"malformed {self._what}: ")
            reasons.add_one(
                begin + int(whose[row]), f"malformed {self._what}: line {number[row] + 1}: {said}"
            )
        ends = np.concatenate([[0], np.cumsum(np.bincount(whose, minlength=len(texts)))])
        null = pa.array(~_valid(texts))
        found = pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), structs, type=self._type.field(0).type, mask=null
        )
        return pa.StructArray.from_arrays([found], fields=list(self._type), mask=null)


def _line_counts(texts: pa.Array) -> np.ndarray:
    """How many lines each text has."""
    newlines = pc.count_substring(texts, "\n").fill_null(0).to_numpy(zero_copy_only=False)
    last = pc.and_(pc.not_equal(texts, ""), pc.invert(pc.ends_with(texts, "\n"))).fill_null(False)
    found: np.ndarray = newlines + last.to_numpy(zero_copy_only=False)
    return found


def _valid(column: pa.Array) -> np.ndarray:
    found: np.ndarray = column.is_valid().to_numpy(zero_copy_only=False)
    return found


def _lengths(lists: pa.ListArray) -> np.ndarray:
    found: np.ndarray = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return found


def read_objects(
    raw: pa.Array, reader: ObjectReader, what: str, ddl: str, reasons: Reasons
) -> pa.StructArray:
    """Bytes that are one object each as structs; null where there are none, and where they are malformed."""
    parts = [_read_chunk(chunk, reader) for chunk in _in_chunks(raw)]
    begin = 0
    for part in parts:
        size = len(part.structs)
        for marks, why in ((part.not_utf8, NOT_UTF8), (part.no_object, NOT_AN_OBJECT)):
            if marks is not None:
                reasons.add_from(begin, marks, f"malformed {what}: {why}")
        for row, problem in part.malformed.items():
            reasons.add_one(begin + row, f"malformed {what}: {_worded(problem, ddl)}")
        begin += size
    if len(parts) == 1:
        return parts[0].structs
    return pa.concat_arrays([part.structs for part in parts])


def _worded(why: Malformed, ddl: str) -> str:
    declared = ddl if why.why == DOES_NOT_FIT else ""
    return f"{why.why}{declared}" + (f" ({why.detail})" if why.detail else "")


@dataclass(frozen=True)
class _Read:
    structs: pa.StructArray
    not_utf8: np.ndarray | None
    no_object: np.ndarray | None
    malformed: Mapping[int, Malformed]


def _read_chunk(raw: pa.Array, reader: ObjectReader) -> _Read:
    texts, not_utf8 = texts_of(raw)
    if not texts.null_count and _are_objects(texts):
        found = reader.read(texts)
        return _Read(found.structs, None, None, found.malformed)
    trimmed = pc.ascii_trim(texts, BLANKS)
    looks = pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))
    objects = marks_of(looks)
    rows = np.flatnonzero(objects)
    found = reader.read(texts.take(pa.array(rows)))
    place = np.cumsum(objects) - 1
    structs = found.structs.take(pa.array(place, mask=~objects))
    malformed = {int(rows[row]): why for row, why in found.malformed.items()}
    return _Read(structs, not_utf8, marks_of(pc.invert(looks)), malformed)


def _in_chunks(raw: pa.Array) -> Iterator[pa.Array]:
    """Records in stretches of neighbours, none of them large; one at least, which may be empty."""
    ends = (
        np.frombuffer(raw.buffers()[1], np.int32)[raw.offset : raw.offset + len(raw) + 1]
        if len(raw)
        else np.zeros(1)
    )
    begin = 0
    while True:
        end = max(begin + 1, int(np.searchsorted(ends, ends[begin] + BYTES_MAX, side="right")) - 1)
        end = min(end, begin + ROWS_MAX, len(raw))
        yield raw.slice(begin, end - begin)
        if end == len(raw):
            return
        begin = end


def texts_of(raw: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Bytes as text, null where they are not UTF-8; and where that is."""
    try:
        return raw.cast(pa.string()), np.zeros(len(raw), bool)
    except pa.ArrowInvalid:
        bad = np.zeros(len(raw), bool)
        for row in _beyond_ascii(raw).tolist():
            bad[row] = not _is_utf8(raw[row].as_py())
        return pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), raw).cast(pa.string()), bad


def _beyond_ascii(raw: pa.Array) -> np.ndarray:
    """The rows with a byte that is not ASCII."""
    ends, letters = letters_of(raw)
    rows = np.unique(np.searchsorted(ends, np.flatnonzero(letters >= 0x80), side="right") - 1)
    found: np.ndarray = rows[raw.is_valid().to_numpy(zero_copy_only=False)[rows]]
    return found


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _are_objects(texts: pa.Array) -> bool:
    return pc.all(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))).as_py() is not False
