"""Values as fastavro gives them, made what Arrow takes for a schema's columns.

Law: a union of several types is a struct with one member for each of them but null, of which one is there, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.description.formats.avro_types import AvroType

Shape = Callable[[Any], Any]
_KINDS: Mapping[type, tuple[str, ...]] = {
    bool: ("boolean",),
    int: ("int", "long"),
    float: ("float", "double"),
    str: ("string", "enum"),
    bytes: ("bytes", "fixed"),
    list: ("array",),
}


def shape_of(of: AvroType) -> Shape | None:
    """A function that turns a value into one that Arrow accepts; None: Arrow accepts the values as they are.

    Values of named types in a union come as pairs of name and value, if any union needs it (see `has_choice`).
    """
    return _shape(of) if has_choice(of) or _has_default_bytes(of) else None


def has_choice(of: AvroType) -> bool:
    """Whether a union of several types stands somewhere in a type."""
    if of.kind == "union" and len(of.branches) > 1 and of.widest is None:
        return True
    return any(has_choice(each) for each in _parts(of))


def _has_default_bytes(of: AvroType) -> bool:
    """Whether a default may hold bytes: in JSON they are a text of which each letter is a byte."""
    if any(field.default is not None and _has_bytes(field.type) for field in of.fields):
        return True
    return any(_has_default_bytes(each) for each in _parts(of))


def _has_bytes(of: AvroType) -> bool:
    return of.kind in ("bytes", "fixed") or any(_has_bytes(each) for each in _parts(of))


def _parts(of: AvroType) -> tuple[AvroType, ...]:
    return (*of.inner, *(field.type for field in of.fields))


def _shape(of: AvroType) -> Shape:
    read = _inner(of)

    def shape(value: Any) -> Any:
        if type(value) is tuple and of.kind != "union":
            value = value[1]  # the writer's union is no union of the reader's
        return None if value is None else read(value)

    return shape


def _inner(of: AvroType) -> Shape:
    match of.kind:
        case "record":
            fields = [(field.name, _shape(field.type)) for field in of.fields]
            return lambda value: {name: shape(value.get(name)) for name, shape in fields}
        case "array":
            item = _shape(of.inner[0])
            return lambda value: [item(each) for each in value]
        case "map":
            item = _shape(of.inner[0])
            return lambda value: {name: item(each) for name, each in value.items()}
        case "bytes" | "fixed":
            return lambda value: value.encode("latin-1") if isinstance(value, str) else value
        case "union":
            return _choice(of)
        case _:
            return lambda value: value


def _choice(of: AvroType) -> Shape:
    branches = of.branches
    if len(branches) == 1:
        return _shape(branches[0])
    if of.widest is not None:
        return lambda value: value
    shapes = [_shape(each) for each in branches]

    def choose(value: Any) -> dict[str, Any]:
        number = _branch(branches, value)
        return {f"member{number}": shapes[number](value[1] if type(value) is tuple else value)}

    return choose


def _branch(branches: tuple[AvroType, ...], value: Any) -> int:
    """Which of the branches a value is of.

    Raises: ValueError when it is of none
    """
    kinds = _KINDS.get(type(value), ("record", "map"))
    for number, each in enumerate(branches):
        if each.name == value[0] if type(value) is tuple else each.kind in kinds:
            return number
    raise ValueError("a value is of no branch of its union")
