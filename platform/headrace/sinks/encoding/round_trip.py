"""The way back of encoded rows: what Headrace's own reader reads of the bytes is compared with the rows.

Law: a row passes only if what is read of its bytes is the row, column by column. A column whose values could hardly ever
come back is refused before anything is written (`why_not`); what depends on the value is refused row by row (`problems`).
In both numbers compare by their value, whatever the width of their type, and a null is a null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import TerminalError
from headrace.fold.values.encode import encode
from headrace.sequence.decode import plain_reader
from headrace.sequence.encodings import PlainEncoding
from headrace.sequence.reasons import Reasons

SHOWN_MAX = 80  # letters of a value


def require_fit(columns: pa.Schema, read: Callable[[str], pa.DataType], schema: str, what: str) -> pa.Schema:
    """The columns with the types as which they are read.

    In:     read    the type of the field of a name; schema: what says so, in words
    Raises: TerminalError when the values of a column cannot come back
    """
    found = pa.schema([(column.name, read(column.name)) for column in columns])
    for column, field in zip(columns, found, strict=True):
        if why := why_not(column.type, field.type, column.name):
            raise TerminalError(
                f"{what}: column '{column.name}' does not fit the {schema}: {why}.",
                hint=f"Change its type in a step: .with_column('{column.name}', …).",
            )
    return found


def why_not(column: pa.DataType, read: pa.DataType, path: str) -> str:
    """Why the values of a column cannot come back; empty: they can, or it depends on the value.

    In: read  the type as which they are read
    """
    if pa.types.is_struct(column) and pa.types.is_struct(read):
        types = {field.name: field.type for field in read}
        for field in column:
            inner = f"{path}.{field.name}"
            if field.name not in types:
                return f"{inner} has no field there"
            if why := why_not(field.type, types[field.name], inner):
                return why
        return ""
    if pa.types.is_map(column) and pa.types.is_map(read):
        return why_not(column.key_type, read.key_type, f"keys of {path}") or why_not(
            column.item_type, read.item_type, f"{path}{{}}"
        )
    if pa.types.is_list(column) and pa.types.is_list(read):
        return why_not(column.value_type, read.value_type, f"{path}[]")
    if column == read or any(both(column) and both(read) for both in _KINDS) or _widened(column, read):
        return ""
    return f"{path} is {column}, and would be read as {read}"


# Within a kind it depends on the value.
_KINDS: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_integer,
    pa.types.is_decimal,
    lambda of: pa.types.is_timestamp(of) and of.tz is not None,
    lambda of: pa.types.is_timestamp(of) and of.tz is None,
)


def _widened(column: pa.DataType, read: pa.DataType) -> bool:
    if pa.types.is_decimal(read):
        return bool(pa.types.is_integer(column))
    return bool(pa.types.is_float64(read) and (pa.types.is_integer(column) or pa.types.is_float32(column)))


@dataclass(frozen=True)
class RoundTrip:
    """Reads bytes back and compares. It goes to tasks.

    encoding    how the bytes are written, without what stands before them for a registry
    read        the columns with the types as which they are read
    json_texts  whether a STRING may hold JSON that comes back in another form
    """

    encoding: PlainEncoding
    read: pa.Schema
    json_texts: bool = False

    def problems(self, structs: pa.StructArray, contents: pa.Array) -> list[str | None]:
        """For each row why it does not come back; None: it does, or it has no bytes."""
        reasons = Reasons(len(contents))
        reader = plain_reader("value", list(self.read), "", self.encoding)
        parts = dict(zip(self.read.names, reader(contents, reasons).structs.flatten(), strict=True))
        found: list[str | None] = reasons.as_column().to_pylist()
        there = contents.is_valid().to_numpy(zero_copy_only=False)
        for field, own in zip(structs.type, structs.flatten(), strict=True):
            for row in np.flatnonzero(self._differ(own, parts[field.name]) & there).tolist():
                found[row] = (
                    found[row] or f"column '{field.name}' would be read as {_shown(parts[field.name][row])}"
                )
        return [None if why is None else f"it does not come back from its format: {why}" for why in found]

    def _differ(self, own: pa.Array, read: pa.Array) -> np.ndarray:
        back, odd = _as(read, own.type)
        differs: np.ndarray = pc.not_equal(encode(own), encode(back)).to_numpy(zero_copy_only=False) | odd
        if self.json_texts:
            for row in np.flatnonzero(differs & ~odd).tolist():
                differs[row] = not _same(own[row].as_py(), back[row].as_py())
        return differs


def _as(values: pa.Array, of: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """Values as another type, and which of them are none of that type: there stands null."""
    if values.type == of:
        return values, np.zeros(len(values), bool)
    try:
        return values.cast(of), np.zeros(len(values), bool)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.nulls(1, of), np.ones(1, bool)
    rows, half = np.arange(len(values)), len(values) // 2
    # A slice has the entries of the whole map with it, and they are cast, too.
    parts = [_as(values.take(pa.array(part)), of) for part in (rows[:half], rows[half:])]
    return pa.concat_arrays([part for part, _ in parts]), np.concatenate([odd for _, odd in parts])


def _same(one: Any, other: Any) -> bool:
    """True if two values are equal, texts of JSON by what they say."""
    if isinstance(one, str) and isinstance(other, str):
        with suppress(ValueError):
            return bool(json.loads(one) == json.loads(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str | bytes):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _shown(value: pa.Scalar) -> str:
    with suppress(ValueError, OverflowError):  # Python has no time beyond the year 9999
        return repr(value.as_py())[:SHOWN_MAX]
    return str(value)[:SHOWN_MAX]
