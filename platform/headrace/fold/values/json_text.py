"""Values as JSON texts, as Spark's `to_json` writes them: they are parts of names that are stored, so they may not change.

Columns of texts, whole numbers, BOOLEAN, DECIMAL, dates and times are written as a whole. Floats, binaries and nested
values are written one by one in Python: as group columns they are rare.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MILLISECONDS = pa.timestamp("ms")


def json_objects(columns: Mapping[str, pa.Array]) -> pa.Array:
    """One JSON object for each row.

    In:     columns  of one length, at least one; a null is written as one
    Source: Spark, JacksonGenerator
    """
    parts: list[pa.Array | str] = []
    for name, values in columns.items():
        parts += [f"{',' if parts else '{'}{_text(name)}:", json_values(values).fill_null("null")]
    return pc.binary_join_element_wise(*parts, "}", "")


def json_values(values: pa.Array) -> pa.Array:
    """Each value as JSON; null where it is null."""
    of = values.type
    if pa.types.is_string(of) or pa.types.is_large_string(of):
        return _texts(values.cast(pa.string()))
    if pa.types.is_integer(of) or pa.types.is_boolean(of) or pa.types.is_decimal(of):
        return values.cast(pa.string())
    if pa.types.is_date(of):
        return _quoted(values.cast(pa.date32()).cast(pa.string()))
    if pa.types.is_timestamp(of):
        zone = "Z" if of.tz else ""
        plain = pc.floor_temporal(values, unit="millisecond")
        plain = plain.cast(pa.timestamp("ms", of.tz)).cast(pa.int64()).cast(MILLISECONDS)
        return _quoted(pc.strftime(plain, format=f"%Y-%m-%dT%H:%M:%S{zone}"))
    return pa.array([None if v is None else _value(v, of) for v in values.to_pylist()], pa.string())


def _texts(values: pa.Array) -> pa.Array:
    odd = pc.fill_null(pc.match_substring_regex(values, r'[\x00-\x1f"\\]'), False)
    if not pc.any(odd, min_count=0).as_py():
        return _quoted(values)
    which = np.flatnonzero(odd.to_numpy(zero_copy_only=False))
    written = pa.array([_text(value) for value in values.take(pa.array(which)).to_pylist()], pa.string())
    return pc.replace_with_mask(_quoted(values), odd, written)


def _quoted(values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', values, '"', "")


def _text(value: str) -> str:
    """Jackson writes other control characters with capital letters."""
    text = json.dumps(value, ensure_ascii=False)
    for code in range(0x0A, 0x20):
        text = text.replace(f"\\u{code:04x}", f"\\u{code:04X}")
    return text


def _value(value: Any, of: pa.DataType) -> str:
    if value is None:
        return "null"
    if pa.types.is_binary(of) or pa.types.is_large_binary(of) or pa.types.is_fixed_size_binary(of):
        return f'"{base64.b64encode(value).decode()}"'
    if pa.types.is_floating(of):
        return _java_number(value, of)
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return f"[{','.join(_value(each, of.value_type) for each in value)}]"
    if pa.types.is_struct(of):
        there = ((field, value[field.name]) for field in of if value[field.name] is not None)
        return f"{{{','.join(f'{_text(field.name)}:{_value(each, field.type)}' for field, each in there)}}}"
    if pa.types.is_map(of):
        names = (
            _text(key) if isinstance(key, str) else _in_quotes(_value(key, of.key_type)) for key, _ in value
        )
        items = (_value(each, of.item_type) for _, each in value)
        return f"{{{','.join(f'{name}:{item}' for name, item in zip(names, items, strict=True))}}}"
    return str(json_values(pa.array([value], of))[0].as_py())


def _in_quotes(text: str) -> str:
    return text if text.startswith('"') else _text(text)


def _java_number(value: float, of: pa.DataType) -> str:
    """A number as Java's Double.toString writes it: the fewest digits that tell it from all others, at least one decimal."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'
    shortest = Decimal(str(np.float32(value)) if of.bit_width == 32 else repr(value))
    sign, digits, exponent = shortest.normalize().as_tuple()
    assert isinstance(exponent, int)
    if value == 0:
        return "0.0"
    scale = len(digits) + exponent - 1
    if -3 <= scale < 7:
        plain = f"{abs(shortest):f}"
        return f"{'-' * sign}{plain if '.' in plain else plain + '.0'}"
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{rest}E{scale}"
