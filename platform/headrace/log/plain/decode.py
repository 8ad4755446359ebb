"""Type plain keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

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


class OddError(Exception):
    """Something is not plain: Spark's expressions have to decide."""


def utf8(raw: pa.Array) -> pa.Array:
    """Bytes as text.

    Raises: OddError for what is not UTF-8
    """
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise OddError("not UTF-8") from error


def parse_objects(raw: pa.Array, fields: Sequence[pa.Field]) -> pa.StructArray:
    """JSON objects as structs of these fields; null where there is none.

    In:     raw  BINARY, one row per record
    Raises: OddError when one is not exactly one JSON object, or a field of it is not what is declared
    """
    text = utf8(raw.drop_null() if raw.null_count else raw)
    _require_objects(text)
    lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(text)], pa.int32()), text), "\n")
    table = _read(lines[0].as_buffer(), pa.schema(fields)) if len(text) else pa.schema(fields).empty_table()
    # One line never leads to less than one row: where a line holds two objects there are more rows than lines.
    if table.num_rows != len(text):
        raise OddError("more than one JSON object")
    columns = [_one_chunk(table.column(field.name)) for field in fields]
    for column in columns:
        _require_no_negative_zero(column)
    found = pa.StructArray.from_arrays(columns, fields=list(fields))
    if not raw.null_count:
        return found
    there = np.asarray(raw.is_valid())
    return found.take(pa.array(np.cumsum(there) - 1, pa.int64(), mask=~there))


def _require_objects(text: pa.Array) -> None:
    if not len(text):
        return
    begins, ends = pc.starts_with(text, "{"), pc.ends_with(text, "}")
    if not pc.all(pc.and_(begins, ends)).as_py():
        raise OddError("not a JSON object, or blanks around it")
    sizes = pc.binary_length(text)
    longest = pc.max(sizes).as_py()
    if longest > BYTES_MAX:
        raise OddError("a long JSON object")
    if longest >= LONG_BYTES:
        long = text.filter(pc.greater_equal(sizes, LONG_BYTES))
        brackets = pc.add(pc.count_substring(long, "["), pc.count_substring(long, "{"))
        if (
            pc.max(brackets).as_py() >= BRACKETS_MAX
            or pc.any(pc.match_substring_regex(long, LONG_NUMBER)).as_py()
        ):
            raise OddError("a JSON object nested deeply, or with a long number")


def _read(text: pa.Buffer, schema: pa.Schema) -> pa.Table:
    try:
        return pyarrow.json.read_json(
            pa.BufferReader(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid as error:
        raise OddError(str(error)) from error


def _require_no_negative_zero(column: pa.Array) -> None:
    """`-0` is an integer to Jackson, and so zero; to Arrow it is a negative zero."""
    if pa.types.is_floating(column.type):
        numbers = column.fill_null(1.0).to_numpy(zero_copy_only=False)
        if np.any((numbers == 0) & np.signbit(numbers)):
            raise OddError("a negative zero")


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
