"""Rows of Arrow as Python values that the libraries of formats take: maps as dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

Change = Callable[[Any], Any]
_WIDE = Context(prec=2 * 38)


def plain_values(structs: pa.StructArray, read: pa.Schema | None = None) -> Iterator[Any]:
    """Each struct as a dict; None where it is null; an error where Python has no such value, as a time in the year 10000.

    In: read  the types as which the columns are read: numbers that are read as decimals get the scale of those
    """
    change = _change(structs.type, None if read is None else pa.struct(list(read)))
    for value in _python_values(structs):
        yield change(value) if change is not None and isinstance(value, dict) else value


def _python_values(structs: pa.StructArray) -> list[Any]:
    try:
        found: list[Any] = structs.to_pylist()
        return found
    except (ValueError, OverflowError) as error:
        if len(structs) == 1:
            return [error]
    return [value for at in range(len(structs)) for value in _python_values(structs.slice(at, 1))]


def _change(of: pa.DataType, read: pa.DataType | None) -> Change | None:
    """Choose how values of a type become plain ones; None: they are plain already. In: read  as which they are read."""
    if pa.types.is_struct(of):
        types = (
            {field.name: field.type for field in read}
            if read is not None and pa.types.is_struct(read)
            else {}
        )
        changes = {
            field.name: change
            for field in of
            if (change := _change(field.type, types.get(field.name))) is not None
        }
        if not changes:
            return None
        return lambda value: (
            value
            | {name: None if value[name] is None else change(value[name]) for name, change in changes.items()}
        )
    if pa.types.is_map(of):
        items = read.item_type if read is not None and pa.types.is_map(read) else None
        change = _change(of.item_type, items) or (lambda value: value)
        return lambda value: {key: None if each is None else change(each) for key, each in value}
    if pa.types.is_list(of):
        inner = _change(
            of.value_type, read.value_type if read is not None and pa.types.is_list(read) else None
        )
        return inner and (lambda value: [None if each is None else inner(each) for each in value])
    if read is not None and pa.types.is_decimal(read) and of != read:
        digits = Decimal(1).scaleb(-read.scale)
        return lambda value: _with_digits(Decimal(value), digits)
    return None


def _with_digits(value: Decimal, digits: Decimal) -> Decimal:
    """The same number with so many digits behind the point; unchanged if it has more."""
    rounded = value.quantize(digits, context=_WIDE)
    return rounded if rounded == value else value
