"""Event times of records: the expression that a topic's description names, over their values and headers.

Law: as Spark's functions of these names compute them, cut down to ms. A value that Spark would refuse gives null here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.event_time import (
    COALESCE,
    TO_NUMBER,
    TO_TIMESTAMP,
    UNITS,
    Arithmetic,
    EventTime,
    Field,
    Header,
    Number,
)
from headrace.expressions.arithmetic import whole_quotients
from headrace.fold.values.columns import MOMENT
from headrace.sequence.parse.scalars import micros_of
from headrace.sequence.parse.text_columns import from_texts
from headrace.sequence.readers.json_reader import texts_of
from headrace.sequence.replays.chains import in_headers

_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def event_times(of: EventTime, values: pa.StructArray, headers: pa.Array | None) -> pa.Array:
    """The event time of each record in ms since 1970; null where it has none.

    In: headers  ARRAY<STRUCT<key: STRING, value: BINARY>>; None: no record has one
    """
    found = _evaluated(of, values, headers)
    return _floor_ms(found) if pa.types.is_timestamp(found.type) else found.cast(pa.int64())


def _evaluated(of: EventTime, values: pa.StructArray, headers: pa.Array | None) -> pa.Array:
    """The values of an expression. Functions of whole numbers give ms."""
    match of:
        case Field():
            return _field(values, of.path)
        case Header():
            return _texts_of_header(headers, of.name, len(values))
        case Number():
            return pa.repeat(pa.scalar(of.value, pa.int64()), len(values))
        case Arithmetic():
            left, right = (_evaluated(each, values, headers).cast(pa.int64()) for each in (of.left, of.right))
            return _BETWEEN[of.operator](left, right)
    if of.function == COALESCE:
        return pc.coalesce(*(event_times(each, values, headers) for each in of.of))
    found = _evaluated(of.of[0], values, headers)
    if of.function == TO_TIMESTAMP:
        return _moments(found)
    if of.function == TO_NUMBER:
        return _numbers(found)
    return _scaled(found, UNITS[of.function])


_BETWEEN: Mapping[str, Callable[[pa.Array, pa.Array], pa.Array]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "DIV": whole_quotients,
}


def _texts_of_header(headers: pa.Array | None, name: str, number: int) -> pa.Array:
    """The last header of a name of each record; null where there is none, or no UTF-8."""
    if headers is None:
        return pa.nulls(number, pa.string())
    at, raw = in_headers(headers, name)
    where = np.full(number, -1)
    where[at] = np.arange(len(at))
    return texts_of(raw)[0].take(pa.array(where, mask=where < 0))


def _numbers(values: pa.Array) -> pa.Array:
    """Whole numbers as BIGINT, also as texts; null for other texts."""
    if not pa.types.is_string(values.type):
        return values.cast(pa.int64())
    texts = pc.utf8_trim_whitespace(values)
    is_number = pc.match_substring_regex(texts, "^[+-]?[0-9]{1,18}$")
    plain = pc.utf8_ltrim(pc.if_else(is_number, texts, None), "+")
    return plain.cast(pa.int64())


def _field(values: pa.StructArray, path: tuple[str, ...]) -> pa.Array:
    """A field of structs, null where one of the structs is."""
    for name in path:
        values = values.flatten()[values.type.get_field_index(name)]
    return values


def _moments(texts: pa.Array) -> pa.Array:
    """Texts as TIMESTAMP, as in a column of that type."""
    found, others = from_texts(texts, MOMENT)
    if not others.any():
        return found
    rows = np.flatnonzero(others)
    read = [micros_of(text, zoned=True) for text in texts.take(pa.array(rows)).to_pylist()]
    return pc.replace_with_mask(found, pa.array(others), pa.array(read, pa.int64()).cast(MOMENT))


def _scaled(numbers: pa.Array, unit: int) -> pa.Array:
    """Whole numbers as ms; those that no ms can stand for are as far away as can be."""
    there = numbers.is_valid().to_numpy(zero_copy_only=False)
    plain = numbers.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if unit < 0:
        return pa.array(plain // -unit, mask=~there)
    far = np.where(plain > 0, _HIGHEST, _LOWEST)
    fits = (plain <= _HIGHEST // unit) & (plain >= -(_HIGHEST // unit))
    return pa.array(np.where(fits, plain * unit, far) if not fits.all() else plain * unit, mask=~there)


def _floor_ms(times: pa.Array) -> pa.Array:
    there = times.is_valid().to_numpy(zero_copy_only=False)
    micros = times.cast(pa.int64()).fill_null(0).to_numpy()
    return pa.array(micros // 1000, mask=~there)
