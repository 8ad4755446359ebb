"""A state of a user's aggregate as Arrow would keep it and give it back; mostly without Arrow, which is slow for one value.

Law: `as_kept(of)(value)` is `pa.scalar(value, of).as_py()`, and raises where that does.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

Made = Callable[[Any], Any]


class _UnknownError(Exception):
    """A value that only Arrow converts, or refuses."""


def as_kept(of: pa.DataType) -> Made:
    """The function that makes values of a type. It raises what Arrow raises of a value that has not this type."""
    made = _made(of)

    def kept(value: Any) -> Any:
        try:
            return made(value)
        except _UnknownError:
            return pa.scalar(value, of).as_py()

    return kept


def _made(of: pa.DataType) -> Made:
    if pa.types.is_struct(of):
        return _struct([(field.name, _made(field.type)) for field in of])
    if pa.types.is_map(of):
        return _map(_made(of.key_type), _made(of.item_type))
    if pa.types.is_list(of):
        return _list(_made(of.value_type))
    if pa.types.is_decimal(of):
        return _if(lambda value: type(value) is Decimal and _fits(value, of.precision, of.scale))
    if pa.types.is_signed_integer(of):
        end = 1 << of.bit_width - 1
        return _if(lambda value: type(value) is int and -end <= value < end)
    if pa.types.is_string(of):
        return _if(lambda value: type(value) is str and value.isascii())
    plain = {pa.bool_(): bool, pa.float64(): float}.get(of)
    return _if(lambda value: type(value) is plain)


def _if(is_kept: Callable[[Any], bool]) -> Made:
    def made(value: Any) -> Any:
        if value is None or is_kept(value):
            return value
        raise _UnknownError

    return made


def _fits(value: Decimal, precision: int, scale: int) -> bool:
    _, digits, exponent = value.as_tuple()
    return exponent == -scale and len(digits) <= precision


def _struct(fields: list[tuple[str, Made]]) -> Made:
    names = [name for name, _ in fields]

    def made(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict or [*value] != names:
            raise _UnknownError
        return {name: field(value[name]) for name, field in fields}

    return made


def _list(element: Made) -> Made:
    def made(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not list:
            raise _UnknownError
        return [element(each) for each in value]

    return made


def _map(key: Made, item: Made) -> Made:
    def made(value: Any) -> Any:
        if value is None:
            return None
        pairs = [*value.items()] if type(value) is dict else value
        if type(pairs) is not list or any(
            type(each) is not tuple or len(each) != 2 or each[0] is None for each in pairs
        ):
            raise _UnknownError
        return [(key(name), item(each)) for name, each in pairs]

    return made
