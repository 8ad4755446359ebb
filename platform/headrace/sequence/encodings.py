"""How keys and values are written that are not plain JSON, as plain values that go to tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.description.formats import Avro, Csv, Debezium, Json, JsonSchema, PlainValue, Protobuf, Text
from headrace.description.formats.avro_types import AvroType
from headrace.description.formats.registry import RegisteredSchema

if TYPE_CHECKING:
    from headrace.description import Topic


@dataclass(frozen=True)
class KnownSchemas:
    """The answers of registries, by their address and the id.

    schemas  schemas that a registry gave
    unknown  ids that a registry does not have
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
    """Protobuf: the set of descriptors, and the full name of the message; the others: see `description.formats`."""

    descriptors: bytes
    message: str
    registered: bool
    map_entries: bool | None = None


@dataclass(frozen=True)
class JsonBytes:
    """JSON.

    framed   it stands after a magic byte and the id of a schema
    path     names that lead to the object of the columns
    lines    it is one object a line, and the one column is a list of them
    unknown  the column that takes the fields that no column has
    gzip     it may be compressed
    """

    framed: bool = False
    path: tuple[str, ...] = ()
    lines: bool = False
    unknown: str | None = None
    gzip: bool = False


@dataclass(frozen=True)
class CsvBytes:
    """Lines of CSV. `gzip`: they may be compressed."""

    separator: str
    gzip: bool


@dataclass(frozen=True)
class ValueBytes:
    """One value without a name.

    kind  see `PlainValue.kind`
    gzip  it may be compressed
    """

    kind: str
    gzip: bool = False


@dataclass(frozen=True)
class DebeziumBytes:
    """Envelopes of Debezium; of keys, which have none, what may stand around them.

    inner  how envelopes are written
    operation, changed_at, transaction  columns beside those of the table; None: there is none
    """

    inner: AvroBytes | JsonBytes
    operation: str | None = None
    changed_at: str | None = None
    transaction: str | None = None

    @property
    def more(self) -> frozenset[str | None]:
        """The columns that are not the table's."""
        return frozenset({self.operation, self.changed_at, self.transaction})

    @property
    def may_be_wrapped(self) -> bool:
        """Whether Kafka Connect's `schema` and `payload` may stand around them."""
        return isinstance(self.inner, JsonBytes)


PlainEncoding = AvroBytes | ProtobufBytes | JsonBytes | CsvBytes | ValueBytes
Encoding = PlainEncoding | DebeziumBytes


def encoding_of(topic: Topic, part: str, known: KnownSchemas) -> Encoding | None:
    """How a topic's keys or values are written; None: as plain JSON, or as the text of a key. In: part  "key" or "value"."""
    described, declared = (topic.key_format, topic.key) if part == "key" else (topic.format, topic.value)
    match described:
        case Debezium(format=inner):
            if part == "key" and isinstance(inner, Avro):
                return AvroBytes(inner.reader(topic.name, part, declared), inner.url, known)
            written = (
                AvroBytes(inner.reader(topic.name, part, declared), inner.url, known)
                if isinstance(inner, Avro)
                else JsonBytes()
            )
            more = () if part == "key" else (described.operation, described.changed_at, described.transaction)
            return DebeziumBytes(written, *more)
        case Avro():
            return AvroBytes(described.reader(topic.name, part, declared), described.url, known)
        case Protobuf(message=str(message), schema=bytes(descriptors)):
            return ProtobufBytes(descriptors, message, described.registered, described.map_entries)
        case Csv(separator=separator, gzip=gzip):
            return CsvBytes(separator, gzip)
        case PlainValue(kind=kind):
            return ValueBytes(kind, isinstance(described, Text) and described.gzip)
        case JsonSchema():
            return JsonBytes(framed=True)
        case Json(value_path=path, lines=lines, unknown=unknown, gzip=gzip):
            return JsonBytes(False, () if path is None else tuple(path.split(".")), lines, unknown, gzip)
    return None
