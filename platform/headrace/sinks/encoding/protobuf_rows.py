"""Rows as Protobuf messages.

Law: what `headrace.sequence.protobuf` reads of the bytes is the row (see `round_trip`). A null is a field that is not set.
A field without presence would be read as 0, "", false or empty, so a row with a null there is refused.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from headrace.description.arrow_types import arrow_type
from headrace.description.formats import Protobuf
from headrace.description.formats.avro_types import SchemaError
from headrace.description.formats.protobuf_types import (
    AS_JSON,
    DURATION,
    GOOGLE,
    TIMESTAMP,
    WRAPPERS,
    column_of,
    indexes_of,
    is_map,
    parser_of,
)
from headrace.description.formats.registry import address_of
from headrace.description.schema import parse_type
from headrace.errors import TerminalError
from headrace.sequence.encodings import ProtobufBytes
from headrace.sinks.encoding.proto_text import proto_text
from headrace.sinks.encoding.round_trip import RoundTrip, require_fit
from headrace.sinks.encoding.subjects import SchemaText, subject_schema

Put = Callable[[Any, Any], None]  # a value into a message


@dataclass(frozen=True)
class ProtobufRows:
    """Encodes rows as messages. In: names  of the columns."""

    descriptors: bytes
    message: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, of: Protobuf, columns: pa.Schema, what: str) -> ProtobufRows:
        """Raises: TerminalError when a column is no field of the message."""
        assert isinstance(of.schema, bytes)
        message, _ = parser_of(of.schema, of.message)
        for column in columns:
            field = message.fields_by_name.get(column.name)
            if field is None:
                raise TerminalError(
                    f"{what}: column '{column.name}' is no field of message {message.full_name}; "
                    f"these are {', '.join(message.fields_by_name)}.",
                    hint="Add it to the message, or leave the column out with a select.",
                )
        return cls(of.schema, of.message, tuple(columns.names))

    def function(self) -> Callable[[Any], bytes]:
        """See `RowEncoder`."""
        message, _ = parser_of(self.descriptors, self.message)
        make, puts = message_factory.GetMessageClass(message), _puts(message, self.names)

        def encode(row: Any) -> bytes:
            found = make()
            _fill(found, row, puts)
            content: bytes = found.SerializeToString(deterministic=True)
            return content

        return encode


def registered_message(of: Protobuf, topic: str, part: str, what: str, *, register: bool) -> bytes:
    """Give the bytes before each message: none, or the magic byte, the id of its schema and the message's indexes.

    Raises: TerminalError; RegistryAwayError
    """
    if of.registry is None:
        if of.registered:
            raise TerminalError(f"{what}: registered=True needs the registry: hr.Protobuf(…, registry=…).")
        return b""
    assert isinstance(of.schema, bytes)
    message, _ = parser_of(of.schema, of.message)
    url, subject = address_of(of.registry, "Protobuf"), of.subject or f"{topic}-{part}"
    number, is_text = _registered(url, subject, message.file, register=register)
    # as readers find the message in what is registered
    return b"\0" + number.to_bytes(4, "big") + message_indexes(of, map_entries=not is_text)


def message_indexes(of: Protobuf, *, map_entries: bool) -> bytes:
    """The indexes of a message in its file, as Confluent's serializers write them. In: map_entries  see `Protobuf`."""
    assert isinstance(of.schema, bytes)
    indexes = indexes_of(parser_of(of.schema, of.message)[0], map_entries=map_entries)
    return b"\0" if indexes == (0,) else b"".join(map(_zigzag, (len(indexes), *indexes)))


