"""Values as JSON texts, as Spark's `to_json` writes them: some are parts of names that are stored, so they may not change.

Whole arrays are written at once, nested ones too. Binaries, odd texts and numbers with an exponent are written one by one in
Python.
Notes: a number has the fewest digits that tell it from all others. Java before 19 writes some FLOATs, and DOUBLEs beyond
2⁵³, with more of them.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DAYS_OF_ARROW = 11_000_000  # from 1970, either way
YEARS_US = -62_167_219_200_000_000, 253_402_300_800_000_000  # 0 to 9999: of other times Arrow has no text
MOMENT_LETTERS, DAY_LETTERS = len("2020-01-01T00:00:00.000000"), len("2020-01-01")


def json_objects(columns: Mapping[str, pa.Array], *, exact: bool = False) -> pa.Array:
    """One JSON object for each row.

    In:     columns  of one length, at least one; a null is written as one
            exact    True: as it is read back as it was. Nulls in structs, microseconds and the sign of a zero are written;
                     else they are left out
    Source: Spark, JacksonGenerator
    """
    return _objects(columns, exact, nulls=True)


def json_values(values: pa.Array, *, exact: bool = False) -> pa.Array:
    """Each value as JSON; null where it is null."""
    of = values.type
    if pa.types.is_string(of) or pa.types.is_large_string(of):
        return _texts(values.cast(pa.string()))
    if pa.types.is_date(of) or pa.types.is_timestamp(of):
        return _quoted(_times(values, exact=exact))
    if pa.types.is_floating(of):
        texts = plain_texts(values if exact else pc.add(values, pa.scalar(0, of)))
        return pc.if_else(pc.is_finite(values), texts, _quoted(texts))
    if pa.types.is_binary(of) or pa.types.is_large_binary(of) or pa.types.is_fixed_size_binary(of):
        return _each(values, lambda value: f'"{base64.b64encode(value).decode()}"')
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return _joined(
            "[", _texts_of_lists(values, json_values(values.flatten(), exact=exact).fill_null("null")), "]"
        )
    if pa.types.is_map(of):
        entries = values.cast(pa.list_(pa.struct([of.key_field, of.item_field])))
        keys, items = entries.flatten().flatten()
        pairs = _joined(_names(keys, exact=exact), ":", json_values(items, exact=exact).fill_null("null"))
        return _joined("{", _texts_of_lists(entries, pairs), "}")
    if pa.types.is_struct(of):
        parts = dict(zip((field.name for field in of), values.flatten(), strict=True))
        texts = _objects(parts, exact, nulls=exact) if parts else pa.repeat("{}", len(values))
        return pc.if_else(values.is_valid(), texts, None)
    return plain_texts(values)


def plain_texts(values: pa.Array) -> pa.Array:
    """Values that are not nested as texts, as Spark casts them to STRING; null where they are null."""
    of = values.type
    if pa.types.is_floating(of):
        return _java_numbers(values)
    if pa.types.is_date(of):
        return _times(values, exact=False)
    if pa.types.is_timestamp(of):
        return pc.utf8_rtrim(pc.utf8_rtrim(_micros(values), "0"), ".")
    return values.cast(pa.string())


def _objects(columns: Mapping[str, pa.Array], exact: bool, *, nulls: bool) -> pa.Array:
    fields = []
    for name, values in columns.items():
        text = json_values(values, exact=exact)
        field = _joined(f",{_text(name)}:", text.fill_null("null") if nulls else text)
        fields.append(field.fill_null(""))
    return _joined("{", pc.utf8_slice_codeunits(_joined(*fields), 1), "}")


def _texts_of_lists(lists: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts of each list with commas between them. In: texts  of all items, one list after the other."""
    ends = np.cumsum(pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    return pc.if_else(lists.is_valid(), joined, None)


def _names(keys: pa.Array, *, exact: bool) -> pa.Array:
    """Keys of maps as names. Spark writes a date and a time as its number of them."""
    of = keys.type
    if exact and pa.types.is_date(of):
        keys = keys.cast(pa.date32()).cast(pa.int32())
    if exact and pa.types.is_timestamp(of):
        keys = keys.cast(pa.timestamp("us", of.tz)).cast(pa.int64())
    texts = json_values(keys, exact=exact)
    return pc.if_else(pc.starts_with(texts, '"'), texts, _texts(texts))


def _texts(values: pa.Array) -> pa.Array:
    odd = pc.fill_null(pc.match_substring_regex(values, r'[\x00-\x1f"\\]'), False)
    if not pc.any(odd, min_count=0).as_py():
        return _quoted(values)
    which = np.flatnonzero(odd.to_numpy(zero_copy_only=False))
    written = pa.array([_text(value) for value in values.take(pa.array(which)).to_pylist()], pa.string())
    return pc.replace_with_mask(_quoted(values), odd, written)


def _quoted(values: pa.Array) -> pa.Array:
    return _joined('"', values, '"')


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _each(values: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else write(value) for value in values.to_pylist()], pa.string())


