"""How long rows are as JSON, as Spark's `to_json` writes them: fields that are null are left out.

Lengths of numbers, times, binaries and nested values are computed without writing them; the text itself is `json_text`'s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.values.json_text import json_values

MOMENT_BYTES = len('"2020-01-01T00:00:00.000"')  # the zone, if there is one, is one letter more
PLAIN_FROM, PLAIN_BELOW = -3, 7  # decimal exponents of numbers that Java writes without one


def json_size(columns: Mapping[str, pa.Array]) -> np.ndarray:
    """The bytes of one JSON object for each row. In: columns  of one length, at least one."""
    rows = len(next(iter(columns.values())))
    size, fields = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    for name, values in columns.items():
        there = values.is_valid().to_numpy(zero_copy_only=False)
        label = len(json.dumps(name, ensure_ascii=False).encode()) + 1
        size += np.where(there, _lengths(values) + label, 0)
        fields += there
    found: np.ndarray = size + np.maximum(fields - 1, 0) + 2
    return found


def _lengths(values: pa.Array) -> np.ndarray:
    of = values.type
    if pa.types.is_timestamp(of):
        return np.full(len(values), MOMENT_BYTES + bool(of.tz))
    if pa.types.is_floating(of):
        return _float_lengths(values)
    if pa.types.is_binary(of) or pa.types.is_large_binary(of):
        return (_bytes(values) + 2) // 3 * 4 + 2  # base64
    if pa.types.is_struct(of) and of.num_fields:
        return json_size({each.name: part for each, part in zip(of, values.flatten(), strict=True)})
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return _lengths_of_lists(values, _lengths_or_null(values.flatten()))
    if pa.types.is_map(of) and pa.types.is_string(of.key_type):
        entries = values.cast(pa.list_(pa.struct([of.key_field, of.item_field])))
        keys, items = entries.flatten().flatten()
        return _lengths_of_lists(entries, _lengths(keys) + 1 + _lengths_or_null(items))
    return _bytes(json_values(values).cast(pa.string()))


def _lengths_or_null(values: pa.Array) -> np.ndarray:
    """The same; a null among items is written."""
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), _lengths(values), len("null"))


def _lengths_of_lists(lists: pa.Array, items: np.ndarray) -> np.ndarray:
    """In: items  the lengths of all, one list after the other."""
    number = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    through, ends = np.concatenate([[0], np.cumsum(items)]), np.cumsum(number)
    return np.asarray(through[ends] - through[ends - number] + np.maximum(number - 1, 0) + 2)


def _float_lengths(values: pa.Array) -> np.ndarray:
    """The lengths of numbers as Java writes them: the fewest digits that tell one from all others, at least one decimal."""
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    finite = np.isfinite(numbers)
    size = np.where(finite, np.abs(numbers), 0)
    digits = np.maximum(_significant_digits(values), 1)
    with np.errstate(over="ignore"):  # a FLOAT knows fewer powers
        powers = np.array([f"1e{each}" for each in range(-324, 309)]).astype(np.float64).astype(size.dtype)
    exponent = np.searchsorted(powers, size, side="right") - 325
    plain = (exponent >= PLAIN_FROM) & (exponent < PLAIN_BELOW)
    whole = np.maximum(exponent, 0) + 1
    decimals = np.where(exponent >= 0, np.maximum(digits - whole, 1), digits - exponent - 1)
    as_power = 3 + np.maximum(digits - 1, 1) + _number_length(exponent)
    length = np.where(plain, whole + 1 + decimals, as_power)
    length = np.where(size == 0, len("0.0"), length) + (finite & (numbers < 0))
    named = np.where(
        np.isnan(numbers), len('"NaN"'), np.where(numbers < 0, len('"-Infinity"'), len('"Infinity"'))
    )
    return np.asarray(np.where(finite, length, named))


def _significant_digits(values: pa.Array) -> np.ndarray:
    text = pc.replace_substring_regex(values.cast(pa.string()), "e.*$", "")
    text = pc.replace_substring(pc.replace_substring(text, "-", ""), ".", "")
    return _bytes(pc.utf8_trim(text, "0"))


def _number_length(numbers: np.ndarray) -> np.ndarray:
    size = np.abs(numbers)
    return np.asarray(1 + (size >= 10) + (size >= 100) + (numbers < 0))


def _bytes(texts: pa.Array) -> np.ndarray:
    return np.asarray(pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
