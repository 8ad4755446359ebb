"""A file of Protobuf as the text of a .proto file, made of its descriptor: registries compare such texts.

Law: a parser makes of the text the same messages, fields, enums and services. Comments and positions are lost.
Source: Protocol Buffers, Language Specification (proto 2 and 3).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

NUMBER_MAX, ENUM_NUMBER_MAX = (1 << 29) - 1, (1 << 31) - 1
Lines = Iterator[str]


class _NoText(Exception):
    """The file holds something that this module does not write."""


def proto_text(file: FileDescriptorProto) -> str | None:
    """The text of a file; None: it has editions, groups, extensions or options of its own, which are not written here."""
    try:
        return "\n".join(_file(file)) + "\n"
    except _NoText:
        return None


def _file(file: FileDescriptorProto) -> Lines:
    if file.syntax not in ("", "proto2", "proto3") or file.extension or file.weak_dependency:
        raise _NoText
    yield f"syntax = {_quoted(file.syntax or 'proto2')};"
    if file.package:
        yield f"package {file.package};"
    for number, name in enumerate(file.dependency):
        yield f"import {'public ' if number in file.public_dependency else ''}{_quoted(name)};"
    yield from (f"option {option};" for option in _options(file.options))
    for message in file.message_type:
        yield from _message(message, file.syntax == "proto3")
    for enum in file.enum_type:
        yield from _enum(enum)
    for service in file.service:
        yield from _service(service)


def _message(of: DescriptorProto, is_proto3: bool) -> Lines:
    if of.extension:
        raise _NoText
    entries = {f"{of.name}.{each.name}": each for each in of.nested_type if each.options.map_entry}
    yield f"message {of.name} {{"
    yield from (f"  option {option};" for option in _options(of.options))
    for field in of.field:
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield f"  {_field(field, entries, is_proto3)}"
    for number, oneof in enumerate(of.oneof_decl):
        mine = [each for each in of.field if each.HasField("oneof_index") and each.oneof_index == number]
        if not all(each.proto3_optional for each in mine):
            yield f"  oneof {oneof.name} {{"
            yield from (f"    option {option};" for option in _options(oneof.options))
            yield from (f"    {_declared(each, entries)}" for each in mine)
            yield "  }"
    for nested in of.nested_type:
        if not nested.options.map_entry:
            yield from (f"  {line}" for line in _message(nested, is_proto3))
    for enum in of.enum_type:
        yield from (f"  {line}" for line in _enum(enum))
    for each in of.extension_range:
        if each.HasField("options"):
            raise _NoText
        yield f"  extensions {_range(each.start, each.end - 1, NUMBER_MAX)};"
    yield from _reserved(
        [(each.start, each.end - 1) for each in of.reserved_range], of.reserved_name, NUMBER_MAX
    )
    yield "}"


def _field(of: FieldDescriptorProto, entries: dict[str, DescriptorProto], is_proto3: bool) -> str:
    declared = _declared(of, entries)
    if of.label == FieldDescriptorProto.LABEL_REPEATED:
        return declared if declared.startswith("map<") else f"repeated {declared}"
    if of.label == FieldDescriptorProto.LABEL_REQUIRED:
        return f"required {declared}"
    return declared if is_proto3 and not of.proto3_optional else f"optional {declared}"


def _declared(of: FieldDescriptorProto, entries: dict[str, DescriptorProto]) -> str:
    """A field without its label."""
    options = _options(of.options)
    if of.HasField("default_value"):
        options.insert(0, f"default = {_default(of)}")
    if of.json_name and of.json_name != _json_name(of.name):
        options.append(f"json_name = {_quoted(of.json_name)}")
    shown = f" [{', '.join(options)}]" if options else ""
    return f"{_type(of, entries)} {of.name} = {of.number}{shown};"


def _type(of: FieldDescriptorProto, entries: dict[str, DescriptorProto]) -> str:
    if of.type == FieldDescriptorProto.TYPE_GROUP:
        raise _NoText
    entry = entries.get(".".join(of.type_name.split(".")[-2:]))
    if entry is not None:
        key, value = (_type(each, {}) for each in entry.field)
        return f"map<{key}, {value}>"
    return str(of.type_name or FieldDescriptorProto.Type.Name(of.type).removeprefix("TYPE_").lower())


def _default(of: FieldDescriptorProto) -> str:
    if of.type == FieldDescriptorProto.TYPE_STRING:
        return _quoted(of.default_value)
    is_bytes = of.type == FieldDescriptorProto.TYPE_BYTES  # which the descriptor has in escapes already
    return f'"{of.default_value}"' if is_bytes else str(of.default_value)


def _enum(of: EnumDescriptorProto) -> Lines:
    yield f"enum {of.name} {{"
    yield from (f"  option {option};" for option in _options(of.options))
    for value in of.value:
        options = _options(value.options)
        shown = f" [{', '.join(options)}]" if options else ""
        yield f"  {value.name} = {value.number}{shown};"
    ranges = [(each.start, each.end) for each in of.reserved_range]
    yield from _reserved(ranges, of.reserved_name, ENUM_NUMBER_MAX)
    yield "}"


def _service(of: ServiceDescriptorProto) -> Lines:
    yield f"service {of.name} {{"
    yield from (f"  option {option};" for option in _options(of.options))
    for method in of.method:
        if _options(method.options):
            raise _NoText
        takes, gives = (
            ("stream " if is_stream else "") + name
            for is_stream, name in (
                (method.client_streaming, method.input_type),
                (method.server_streaming, method.output_type),
            )
        )
        yield f"  rpc {method.name} ({takes}) returns ({gives});"
    yield "}"


def _reserved(ranges: list[tuple[int, int]], names: Any, most: int) -> Lines:
    if ranges:
        yield f"  reserved {', '.join(_range(first, last, most) for first, last in ranges)};"
    if names:
        yield f"  reserved {', '.join(map(_quoted, names))};"


def _range(first: int, last: int, most: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last == most else last}"


def _options(of: Any) -> list[str]:
    """Options with the names that descriptors give them."""
    found = []
    known = type(of)()
    for field, value in of.ListFields():
        if field.is_extension or field.is_repeated or field.message_type is not None:
            raise _NoText
        setattr(known, field.name, value)
        if field.name != "map_entry":
            found.append(f"{field.name} = {_shown(field, value)}")
    if known.ByteSize() != of.ByteSize():  # options that this program does not know
        raise _NoText
    return found


def _shown(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _json_name(name: str) -> str:
    """The name that protoc gives a field in JSON."""
    found, upper = "", False
    for letter in name:
        if letter == "_":
            upper = True
        else:
            found, upper = found + (letter.upper() if upper else letter), False
    return found
