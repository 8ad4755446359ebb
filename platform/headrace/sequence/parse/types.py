"""Types of columns as Arrow's: as the log holds them, and as Arrow's JSON reader is told to read them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from headrace.description import Column
from headrace.description.arrow_types import arrow_type

DIGITS_MAX, DIGITS_MAX_256 = 38, 76  # of numbers of 128 and 256 bits
DECIMALS = 20  # of decimals that are read to be rounded


def fields_of(columns: Iterable[Column]) -> list[pa.Field]:
    """Columns as Arrow fields; all may be null, as `decode` says which records lack what they must have."""
    return [pa.field(column.name, arrow_type(column.type)) for column in columns]


def read_as(of: pa.DataType, *, rounded: bool = False) -> pa.DataType:
    """The type as which Arrow's JSON reader reads a type: dates, times and bytes are texts in JSON.

    In: rounded  decimals have more decimals than they need
    """
    if pa.types.is_struct(of):
        return pa.struct([pa.field(field.name, read_as(field.type, rounded=rounded)) for field in of])
    if pa.types.is_list(of):
        return pa.list_(read_as(of.value_type, rounded=rounded))
    if pa.types.is_map(of):  # see `map_texts`
        key, value = (read_as(inner, rounded=rounded) for inner in (of.key_type, of.item_type))
        return pa.list_(pa.struct([("k", key), ("v", value)]))
    if pa.types.is_decimal(of):
        # Arrow multiplies without looking at an overflow: there have to be digits for all decimals, too.
        if rounded and of.scale < DECIMALS:
            return pa.decimal256(DIGITS_MAX_256 - DECIMALS, DECIMALS)
        return of if of.precision + of.scale <= DIGITS_MAX else pa.decimal256(of.precision, of.scale)
    return pa.string() if is_written_as_text(of) else of


def is_written_as_text(of: pa.DataType) -> bool:
    """Whether JSON writes values of a type as texts that have to be read."""
    return bool(pa.types.is_temporal(of) or pa.types.is_binary(of))


def has_maps(of: pa.DataType) -> bool:
    """Whether a MAP stands somewhere in a type."""
    if pa.types.is_map(of):
        return True
    return any(has_maps(inner) for inner in _inner(of))


def has_maps_by_others(of: pa.DataType) -> bool:
    """Whether a MAP with keys that are no texts stands somewhere in a type."""
    if pa.types.is_map(of) and not pa.types.is_string(of.key_type):
        return True
    return any(has_maps_by_others(inner) for inner in _inner(of))


def _inner(of: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(of):
        return [of.key_type, of.item_type]
    return [of.field(number).type for number in range(of.num_fields)] if pa.types.is_nested(of) else []
