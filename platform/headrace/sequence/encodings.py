"""How keys and values are written that are not plain JSON, as plain values that go to tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.description.formats import Avro, JsonSchema, Protobuf
from headrace.description.formats.avro_types import AvroType
from headrace.description.formats.registry import RegisteredSchema

if TYPE_CHECKING:
    from headrace.description import Topic


@dataclass(frozen=True)
class KnownSchemas:
    """What is known of registries, by their address and the id.

    schemas  those that a registry gave
    unknown  ids of which it said that it does not have them
    """

    schemas: Mapping[tuple[str, int], RegisteredSchema] = field(default_factory=dict)
    unknown: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True)
class AvroBytes:
    """Avro.

    reader  the schema to which records are resolved; None: to the columns
    url     of the registry whose ids records begin with; None: they are written with `reader`
    """

    reader: AvroType | None
    url: str | None
    known: KnownSchemas


@dataclass(frozen=True)
class ProtobufBytes:
    """Protobuf: the set of descriptors, and the full name of the message; `registered`: see `description.formats`."""

    descriptors: bytes
    message: str
    registered: bool


@dataclass(frozen=True)
class FramedJson:
    """JSON after a magic byte and the id of a schema."""


Encoding = AvroBytes | ProtobufBytes | FramedJson


def encoding_of(topic: Topic, part: str, known: KnownSchemas) -> Encoding | None:
    """How a topic's keys or values are written; None: as plain JSON, or as the text of a key. In: part  "key" or "value"."""
    described, declared = (topic.key_format, topic.key) if part == "key" else (topic.format, topic.value)
    match described:
        case Avro():
            return AvroBytes(described.reader(topic.name, part, declared), described.url, known)
        case Protobuf(message=str(message), schema=bytes(descriptors), registered=registered):
            return ProtobufBytes(descriptors, message, registered)
        case JsonSchema():
            return FramedJson()
    return None
