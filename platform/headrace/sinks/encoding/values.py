"""Rows of Arrow as Python values that the libraries of formats take: maps as dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

Change = Callable[[Any], Any]


def plain_values(structs: pa.StructArray) -> Iterator[Any]:
    """Each struct as a dict; None where it is null; an error where Python has no such value, as a time in the year 10000."""
    change = _change(structs.type)
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


def _change(of: pa.DataType) -> Change | None:
    """Choose how values of a type become plain ones; None: they are plain already."""
    if pa.types.is_struct(of):
        changes = {field.name: change for field in of if (change := _change(field.type)) is not None}
        if not changes:
            return None
        return lambda found: (
            found
            | {name: None if found[name] is None else change(found[name]) for name, change in changes.items()}
        )
    if pa.types.is_map(of):
        change = _change(of.item_type) or (lambda value: value)
        return lambda found: {key: None if value is None else change(value) for key, value in found}
    if pa.types.is_list(of) and (inner := _change(of.value_type)) is not None:
        return lambda found: [None if value is None else inner(value) for value in found]
    return None
