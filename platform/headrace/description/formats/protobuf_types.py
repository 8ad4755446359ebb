"""Protobuf messages as columns, and the descriptors that tell them.

Law: a field that its message tells to be absent is null (`optional`, members of a `oneof`, messages; in proto2 each field
that is not repeated); a field without presence has the value that stands for nothing: 0, "", false.
Source: Protocol Buffers, Language Guide (proto 3) and Well-Known Types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from headrace.description.ddl import quote
from headrace.description.formats.avro_types import SchemaError

GOOGLE = "google.protobuf."
WRAPPERS = {
    f"{GOOGLE}{name}Value": column
    for name, column in {
        "Double": "DOUBLE",
        "Float": "FLOAT",
        "Int64": "BIGINT",
        "UInt64": "DECIMAL(20,0)",
        "Int32": "INT",
        "UInt32": "BIGINT",
        "Bool": "BOOLEAN",
        "String": "STRING",
        "Bytes": "BINARY",
    }.items()
}
TIMESTAMP, DURATION = f"{GOOGLE}Timestamp", f"{GOOGLE}Duration"
AS_JSON = frozenset({f"{GOOGLE}Struct", f"{GOOGLE}Value", f"{GOOGLE}ListValue"})
WELL_KNOWN = {**WRAPPERS, TIMESTAMP: "TIMESTAMP", DURATION: "BIGINT", **dict.fromkeys(AS_JSON, "STRING")}
_F = FieldDescriptor
SCALARS = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), "INT"),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), "BIGINT"),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), "BIGINT"),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), "DECIMAL(20,0)"),
    _F.TYPE_DOUBLE: "DOUBLE",
    _F.TYPE_FLOAT: "FLOAT",
    _F.TYPE_BOOL: "BOOLEAN",
    _F.TYPE_STRING: "STRING",
    _F.TYPE_BYTES: "BINARY",
    _F.TYPE_ENUM: "STRING",
}


def column_of(field: FieldDescriptor, above: tuple[str, ...] = ()) -> str:
    """The type of a field's column as DDL.

    In:     above  messages in which it stands
    Raises: SchemaError for a type that no column can have
    """
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"MAP<{column_of(key)}, {column_of(value, above)}>"
    one = _one(field, above)
    return f"ARRAY<{one}>" if field.is_repeated else one


def _one(field: FieldDescriptor, above: tuple[str, ...]) -> str:
    message = field.message_type
    if message is None:
        return SCALARS[field.type]
    if message.full_name in WELL_KNOWN:
        return WELL_KNOWN[message.full_name]
    if message.full_name in above:
        raise SchemaError(f"message {message.full_name} holds itself: recursive types have no column type")
    if not message.fields:
        return "BOOLEAN"
    inside = (*above, message.full_name)
    return f"STRUCT<{', '.join(f'{quote(f.name)}: {column_of(f, inside)}' for f in message.fields)}>"


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map."""
    message = field.message_type
    return bool(message is not None and message.GetOptions().map_entry)


def indexes_of(message: Descriptor, *, map_entries: bool) -> tuple[int, ...]:
    """Where a message stands in its file: the wire format of registries names messages so.

    A map field creates a nested message for its entries, which a descriptor holds and the text of a .proto file does not.
    In:     map_entries  whether such messages count
    Source: `_create_index_array` of confluent-kafka (they count); `ProtobufSchema.toMessageIndexes` of Confluent's registry
            (they count in a schema that was made of a class, and not in one that was read from text)
    """
    outer = message.containing_type
    if outer is None:
        return (list(message.file.message_types_by_name).index(message.name),)
    names = [each.name for each in outer.nested_types if map_entries or not each.GetOptions().map_entry]
    return (*indexes_of(outer, map_entries=map_entries), names.index(message.name))


def mistakable(message: Descriptor) -> str | None:
    """The full name of a message that has this one's indexes in the other way of counting; None: there is none."""
    counted, uncounted = (indexes_of(message, map_entries=each) for each in (True, False))
    for other in _messages(message.file.message_types_by_name.values()):
        if other.GetOptions().map_entry or other.full_name == message.full_name:
            continue
        if (
            indexes_of(other, map_entries=False) == counted
            or indexes_of(other, map_entries=True) == uncounted
        ):
            return str(other.full_name)
    return None


def descriptors_of(message: Descriptor) -> bytes:
    """A set of the file of a message and of those that it uses, in bytes of one form."""
    files: dict[str, FileDescriptor] = {}

    def collect(file: FileDescriptor) -> None:
        for used in file.dependencies:
            collect(used)
        files.setdefault(file.name, file)

    collect(message.file)
    found = descriptor_pb2.FileDescriptorSet()
    for file in files.values():
        file.CopyToProto(found.file.add())
    content: bytes = found.SerializeToString(deterministic=True)
    return content


def message_in(descriptors: bytes, name: str) -> Descriptor:
    """A message of a set of descriptors. In: name  with its package, or without if that is clear.

    Raises: SchemaError
    """
    pool, files = _pool(descriptors)
    names = [each.full_name for file in files for each in _messages(file.message_types_by_name.values())]
    found = [each for each in names if each == name] or [each for each in names if each.endswith(f".{name}")]
    if len(found) != 1:
        shown = ", ".join(each for each in names if not each.startswith(GOOGLE)) or "none"
        raise SchemaError(f"message '{name}' is not among its messages, or not one alone; they are {shown}")
    return pool.FindMessageTypeByName(found[0])


@lru_cache(maxsize=64)
def parser_of(descriptors: bytes, name: str) -> tuple[Descriptor, Callable[[bytes], Any]]:
    """The message of that full name, and what makes one of bytes."""
    pool, _ = _pool(descriptors)
    message = pool.FindMessageTypeByName(name)
    return message, message_factory.GetMessageClass(message).FromString


@lru_cache(maxsize=64)
def _pool(descriptors: bytes) -> tuple[descriptor_pool.DescriptorPool, list[FileDescriptor]]:
    pool, files = descriptor_pool.DescriptorPool(), []
    try:
        for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
            pool.Add(file)
            files.append(file.name)
        return pool, [pool.FindFileByName(name) for name in files]
    except Exception as error:  # of Protobuf, which has many classes for what is no descriptor
        raise SchemaError(f"it is no set of descriptors with all files that it uses: {error}") from None


def _messages(outer: Any) -> Iterator[Descriptor]:
    for message in outer:
        yield message
        yield from _messages(message.nested_types)
