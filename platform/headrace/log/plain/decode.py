"""Read JSON objects by Arrow's parser: what they hold, or why they are malformed where that is certain."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from headrace.log.decode import BLANKS, DOES_NOT_FIT, MORE_THAN_ONE, NOT_AN_OBJECT, NOT_UTF8

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What both parsers read alike. Of other types Spark forgives what Arrow does not, or reads it otherwise.
TYPES: Mapping[str, pa.DataType] = {
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
}
# Jackson, Spark's parser, refuses deeper nesting, longer numbers and longer names than these.
LONG_BYTES, BRACKETS_MAX, BYTES_MAX = 1_000, 1_000, 50_000
LONG_NUMBER = "[-+.eE0-9]{1000}"
# What it forgives or reads otherwise than Python: single quotes, names of what is no number, halves of surrogates.
UNCERTAIN = ("'", "NaN", "INF", "Inf", "\\u", "\ufeff")
MALFORMED_MAX = 250  # of a chunk: they are looked for by halving it, beyond that Spark is sooner done


class OddError(Exception):
    """Something is not plain: Spark's expressions have to decide."""


@dataclass(frozen=True)
class Objects:
    """What was read, one row per record.

    structs    null where there is no text, and where it is malformed
    malformed  why, by row: how the reasons of `headrace.log.decode` end
    """

    structs: pa.StructArray
    malformed: Mapping[int, str]


def read_texts(raw: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Bytes as text, null where they are not UTF-8; and where that is."""
    try:
        return raw.cast(pa.string()), {}
    except pa.ArrowInvalid:
        texts = [_text(value) for value in raw.to_pylist()]
        there = raw.is_valid().to_pylist()
        bad = {row: NOT_UTF8 for row, text in enumerate(texts) if text is None and there[row]}
        return pa.array(texts, pa.string()), bad


def read_objects(raw: pa.Array, fields: Sequence[pa.Field]) -> Objects:
    """JSON objects as structs of these fields.

    In:     raw  BINARY, one row per record
    Raises: OddError when it is not certain what Spark would read
    """
    texts, malformed = read_texts(raw)
    if not texts.null_count and _are_objects(texts):
        rows = None  # all of them
    else:
        trimmed = pc.ascii_trim(texts, BLANKS)
        looks = pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))
        malformed |= dict.fromkeys(np.flatnonzero(pc.invert(looks).fill_null(False)).tolist(), NOT_AN_OBJECT)
        rows = np.flatnonzero(looks.fill_null(False))
        texts = texts.take(pa.array(rows))
    _require_ordinary(texts)
    structs, misfits = _parse_or_halve(texts, fields)
    if rows is None and not misfits:
        return Objects(structs, malformed)
    rows = np.arange(len(raw)) if rows is None else rows
    malformed |= {int(rows[row]): why for row, why in misfits.items()}
    taken = np.delete(rows, list(misfits))
    place = np.full(len(raw), -1)
    place[taken] = np.arange(len(taken))
    return Objects(structs.take(pa.array(place, mask=place < 0)), malformed)


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _are_objects(texts: pa.Array) -> bool:
    return pc.all(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))).as_py() is not False


def _require_ordinary(texts: pa.Array) -> None:
    sizes = pc.binary_length(texts)
    longest = pc.max(sizes).as_py() or 0
    if longest > BYTES_MAX:
        raise OddError("a long JSON object")
    if longest >= LONG_BYTES:
        long = texts.filter(pc.greater_equal(sizes, LONG_BYTES))
        brackets = pc.add(pc.count_substring(long, "["), pc.count_substring(long, "{"))
        if (
            pc.max(brackets).as_py() >= BRACKETS_MAX
            or pc.any(pc.match_substring_regex(long, LONG_NUMBER)).as_py()
        ):
            raise OddError("a JSON object nested deeply, or with a long number")


def _parse_or_halve(texts: pa.Array, fields: Sequence[pa.Field]) -> tuple[pa.StructArray, dict[int, str]]:
    """The structs of texts that are not malformed, and why the others are, by row."""
    parts: list[pa.StructArray] = []
    malformed: dict[int, str] = {}
    waiting = [(0, len(texts))]
    while waiting:
        begin, end = waiting.pop()
        part = _parsed(texts[begin:end], fields)
        if part is not None:
            parts.append(part)
        elif end - begin == 1:
            malformed[begin] = why_malformed(texts[begin].as_py(), fields)
            if len(malformed) > MALFORMED_MAX:
                raise OddError("many malformed JSON objects")
        else:
            middle = (begin + end) // 2
            waiting += [(middle, end), (begin, middle)]
    empty = pa.array([], pa.struct(list(fields)))
    return pa.concat_arrays(parts) if parts else empty, malformed


def _parsed(texts: pa.Array, fields: Sequence[pa.Field]) -> pa.StructArray | None:
    """Texts as structs; None: not each of them is one object that fits."""
    if not len(texts):
        return pa.array([], pa.struct(list(fields)))
    lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")
    buffer = lines[0].as_buffer()
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(buffer),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=buffer.size + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    # One line never leads to less than one row: where a line holds two objects there are more rows than lines.
    if table.num_rows != len(texts):
        return None
    columns = [_one_chunk(table.column(field.name)) for field in fields]
    for column in columns:
        _require_no_negative_zero(column)
    return pa.StructArray.from_arrays(columns, fields=list(fields))


def _require_no_negative_zero(column: pa.Array) -> None:
    """`-0` is an integer to Jackson, and so zero; to Arrow it is a negative zero."""
    if pa.types.is_floating(column.type):
        numbers = column.fill_null(1.0).to_numpy(zero_copy_only=False)
        if np.any((numbers == 0) & np.signbit(numbers)):
            raise OddError("a negative zero")


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


class _Fraction(float):
    """A number that is written with a point or an exponent."""


_PARSER = json.JSONDecoder(object_pairs_hook=tuple, parse_float=_Fraction)


def why_malformed(text: str, fields: Sequence[pa.Field]) -> str:
    """Why Spark does not take a text that begins and ends as an object does.

    Raises: OddError when it may well take it
    """
    if any(mark in text for mark in UNCERTAIN):
        raise OddError("JSON that Spark may forgive")
    text = text.strip(BLANKS)
    try:
        found, end = _PARSER.raw_decode(text)
    except (ValueError, RecursionError):
        return DOES_NOT_FIT
    if max(Counter(name for name, _ in found).values(), default=0) > 1:
        raise OddError("a field that occurs twice")
    types = {field.name: field.type for field in fields}
    if any(name in types and not _fits(value, types[name]) for name, value in found):
        return DOES_NOT_FIT
    if end < len(text):
        return MORE_THAN_ONE
    raise OddError("JSON that Spark may read")


def _fits(value: Any, wanted: pa.DataType) -> bool:
    """Raises: OddError when Spark may convert it."""
    if value is None:
        return True
    if pa.types.is_string(wanted):
        if not isinstance(value, str):
            raise OddError("a text that is none")
        return True
    if pa.types.is_boolean(wanted):
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if pa.types.is_integer(wanted):
        top = 1 << (wanted.bit_width - 1)
        return not isinstance(value, float) and -top <= value < top
    return True
