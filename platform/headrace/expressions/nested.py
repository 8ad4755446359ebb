"""Fields of structs and elements of arrays and maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.casts import cast
from headrace.expressions.logic import equal
from headrace.expressions.term import Datum, Term, lifted, literal, on_arrays
from headrace.expressions.types import (
    BINARY,
    BOOLEAN,
    INT,
    NULL,
    STRING,
    is_atomic,
    is_integral,
    list_of,
    widest,
)


def field_of(term: Term, name: str) -> Term | None:
    """`term.name`: the field of a struct, without regard to case; of an array of structs the array of its fields.

    In a map whose keys are texts, the name is a key.
    """
    of = term.type
    if pa.types.is_map(of) and of.key_type == STRING:
        return _of_key(term, literal(name, STRING))
    is_array = pa.types.is_list(of) and pa.types.is_struct(of.value_type)
    struct = of.value_type if is_array else of
    if not pa.types.is_struct(struct):
        return None
    places = [
        number for number in range(struct.num_fields) if struct.field(number).name.lower() == name.lower()
    ]
    if len(places) != 1:
        return None
    place = places[0]
    of_field = struct.field(place).type
    if is_array:
        return Term(list_of(of_field))
    return on_arrays(of_field, lambda value: pc.struct_field(value, place), term)


def struct_of(names: Sequence[str], terms: Sequence[Term]) -> Term | None:
    """`struct(…)` and `named_struct(…)`."""
    fields = [pa.field(name, term.type) for name, term in zip(names, terms, strict=True)]
    return on_arrays(
        pa.struct(fields), lambda *values: pa.StructArray.from_arrays(values, fields=fields), *terms
    )


def array_of_terms(terms: Sequence[Term], common: pa.DataType | None) -> Term | None:
    """`array(…)`."""
    if common is None or common == NULL:
        return None
    of, each = list_of(common), [cast(term, common) for term in terms]
    elements = [term for term in each if term is not None]
    if len(elements) < len(terms):
        return Term(of)
    return on_arrays(of, lambda *values: _row_by_row(values, of), *elements)


def _row_by_row(columns: Sequence[pa.Array], of: pa.ListType) -> pa.Array:
    rows, number = len(columns[0]), len(columns)
    places = np.arange(number)[None, :] * rows + np.arange(rows)[:, None]
    elements = pa.concat_arrays(columns).take(pa.array(places.ravel(), pa.int64()))
    ends = pa.array(np.arange(0, rows * number + 1, number), pa.int32())
    return pa.ListArray.from_arrays(ends, elements, type=of)


def contains(array: Term, value: Term) -> Term:
    """`array_contains(array, value)`: null if it is not there and an element is null."""
    of = array.type
    if not pa.types.is_list(of) or not is_atomic(of.value_type) or of.value_type == BINARY:
        return Term(BOOLEAN)
    common = widest([of.value_type, value.type], texts=False)
    wanted = cast(value, of.value_type) if common == of.value_type else None
    return Term(BOOLEAN) if wanted is None else on_arrays(BOOLEAN, _contains, array, wanted)


def _contains(array: pa.Array, value: pa.Array) -> pa.Array:
    rows = pc.list_parent_indices(array)
    same = equal(pc.list_flatten(array), value.take(rows))
    row_of, number = np.asarray(rows), len(array)
    is_there = np.bincount(row_of[np.asarray(same.fill_null(False))], minlength=number) > 0
    is_open = np.bincount(row_of[np.asarray(same.is_null())], minlength=number) > 0
    unknown = np.asarray(pc.or_(array.is_null(), value.is_null())) | (is_open & ~is_there)
    return pa.array(is_there, mask=unknown)


def element(term: Term, index: Term, *, offset: int) -> Term | None:
    """`term[index]`: null where there is none; of a struct its field. In: offset  the first index of an array, 0 or 1."""
    of = term.type
    if offset == 0 and index.type == STRING and index.is_constant and not pa.types.is_map(of):
        field = field_of(term, str(index.constant))
        return None if field is None else Term(field.type)
    if pa.types.is_map(of):
        return _of_key(term, index)
    if not pa.types.is_list(of) or not is_integral(index.type):
        return None
    known = offset == 0 and index.is_constant and isinstance(index.constant, int) and index.constant >= 0
    if not known:
        return Term(of.value_type)
    wanted = index.constant
    return on_arrays(of.value_type, lambda value: _element(value, wanted), term)


def _element(value: pa.Array, wanted: int) -> pa.Array:
    sizes = np.asarray(pc.list_value_length(value).fill_null(0))
    there = sizes > wanted
    places = np.asarray(value.offsets)[: len(value)].astype(np.int64) + wanted
    return value.values.take(pa.array(np.where(there, places, 0), pa.int64(), mask=~there))


def _of_key(term: Term, key: Term) -> Term:
    """The value of a key in a map; null where there is none."""
    of = term.type
    if key.type != of.key_type or not (key.type == STRING or is_integral(key.type)):
        return Term(of.item_type)
    if not key.is_constant:
        return on_arrays(of.item_type, _value_of, term, key)
    wanted = pa.scalar(key.constant, key.type)
    return on_arrays(of.item_type, lambda value: _value_of(value, wanted), term)


def _value_of(mapping: pa.MapArray, key: Datum) -> pa.Array:
    """In a map whose keys are not unique the first counts, as in Spark."""
    offsets = np.asarray(mapping.offsets).astype(np.int64)
    sizes = np.diff(offsets) * np.asarray(mapping.is_valid())
    row_of = np.repeat(np.arange(len(sizes)), sizes)
    entries = np.arange(len(row_of)) + np.repeat(offsets[:-1] - np.cumsum(sizes) + sizes, sizes)
    keys = mapping.keys.take(pa.array(entries))
    same = pc.equal(keys, key if isinstance(key, pa.Scalar) else key.take(pa.array(row_of)))
    hits = np.flatnonzero(np.asarray(same.fill_null(False)))[::-1]
    places = np.full(len(sizes), -1)
    places[row_of[hits]] = entries[hits]
    return mapping.items.take(pa.array(places, mask=places < 0))


def size(term: Term) -> Term | None:
    """`size(term)`: the number of elements; of null it is −1, as Spark has it while ANSI mode is off."""
    of = term.type
    if pa.types.is_map(of):
        return on_arrays(INT, _size_of_map, term)
    if not pa.types.is_list(of):
        return None
    return lifted(INT, _size, term)


def _size(value: Datum) -> Datum:
    return pc.fill_null(pc.cast(pc.list_value_length(value), INT), -1)


def _size_of_map(value: pa.MapArray) -> pa.Array:
    sizes = np.diff(np.asarray(value.offsets))
    return pa.array(np.where(np.asarray(value.is_valid()), sizes, -1), INT)
