"""Protobuf, described: the message of which a topic's keys or values are, and what columns it gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.description.ddl import quote
from headrace.description.formats.avro_types import SchemaError
from headrace.description.formats.format import Format, narrowed
from headrace.description.formats.registry import checked_url
from headrace.description.schema import Column, refuse_reserved
from headrace.description.ways_on import explained_call
from headrace.description.wording import a_value
from headrace.errors import DescriptionError


@explained_call
@dataclass(frozen=True)
class Protobuf(Format):
    """Keys or values that are Protobuf messages: `hr.Topic(…, format=hr.Protobuf(Order))`.

    In: `message`: a class that `protoc` generated, or the name of a message of `schema`.
    `schema`: a set of descriptors (`protoc --include_imports --descriptor_set_out=orders.desc …`), as bytes or as the
    `Path` of a file.
    `registered`: True: each record begins with a magic byte, the id of its schema and the indexes of its message, as
    Confluent's serializers write it. The registry is not asked: numbers of fields tell what the bytes mean, in each version
    of a message. Records of another message than this are dead letters.
    `map_entries`: whether the indexes count the messages that map fields create: True as serializers of generated classes
    write them, False as those that read a `.proto` text do, such as Headrace's sinks. None: both are read.
    `registry`, `subject`: for sinks: where the schema is registered, and under which name (default: `<topic>-value` or
    `<topic>-key`). Records of such a topic are `registered`.
    Out: columns from the message (see the guide on formats); `value=` and `key=` may narrow them.
    Raises: DescriptionError naming the value and the fix.
    """

    message: Any
    schema: bytes | Path | None = None
    registered: bool = False
    registry: str | None = None
    subject: str | None = None
    map_entries: bool | None = None

    def __post_init__(self) -> None:
        if self.registry is not None:
            checked_url(self.registry, "Protobuf")
            object.__setattr__(self, "registered", True)
        from headrace.description.formats.protobuf_types import descriptors_of, message_in

        try:
            if self.schema is None:
                descriptor = getattr(self.message, "DESCRIPTOR", None)
                if descriptor is None:
                    raise DescriptionError(
                        f"Protobuf: message {a_value(self.message)} is no class that protoc generated.",
                        hint="Give such a class, or a name, and its descriptors with schema=Path('orders.desc').",
                    )
            else:
                descriptor = message_in(_content(self.schema), str(self.message))
            object.__setattr__(self, "schema", descriptors_of(descriptor))
            object.__setattr__(self, "message", descriptor.full_name)
        except SchemaError as error:
            raise DescriptionError(f"Protobuf: schema cannot be used: {error}.") from None

    def columns(self, topic: str, part: str, declared: str | None) -> tuple[Column, ...]:
        """The columns of keys or values (see `Format.columns`)."""
        from headrace.description.formats.protobuf_types import column_of, mistakable, parser_of

        what = f"Topic '{topic}': {part}"
        assert isinstance(self.schema, bytes)
        message, _ = parser_of(self.schema, self.message)
        other = mistakable(message) if self.registered and self.map_entries is None else None
        if other is not None:
            raise DescriptionError(
                f"{what}: the indexes of {message.full_name} may also mean {other}.",
                detail="It stands after a map field, whose entries some serializers count as a message.",
                hint="Write map_entries=True if the producers serialize generated classes, "
                "map_entries=False if they read the .proto text, as Headrace's sinks do.",
            )
        if not message.fields:
            raise DescriptionError(f"{what}: the message {message.full_name} has no fields.")

        def column(name: str) -> str:
            refuse_reserved([name], what)
            try:
                return f"{quote(name)} {column_of(message.fields_by_name[name], (message.full_name,))}"
            except SchemaError as error:
                raise DescriptionError(
                    f"{what}: field '{name}' of {message.full_name} gives no column.",
                    detail=str(error),
                    hint=f"Leave it out: name the columns that you read with {part}='…'.",
                ) from None

        names = [field.name for field in message.fields]
        return narrowed(declared, names, column, what, f"message {message.full_name}")


def _content(schema: object) -> bytes:
    if isinstance(schema, bytes):
        return schema
    if not isinstance(schema, Path):
        raise DescriptionError(
            f"Protobuf: schema {a_value(schema)} is neither bytes nor a path.",
            hint="Give pathlib.Path('orders.desc'), which protoc --include_imports --descriptor_set_out writes.",
        )
    try:
        return schema.read_bytes()
    except OSError as error:
        raise DescriptionError(
            "Protobuf: the file of descriptors cannot be read.", detail=str(error)
        ) from None