def _text(value: str) -> str:
    """Jackson writes other control characters with capital letters."""
    text = json.dumps(value, ensure_ascii=False)
    for code in range(0x0A, 0x20):
        text = text.replace(f"\\u{code:04x}", f"\\u{code:04X}")
    return text


def _times(values: pa.Array, *, exact: bool) -> pa.Array:
    of = values.type
    if pa.types.is_date(of):
        return _days(values.cast(pa.date32()))
    texts = pc.replace_substring(_micros(values), " ", "T")
    if not exact:
        texts = pc.utf8_slice_codeunits(texts, 0, -3)
    return _joined(texts, "Z") if of.tz else texts


def _days(values: pa.Array) -> pa.Array:
    """Arrow has no texts of years beyond 32767."""
    plain = values.cast(pa.int32())
    if all(each is None or abs(each) < DAYS_OF_ARROW for each in pc.min_max(plain).as_py().values()):
        return _signed(values.cast(pa.string()), DAY_LETTERS)
    days = plain.fill_null(0).to_numpy(zero_copy_only=False).astype("datetime64[D]")
    texts = pa.array(np.datetime_as_string(days), pa.string())
    return pc.if_else(values.is_valid(), _signed(texts, DAY_LETTERS), None)


def _micros(values: pa.Array) -> pa.Array:
    """Times to the microsecond, with a space before the hour."""
    plain = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    if all(each is None or YEARS_US[0] <= each < YEARS_US[1] for each in pc.min_max(plain).as_py().values()):
        return plain.cast(pa.timestamp("us")).cast(pa.string())
    moments = plain.fill_null(0).to_numpy(zero_copy_only=False).view("datetime64[us]")
    texts = pc.replace_substring(pa.array(np.datetime_as_string(moments), pa.string()), "T", " ")
    return pc.if_else(values.is_valid(), _signed(texts, MOMENT_LETTERS), None)


def _signed(texts: pa.Array, letters: int) -> pa.Array:
    """A year beyond 9999 has a sign, and one before 0 four digits. In: letters  of a text with a year of four digits."""
    odd = pc.or_(pc.starts_with(texts, "-"), pc.greater(pc.utf8_length(texts), letters))
    if not pc.any(odd, min_count=0).as_py():
        return texts
    texts = pc.replace_substring_regex(texts, r"^-(\d{3})-", r"-0\1-")
    return pc.replace_substring_regex(texts, r"^(\d{5,})", r"+\1")


def _java_numbers(values: pa.Array) -> pa.Array:
    """Numbers as Java writes them: at least one decimal; below 10⁻³, and from 10⁷ on, with an exponent."""
    size = pc.abs(values)
    plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    texts = values.cast(pa.string())
    texts = pc.if_else(pc.match_substring(texts, "."), texts, _joined(texts, ".0"))
    odd = pc.fill_null(pc.invert(plain), False)
    if not pc.any(odd, min_count=0).as_py():
        return texts
    written = _each(values.filter(odd), lambda value: _with_exponent(value, values.type))
    return pc.replace_with_mask(texts, odd, written)


def _with_exponent(value: float, of: pa.DataType) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    shortest = Decimal(str(np.float32(value)) if of.bit_width == 32 else repr(value))
    sign, digits, exponent = shortest.normalize().as_tuple()
    assert isinstance(exponent, int)
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{rest}E{len(digits) + exponent - 1}"
