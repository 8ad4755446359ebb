"""The identity of a user's function, equal wherever it is computed: its name, source and bound values."""

from __future__ import annotations

import hashlib
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any
from uuid import UUID

_STABLE = (bytes, Decimal, date, time, timedelta, Enum, UUID)
"""Types whose repr is their content."""


def digest(text: str) -> str:
    """The sha256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def identity_of(function: Callable[..., Any]) -> dict[str, Any]:
    """A function as JSON values.

    Out: its qualified name, with a hash of its source text where Python can find it (otherwise with its
    module), and the values that it carries: defaults, closure, arguments of a partial, fields of a dataclass.
    """
    return _identity(function, frozenset())


def identity_of_object(object: object) -> dict[str, Any]:
    """An object whose methods are called: the source of its class, as `identity_of`, and its attributes."""
    found = _identity(type(object), frozenset())
    return {**found, "attributes": _value(vars(object), frozenset({id(object)}))}


def value_identity(value: Any) -> Any:
    """A value as JSON: a plain one by content, a function by what it is, anything else by its type."""
    return _value(value, frozenset())


def _identity(function: Callable[..., Any], outer: frozenset[int]) -> dict[str, Any]:
    if isinstance(function, partial):
        bound = [_value(list(function.args), outer), _value(function.keywords, outer)]
        return {"partial": _identity(function.func, outer), "values": bound}
    named = function if hasattr(function, "__qualname__") else type(function)
    seen = outer | {id(function)}
    values = [_value(value, seen) for value in _carried(function)]
    try:
        source = digest(textwrap.dedent(inspect.getsource(named)).strip())
    except (OSError, TypeError):
        return {"name": f"{named.__module__}.{named.__qualname__}", "values": values}
    return {"name": named.__qualname__, "source": source, "values": values}


def _carried(function: Callable[..., Any]) -> list[Any]:
    """The values that come with the function rather than with its source."""
    if is_dataclass(function) and not isinstance(function, type):
        return [getattr(function, field.name) for field in fields(function)]
    cells = [_content(cell) for cell in getattr(function, "__closure__", None) or ()]
    return [getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None), *cells]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is bound after the function
        return None


def _value(value: Any, seen: frozenset[int]) -> Any:
    """Plain values by content, functions by identity, anything else by its type: addresses must not show."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return sorted([repr(name), repr(_value(item, seen))] for name, item in value.items())
    if isinstance(value, Set):
        return sorted(repr(_value(item, seen)) for item in value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_value(item, seen) for item in value]
    if callable(value) and not isinstance(value, type):
        return "itself" if id(value) in seen else _identity(value, seen)
    if isinstance(value, _STABLE):
        return repr(value)
    return type(value).__qualname__
