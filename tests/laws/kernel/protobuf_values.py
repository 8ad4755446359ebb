"""Messages of Protobuf described in Python, as protoc would describe them."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

Field = descriptor_pb2.FieldDescriptorProto
WELL_KNOWN = (any_pb2, duration_pb2, empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
# Of scalars: name, column type, values and what their columns hold.
SCALARS: tuple[tuple[int, str, tuple[Any, ...]], ...] = (
    (Field.TYPE_DOUBLE, "DOUBLE", (0.0, -1.5, float("inf"))),
    (Field.TYPE_FLOAT, "FLOAT", (0.0, 0.25)),
    (Field.TYPE_INT32, "INT", (0, -(2**31), 2**31 - 1)),
    (Field.TYPE_SINT64, "BIGINT", (0, -(2**63), 2**63 - 1)),
    (Field.TYPE_UINT32, "BIGINT", (0, 2**32 - 1)),
    (Field.TYPE_FIXED64, "DECIMAL(20,0)", (0, 2**64 - 1)),
    (Field.TYPE_BOOL, "BOOLEAN", (False, True)),
    (Field.TYPE_STRING, "STRING", ("", "é漢\U0001f600")),
    (Field.TYPE_BYTES, "BINARY", (b"", b"\xff\0")),
)


def field(name: str, number: int, of: int | str, **more: Any) -> Any:
    """A field of a scalar type, or of a message or an enum by its full name."""
    if isinstance(of, int):
        return Field(name=name, number=number, type=of, label=Field.LABEL_OPTIONAL, **more)
    return Field(name=name, number=number, type_name=f".{of}", label=Field.LABEL_OPTIONAL, **more)


def compiled(*messages: descriptor_pb2.DescriptorProto, **more: Any) -> dict[str, Any]:
    """Classes of messages by their full names, of a file of syntax proto3 and package `p`."""
    names = [module.DESCRIPTOR.name for module in WELL_KNOWN]
    file = descriptor_pb2.FileDescriptorProto(
        name="p.proto", package="p", syntax="proto3", dependency=names, message_type=messages, **more
    )
    pool = descriptor_pool.DescriptorPool()
    for module in WELL_KNOWN:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return {
        f"p.{message.name}": message_factory.GetMessageClass(pool.FindMessageTypeByName(f"p.{message.name}"))
        for message in messages
    }


def message(name: str, *fields: Any, **more: Any) -> descriptor_pb2.DescriptorProto:
    """A message; fields with presence of their own get the `oneof` that proto3 needs for it."""
    made = descriptor_pb2.DescriptorProto(name=name, field=fields, **more)
    for each in made.field:
        if each.proto3_optional:
            each.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{each.name}")
    return made


def some_message(
    random: Random,
) -> tuple[descriptor_pb2.DescriptorProto, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """A message of scalars, single, optional and repeated; and values, as it is made of and as columns hold them."""
    kinds = [
        (random.choice(SCALARS), random.choice(("single", "optional", "repeated")))
        for _ in range(random.randrange(1, 6))
    ]
    numbers = random.sample(range(1, 3000), len(kinds))
    fields: list[Any] = []
    for place, ((of, _, _), kind) in enumerate(kinds):
        each = field(f"f{place}", numbers[place], of, proto3_optional=kind == "optional")
        each.label = Field.LABEL_REPEATED if kind == "repeated" else Field.LABEL_OPTIONAL
        fields.append(each)
    pairs = []
    for _ in range(random.randrange(1, 5)):
        given: dict[str, Any] = {}
        held: dict[str, Any] = {}
        for place, ((of, _, values), kind) in enumerate(kinds):
            name = f"f{place}"
            if kind == "repeated":
                given[name] = [random.choice(values) for _ in range(random.randrange(3))]
                held[name] = [_held(of, value) for value in given[name]]
            elif random.random() < 0.3:
                held[name] = None if kind == "optional" else _held(of, values[0])
            else:
                given[name] = random.choice(values)
                held[name] = _held(of, given[name])
        pairs.append((given, held))
    return message("M", *fields), pairs


def _held(of: int, value: Any) -> Any:
    return Decimal(value) if of == Field.TYPE_FIXED64 else value
