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
    return lambda found: {name: take(found) for name, take in taken}


def _field(field: FieldDescriptor) -> Take:
    name = field.name
    if is_map(field):
        key, value = (_value(field.message_type.fields_by_name[each]) for each in ("key", "value"))
        return lambda found: [
            (k if key is None else key(k), v if value is None else value(v))
            for k, v in sorted(getattr(found, name).items())
        ]
    take = _value(field)
    if field.is_repeated:
        if take is None:
            return lambda found: [*getattr(found, name)]
        return lambda found: [take(each) for each in getattr(found, name)]
    if field.has_presence:
        if take is None:
            return lambda found: getattr(found, name) if found.HasField(name) else None
        return lambda found: take(getattr(found, name)) if found.HasField(name) else None
    return (
        (lambda found: getattr(found, name)) if take is None else (lambda found: take(getattr(found, name)))
    )


def _value(field: FieldDescriptor) -> Take | None:
    """A function that turns one value of a field into one that Arrow accepts; None: Arrow accepts it as it is."""
    if field.enum_type is not None:
        named = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: named.get(number, str(number))
    message = field.message_type
    if message is None:
        return None
    if message.full_name in WRAPPERS:
        return lambda found: found.value
    if message.full_name == TIMESTAMP:
        return _micros
    if message.full_name == DURATION:
        return lambda found: found.seconds * 1_000_000 + int(found.nanos / 1000)
    if message.full_name in AS_JSON:
        return lambda found: json.dumps(MessageToDict(found), sort_keys=True, ensure_ascii=False)
    if not message.fields:
        return lambda found: True
    return fields_taken(message, [each.name for each in message.fields])


def _micros(found: Any) -> int:
    micros = int(found.seconds) * 1_000_000 + int(found.nanos) // 1000
    if not FIRST_US <= micros <= LAST_US:
        raise ValueError("a time lies beyond the years 1 to 9999")
    return micros
