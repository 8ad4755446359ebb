"""Messages as what Arrow takes for their columns.

Law: times are cut to microseconds; a duration is a number of them. A number of an enum that has no name is its digits.
Struct, Value and ListValue are their JSON, with sorted names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict

from headrace.description.formats.protobuf_types import AS_JSON, DURATION, TIMESTAMP, WRAPPERS, is_map
from headrace.sequence.parse.scalars import FIRST_US, LAST_US

Take = Callable[[Any], Any]


def fields_taken(message: Descriptor, names: Sequence[str]) -> Take:
    """A function that gives the values of some fields of a message, by name."""
    taken = [(name, _field(message.fields_by_name[name])) for name in names]
    return lambda message: {name: take(message) for name, take in taken}


def _field(field: FieldDescriptor) -> Take:
    name = field.name
    if is_map(field):
        key, value = (_value(field.message_type.fields_by_name[each]) for each in ("key", "value"))
        return lambda message: [
            (k if key is None else key(k), v if value is None else value(v))
            for k, v in sorted(getattr(message, name).items())
        ]
    take = _value(field)
    if field.is_repeated:
        if take is None:
            return lambda message: [*getattr(message, name)]
        return lambda message: [take(each) for each in getattr(message, name)]
    if field.has_presence:
        if take is None:
            return lambda message: getattr(message, name) if message.HasField(name) else None
        return lambda message: take(getattr(message, name)) if message.HasField(name) else None
    if take is None:
        return lambda message: getattr(message, name)
    return lambda message: take(getattr(message, name))


def _value(field: FieldDescriptor) -> Take | None:
    """A function that turns one value of a field into one that Arrow accepts; None: Arrow accepts it as it is."""
    if field.enum_type is not None:
        named = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: named.get(number, str(number))
    message = field.message_type
    if message is None:
        return None
    if message.full_name in WRAPPERS:
        return lambda message: message.value
    if message.full_name == TIMESTAMP:
        return _micros
    if message.full_name == DURATION:
        return lambda message: message.seconds * 1_000_000 + int(message.nanos / 1000)
    if message.full_name in AS_JSON:
        return lambda message: json.dumps(MessageToDict(message), sort_keys=True, ensure_ascii=False)
    if not message.fields:
        return lambda message: True
    return fields_taken(message, [each.name for each in message.fields])


def _micros(message: Any) -> int:
    micros = int(message.seconds) * 1_000_000 + int(message.nanos) // 1000
    if not FIRST_US <= micros <= LAST_US:
        raise ValueError("a time lies beyond the years 1 to 9999")
    return micros
