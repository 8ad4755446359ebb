"""Values that user code puts into stores and forwards: made at once what they are when they are read again.

Law: a value that was put is the same before and after it was written and read. So a processor cannot tell whether the
process has died in between.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.description import ProcessorError
from headrace.description.wording import a_value

Convert = Callable[[Any], Any]


def converter(field: pa.Field, what: str) -> Convert:
    """A function that turns a value from user code into a value of a column. In: what  names the column in errors."""
    of, plain = field.type, _plain(field.type)

    def convert(value: Any) -> Any:
        if value is None or plain(value):
            return value
        try:
            return pa.scalar(value, of).as_py()
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ProcessorError(f"{what} is {of}, and cannot hold {a_value(value)}.") from error

    return convert


def copier(field: pa.Field) -> Convert:
    """A function that copies a value, so that user code may change the copy without changing the store."""
    return copy.deepcopy if pa.types.is_nested(field.type) else _same


def _same(value: Any) -> Any:
    return value


def _plain(of: pa.DataType) -> Callable[[Any], bool]:
    """Which values are already what they are when they are read again."""
    if pa.types.is_signed_integer(of):
        highest = (1 << (of.bit_width - 1)) - 1
        return lambda value: type(value) is int and -highest - 1 <= value <= highest
    if pa.types.is_string(of):
        return lambda value: type(value) is str and (value.isascii() or _is_encodable(value))
    if pa.types.is_float64(of):
        return lambda value: type(value) is float
    if pa.types.is_boolean(of):
        return lambda value: type(value) is bool
    if pa.types.is_binary(of):
        return lambda value: type(value) is bytes
    return lambda value: False


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
