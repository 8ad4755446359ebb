"""Keys and values as people write them in Python, as the bytes of a topic: for drivers, traffic and workbenches.

Law: no registry is changed. The same row in two formats gives the same columns.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.description.formats import Avro, JsonSchema, PlainValue, Protobuf
from headrace.errors import TerminalError, TransientError
from headrace.sequence.decode import plain_reader
from headrace.sequence.encodings import JsonBytes
from headrace.sequence.parse.types import fields_of
from headrace.sequence.readers.plain_values import written
from headrace.sequence.reasons import Reasons
from headrace.sinks.encoding.avro_rows import AvroRows, avro_schema, avro_trip
from headrace.sinks.encoding.encoder import Encoder, encoder_of
from headrace.sinks.encoding.protobuf_rows import ProtobufRows, message_indexes, protobuf_trip

if TYPE_CHECKING:
    from headrace.description import Topic

Encode = Callable[[Mapping[str, Any]], bytes]
ENCODED = (Avro, Protobuf, JsonSchema)
OWN_ID = (1 << 31) - 1  # of a schema that no registry was asked for; a registry counts from 1


def frame(schema_id: int) -> bytes:
    """The magic byte and the id of a schema, with which registered records begin."""
    return b"\0" + schema_id.to_bytes(4, "big")


def record_bytes(topic: Topic, part: str, content: Any, *, own_schema: bool = False) -> bytes | None:
    """A record's key or value as bytes: bytes and texts as they are, all else as the topic's format has it, or as JSON.

    In:     part        "key" or "value"
            content     a plain value, or a mapping of columns; None: there is none
            own_schema  see `encode_of`
    Raises: TerminalError when the content does not fit the format; RegistryAwayError
    """
    of, columns = (
        (topic.key_format, topic.key_columns) if part == "key" else (topic.format, topic.value_columns)
    )
    plain = isinstance(of, PlainValue) or (part == "key" and topic.scalar_key and not isinstance(of, ENCODED))
    if plain and isinstance(content, Mapping):
        content = content[columns[0].name]
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(of, ENCODED):
        if not isinstance(content, Mapping):
            raise TerminalError(
                f"Topic '{topic.name}': the {part} {content!r} is neither bytes nor a dict of columns.",
                hint=f"Its {part}s are {type(of).__name__}. Give a dict, which is encoded, or the bytes of your producer.",
            )
        return encode_of(topic, part, own_schema=own_schema)(content)
    if isinstance(of, PlainValue):
        try:
            return written(of.kind, content)
        except (TypeError, ValueError, OverflowError, struct.error) as error:
            raise TerminalError(
                f"Topic '{topic.name}': the {part} {content!r} is no {of.kind}.", detail=str(error)
            ) from None
    return str(content).encode() if plain or isinstance(content, str) else json_bytes(content)


def json_bytes(content: Any) -> bytes:
    """Values of Python as JSON: decimals and times are texts, and bytes are Base64, as columns read them."""
    return json.dumps(content, default=_as_json).encode()


@lru_cache
def encode_of(topic: Topic, part: str, *, own_schema: bool = False) -> Encode:
    """Make bytes of rows of a topic whose format is of `ENCODED`.

    In:     part        "key" or "value"
            own_schema  True: Avro of a registry names `OWN_ID`, and the registry is not asked (see `own_avro_schema`)
    Raises: TerminalError when its registry does not have the schema, or the columns do not fit it; RegistryAwayError
    """
    of = topic.key_format if part == "key" else topic.format
    if isinstance(of, JsonSchema):
        return lambda row: frame(1) + json_bytes(dict(row))  # readers do not ask for the id
    fields = fields_of(topic.key_columns if part == "key" else topic.value_columns)
    encoder = _encoder(of, topic, part, pa.schema(fields), own_schema)
    read = plain_reader(part, fields, part, JsonBytes())

    def encode(row: Mapping[str, Any]) -> bytes:
        raw, reasons = pa.array([json_bytes(dict(row))], pa.binary()), Reasons(1)
        (found,) = encoder.encoded(read(raw, reasons).structs).to_pylist()
        problem = reasons.as_column()[0].as_py() or found["problem"]
        if problem is not None:
            raise TerminalError(
                f"Topic '{topic.name}': the {part} {row!r} cannot be written: {problem}.",
                hint="Give a time as a text or a datetime, bytes in Base64, and all else as JSON has it; or give the bytes "
                "of your producer.",
            )
        content: bytes = found["content"]
        return content

    return encode


def is_encodable(topic: Topic, part: str) -> bool:
    """Whether the registry of a part, if it names one, answers, and has the schema."""
    try:
        encode_of(topic, part)
    except (TerminalError, TransientError):
        return False
    return True


def own_avro_schema(topic: Topic, part: str) -> tuple[str, str] | None:
    """The registry's address and the schema with which `own_schema` writes; None: the part names no schema of a registry.

    Raises: TerminalError when the columns are not all of the schema: such rows are given as bytes
    """
    of = topic.key_format if part == "key" else topic.format
    if not isinstance(of, Avro) or of.url is None:
        return None
    columns = pa.schema(fields_of(topic.key_columns if part == "key" else topic.value_columns))
    return of.url, avro_schema(of, topic.name, part, columns, f"Topic '{topic.name}': {part}")


def _encoder(of: Any, topic: Topic, part: str, columns: pa.Schema, own_schema: bool) -> Encoder:
    what = f"Topic '{topic.name}': {part}"
    own = own_avro_schema(topic, part) if own_schema else None
    if own is not None:
        _, schema = own
        return Encoder(AvroRows(schema), frame(OWN_ID), avro_trip(schema, columns, what))
    if not isinstance(of, Protobuf):
        return encoder_of(of, topic.name, part, columns, register=False)
    indexes = message_indexes(of, map_entries=of.map_entries is not False) if of.registered else b""
    prefix = frame(1) + indexes if of.registered else b""
    return Encoder(ProtobufRows.of(of, columns, what), prefix, protobuf_trip(of, columns, what))


def _as_json(value: object) -> str:
    match value:
        case Decimal():
            return str(value)
        case dt.datetime() | dt.date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} {value!r} is no value of JSON")
