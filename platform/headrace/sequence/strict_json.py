"""One JSON object, read strictly: RFC 8259 and the declared types, and nothing beyond.

Law: of a text that Arrow's reader takes without suspicion (see `json_columns`) the same values. Of names that occur twice
the last counts. Numbers become what their column's type makes of their text:
  integers  digits without fraction or exponent, within the type
  FLOAT, DOUBLE  the nearest number, infinite beyond the largest; or one of the texts "NaN", "Infinity", "-Infinity"
  DECIMAL   rounded half up to its scale; also written as text
  STRING    any other JSON value stands as its own text
  TIMESTAMP  a text (see `scalars`), or a whole number of seconds since 1970
Names that are not declared are passed over; a name that is missing is null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from headrace.sequence import scalars

NESTING_MAX = 500  # brackets within brackets: deep nesting exhausts the stacks of those who read
BLANKS = " \t\r\n"  # JSON's white space
DOES_NOT_FIT = "not JSON, or a field does not fit "  # and the declared columns
MORE_THAN_ONE = "more than one JSON object"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_NOT_FINITE = {
    "NaN": float("nan"),
    **dict.fromkeys(("Infinity", "+Infinity", "INF", "+INF"), float("inf")),
    **dict.fromkeys(("-Infinity", "-INF"), float("-inf")),
}
Read = Callable[[Any], Any]


class Malformed(Exception):
    """A text is not what was declared.

    why     how the reason of a dead letter goes on, see `decode`
    detail  where it is wrong; "" if there is no more to say
    """

    def __init__(self, why: str, detail: str = "") -> None:
        super().__init__(why, detail)
        self.why, self.detail = why, detail


class _Misfit(Exception):
    """A value does not fit its type; the path to it grows as the error rises."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem, path)
        self.problem, self.path = problem, path


class Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


@dataclass(frozen=True)
class StrictReader:
    """Reads objects with these fields, one at a time."""

    fields: Sequence[pa.Field]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_read", _object_reader(self.fields))

    def read(self, text: str) -> Mapping[str, Any]:
        """The values of the fields, as `pyarrow.array` takes them.

        In:     text  that begins with "{" and ends with "}", white space aside
        Raises: Malformed
        """
        text = text.strip(BLANKS)
        if text.count("[") + text.count("{") > NESTING_MAX and _nesting(text) > NESTING_MAX:
            raise Malformed(DOES_NOT_FIT, f"nested deeper than {NESTING_MAX}")
        try:
            found, end = _PARSER.raw_decode(text)
        except (ValueError, RecursionError):
            raise Malformed(DOES_NOT_FIT, "not JSON") from None
        if _SURROGATE.search(text, 0, end) and _has_half_a_pair(text[:end]):
            raise Malformed(DOES_NOT_FIT, "half of a surrogate pair is no text")
        try:
            values: Mapping[str, Any] = self._read(found)  # type: ignore[attr-defined]
        except _Misfit as misfit:
            raise Malformed(DOES_NOT_FIT, f"{misfit.path[1:]} {misfit.problem}") from None
        if end < len(text):
            raise Malformed(MORE_THAN_ONE)
        return values


def _refuse(constant: str) -> NoReturn:
    raise Malformed(DOES_NOT_FIT, f"{constant} is not JSON")


_PARSER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_refuse, strict=True)


def _nesting(text: str) -> int:
    deepest = depth = 0
    for mark in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if mark in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _has_half_a_pair(text: str) -> bool:
    wanted_at = -1
    for escape in _ESCAPE.finditer(text):
        code = int(escape[1], 16) if escape[1] else 0
        if (wanted_at >= 0) != (0xDC00 <= code <= 0xDFFF) or wanted_at not in (-1, escape.start()):
            return True
        wanted_at = escape.end() if 0xD800 <= code <= 0xDBFF else -1
    return wanted_at >= 0


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
    """What makes of a parsed value one of a type; null of null. It raises _Misfit."""
    if pa.types.is_struct(of):
        return _or_null(of, dict, _object_reader(list(of)))
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
            raise _Misfit(f"is not {_name(of)}")
        return read(value)

    return read_one


def _scalar_reader(of: pa.DataType, read: Callable[[str, bool], Any]) -> Read:
    """In: read  of a text, and whether it is a number; None: it does not fit."""

    def read_one(value: Any) -> Any:
        if value is None:
            return None
        found = read(value, type(value) is Number) if isinstance(value, str) else None
        if found is None:
            raise _Misfit(f"is not {_name(of)}")
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
    return _written(value)


def _written(value: Any) -> str:
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


def _object_reader(fields: Sequence[pa.Field]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    readers = [(field.name, _reader(field.type), field) for field in fields]

    def read(found: dict[str, Any]) -> dict[str, Any]:
        values = {}
        for name, read_one, field in readers:
            try:
                value = read_one(found.get(name))
            except _Misfit as misfit:
                raise _Misfit(misfit.problem, f"{name}{misfit.path}") from None
            if value is None and not field.nullable:
                raise _Misfit("is null and NOT NULL", name)
            values[name] = value
        return values

    def nested(found: dict[str, Any]) -> dict[str, Any]:
        try:
            return read(found)
        except _Misfit as misfit:
            raise _Misfit(misfit.problem, f".{misfit.path}") from None

    return nested


def _list_reader(of: pa.DataType) -> Callable[[list[Any]], list[Any]]:
    read_one = _reader(of.value_type)

    def read(found: list[Any]) -> list[Any]:
        try:
            return [read_one(item) for item in found]
        except _Misfit as misfit:
            raise _Misfit(misfit.problem, f"[]{misfit.path}") from None

    return read


def _map_reader(of: pa.DataType) -> Callable[[dict[str, Any]], list[tuple[Any, Any]]]:
    """A map is an object; of keys that are no texts the names hold what JSON would."""
    read_item, read_key = _reader(of.item_type), _reader(of.key_type)
    as_text = (
        pa.types.is_string(of.key_type)
        or pa.types.is_temporal(of.key_type)
        or pa.types.is_binary(of.key_type)
    )

    def read(found: dict[str, Any]) -> list[tuple[Any, Any]]:
        try:
            pairs = {
                read_key(name if as_text else _bare(name)): read_item(item) for name, item in found.items()
            }
        except _Misfit as misfit:
            raise _Misfit(misfit.problem, f"{{}}{misfit.path}") from None
        if None in pairs:
            raise _Misfit("has a key that is null")
        return list(pairs.items())

    return read


def _bare(name: str) -> Any:
    """A name as the JSON value that it holds."""
    try:
        return _PARSER.decode(name)
    except (ValueError, RecursionError, Malformed):
        return name