def _registered(url: str, subject: str, file: FileDescriptor, *, register: bool) -> tuple[int, bool]:
    """The id of a file, and whether it is registered as the text of a .proto file; else it is a descriptor.

    The files that it imports are registered by their names, as Confluent's serializers do.
    """
    used = [each for each in file.dependencies if not each.name.startswith("google/protobuf/")]
    for each in used:
        _registered(url, each.name, each, register=register)
    described = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(described)
    descriptor = base64.b64encode(described.SerializeToString(deterministic=True)).decode()
    # Apicurio 2.6 cannot compare descriptors; a subject may hold one that somebody registered.
    text = proto_text(described)
    schema = SchemaText("PROTOBUF", text or descriptor, tuple(each.name for each in used), descriptor)
    found = subject_schema(url, subject, schema, register=register)
    return found.id, text is not None and not found.is_former


def _zigzag(number: int) -> bytes:
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def protobuf_trip(of: Protobuf, columns: pa.Schema, what: str) -> RoundTrip:
    """The way back of rows that are messages. In: columns  each is a field of the message.

    Raises: TerminalError when the values of a column cannot come back
    """
    assert isinstance(of.schema, bytes)
    message, _ = parser_of(of.schema, of.message)

    def read(name: str) -> pa.DataType:
        try:
            return arrow_type(parse_type(column_of(message.fields_by_name[name], (message.full_name,)), what))
        except SchemaError as error:
            raise TerminalError(f"{what}: field '{name}' cannot be written: {error}.") from None

    found = require_fit(columns, read, f"message {message.full_name}", what)
    return RoundTrip(ProtobufBytes(of.schema, of.message, registered=False), found, json_texts=True)


def _puts(message: Descriptor, names: Any) -> dict[str, Put]:
    return {name: _put(message.fields_by_name[name]) for name in names}


def _fill(message: Any, row: Any, puts: dict[str, Put]) -> None:
    for name, put in puts.items():
        value = row.get(name)
        if value is not None:
            put(message, value)


def _put(field: FieldDescriptor) -> Put:
    name, inner = field.name, field.message_type
    if is_map(field):
        return _put_map(field)
    if inner is None:
        scalar = _scalar(field)
        if field.is_repeated:
            return lambda message, value: getattr(message, name).extend(map(scalar, value))
        return lambda message, value: setattr(message, name, scalar(value))
    fill = _filler(inner)
    if field.is_repeated:

        def extend(message: Any, values: Any) -> None:
            for value in values:
                fill(getattr(message, name).add(), value)

        return extend

    def put(message: Any, value: Any) -> None:
        part = getattr(message, name)
        if inner.fields or value:
            part.SetInParent()
        fill(part, value)

    return put


def _put_map(field: FieldDescriptor) -> Put:
    name, value_field = field.name, field.message_type.fields_by_name["value"]
    if value_field.message_type is None:
        scalar = _scalar(value_field)
        return lambda message, value: getattr(message, name).update({k: scalar(v) for k, v in value.items()})
    fill = _filler(value_field.message_type)

    def put(message: Any, values: Any) -> None:
        for key, value in values.items():
            fill(getattr(message, name)[key], value)

    return put


def _filler(message: Descriptor) -> Put:
    """Choose how a value is put into a message of a type."""
    if message.full_name in WRAPPERS:
        return lambda part, value: setattr(part, "value", int(value) if "Int" in message.name else value)
    if message.full_name == TIMESTAMP:
        return lambda part, value: part.FromDatetime(value)
    if message.full_name == DURATION:
        return lambda part, value: part.FromMicroseconds(value)
    if message.full_name in AS_JSON:
        return lambda part, value: json_format.ParseDict(json.loads(value), part)
    puts = _puts(message, [field.name for field in message.fields])
    return lambda part, value: _fill(part, value, puts) if puts else None


def _scalar(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.enum_type is not None:
        numbers = {value.name: value.number for value in field.enum_type.values}

        def number_of(text: str) -> int:
            if text not in numbers and not text.lstrip("-").isdigit():
                raise ValueError(f"enum {field.enum_type.full_name.removeprefix(GOOGLE)} has no {text!r}")
            return numbers[text] if text in numbers else int(text)

        return number_of
    if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64):
        return int
    return lambda value: value
