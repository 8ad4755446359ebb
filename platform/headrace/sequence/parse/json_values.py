"""Values of columns, made from parsed JSON values.

Law: a value that is null is null. For other values, the column's type decides:
  integers           digits without fraction or exponent, within the type
  FLOAT, DOUBLE      the nearest number, infinite beyond the largest; or one of the texts "NaN", "Infinity", "-Infinity"
  DECIMAL            rounded half up to its scale; also written as text
  BOOLEAN            true, false
  STRING             any other JSON value stands as its own text
  BINARY, DATE       a text (see `scalars`)
  TIMESTAMP          a text, or a whole number of seconds since 1970
  ARRAY, STRUCT, MAP an array, an object, an object whose names are the keys (or hold the JSON of keys that are no texts)
Names that are not declared are passed over; a field that is missing is null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from headrace.sequence.parse import scalars

_NOT_FINITE = {
    "NaN": float("nan"),
    **dict.fromkeys(("Infinity", "+Infinity", "INF", "+INF"), float("inf")),
    **dict.fromkeys(("-Infinity", "-INF"), float("-inf")),
}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
Read = Callable[[Any], Any]


class Misfit(Exception):
    """A value does not fit its type; the path to it grows as the error rises."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem, path)
        self.problem, self.path = problem, path


class Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


def _name(of: pa.DataType) -> str:
    """The type as people declare it."""
    if pa.types.is_decimal(of):
        return f"DECIMAL({of.precision},{of.scale})"
    for test, name in _NAMES:
        if test(of):
            return name
    return str(of)


_NAMES: Sequence[tuple[Callable[[pa.DataType], bool], str]] = (
    (lambda of: bool(pa.types.is_timestamp(of) and of.tz is None), "TIMESTAMP_NTZ"),
    (pa.types.is_timestamp, "TIMESTAMP"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_binary, "BINARY"),
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int8, "TINYINT"),
    (pa.types.is_int16, "SMALLINT"),
    (pa.types.is_int32, "INT"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_float32, "FLOAT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_map, "MAP"),
    (pa.types.is_list, "ARRAY"),
    (pa.types.is_struct, "STRUCT"),
)


def _reader(of: pa.DataType) -> Read:
    """A function that turns a parsed value into one of a type, and null into null. It raises Misfit."""
    if pa.types.is_struct(of):
        return _or_null(of, dict, object_reader(list(of)))
    if pa.types.is_list(of):
        return _or_null(of, list, _list_reader(of))
    if pa.types.is_map(of):
        return _or_null(of, dict, _map_reader(of))
    if pa.types.is_string(of):
        return _text_of
    if pa.types.is_boolean(of):
        return _or_null(of, bool, lambda value: value)
    return _scalar_reader(of, _scalar(of))


def _or_null(of: pa.DataType, wanted: type, read: Read) -> Read:
    def read_one(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not wanted:
            raise Misfit(f"is not {_name(of)}")
        return read(value)

    return read_one


def _scalar_reader(of: pa.DataType, read: Callable[[str, bool], Any]) -> Read:
    """In: read  of a text, and whether it is a number; None: it does not fit."""

    def read_one(value: Any) -> Any:
        if value is None:
            return None
        found = read(value, type(value) is Number) if isinstance(value, str) else None
        if found is None:
            raise Misfit(f"is not {_name(of)}")
        return found

    return read_one


def _scalar(of: pa.DataType) -> Callable[[str, bool], Any]:
    if pa.types.is_integer(of):
        top = 1 << (of.bit_width - 1)
        return lambda text, number: _integer(text, top) if number else None
    if pa.types.is_float64(of):
        return lambda text, number: float(text) if number else _NOT_FINITE.get(text)
    if pa.types.is_float32(of):
        return lambda text, number: scalars.float_of(text) if number else _NOT_FINITE.get(text)
    if pa.types.is_decimal(of):
        return lambda text, _: scalars.decimal_of(text, of.precision, of.scale)
    if pa.types.is_date(of):
        return lambda text, number: None if number else scalars.days_of(text)
    if pa.types.is_binary(of):
        return lambda text, number: None if number else scalars.bytes_of(text)
    zoned = of.tz is not None
    return lambda text, number: _micros(text, number, zoned=zoned)


def _micros(text: str, number: bool, *, zoned: bool) -> int | None:
    if not number:
        return scalars.micros_of(text, zoned=zoned)
    seconds = _integer(text, 1 << 63) if zoned else None
    return None if seconds is None else scalars.within_the_calendar(seconds * 1_000_000)


def _integer(text: str, top: int) -> int | None:
    if len(text) > 20 or not text.lstrip("-").isdigit():
        return None
    number = int(text)
    return number if -top <= number < top else None


def _text_of(value: Any) -> str | None:
    """A text, or the JSON text of another value."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, str):
        return str(value)
    return as_text(value)


def as_text(value: Any) -> str:
    """A parsed value as JSON again, numbers as they were written; without recursion, as it may be nested deeply."""
    texts: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            names = (
                "," * (at > 0) + json.dumps(name, ensure_ascii=False) + ":" for at, name in enumerate(item)
            )
            inner = [
                part for name, of in zip(names, item.values(), strict=True) for part in (Number(name), of)
            ]
            waiting += [Number("}"), *reversed(inner), Number("{")]
        elif isinstance(item, list):
            inner = [part for at, of in enumerate(item) for part in (Number("," * (at > 0)), of)]
            waiting += [Number("]"), *reversed(inner), Number("[")]
        else:
            texts.append(item if type(item) is Number else json.dumps(item, ensure_ascii=False))
    return "".join(texts)


def object_reader(fields: Sequence[pa.Field]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function that gives the values of these fields in a parsed object. It raises Misfit, with the path of the misfit."""
    readers = [(field.name, _reader(field.type), field.nullable) for field in fields]

    def read(parsed: dict[str, Any]) -> dict[str, Any]:
        values = {}
        for name, read_one, nullable in readers:
            try:
                value = read_one(parsed.get(name))
            except Misfit as misfit:
                raise Misfit(misfit.problem, f".{name}{misfit.path}") from None
            if value is None and not nullable:
                raise Misfit("is null and NOT NULL", f".{name}")
            values[name] = value
        return values

    return read


def _list_reader(of: pa.DataType) -> Callable[[list[Any]], list[Any]]:
    read_one = _reader(of.value_type)

    def read(parsed: list[Any]) -> list[Any]:
        try:
            return [read_one(item) for item in parsed]
        except Misfit as misfit:
            raise Misfit(misfit.problem, f"[]{misfit.path}") from None

    return read


def _map_reader(of: pa.DataType) -> Callable[[dict[str, Any]], list[tuple[Any, Any]]]:
    read_item, read_key = _reader(of.item_type), _reader(of.key_type)
    as_text = (
        pa.types.is_string(of.key_type)
        or pa.types.is_temporal(of.key_type)
        or pa.types.is_binary(of.key_type)
    )

    def read(parsed: dict[str, Any]) -> list[tuple[Any, Any]]:
        try:
            pairs = {
                read_key(name if as_text else _bare(name)): read_item(item) for name, item in parsed.items()
            }
        except Misfit as misfit:
            raise Misfit(misfit.problem, f"{{}}{misfit.path}") from None
        if None in pairs:
            raise Misfit("has a key that is null")
        return list(pairs.items())

    return read


def _bare(name: str) -> Any:
    """A name as the JSON value that it holds."""
    if _NUMBER.fullmatch(name):
        return Number(name)
    return {"true": True, "false": False}.get(name, name)
