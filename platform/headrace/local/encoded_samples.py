"""Sample rows in the bytes of Avro, Protobuf and JSON with a schema.

Law: no registry is changed. A topic whose records name a schema of a registry gets samples if the registry has its schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.description.formats import Avro, JsonSchema, Protobuf
from headrace.errors import TerminalError, TransientError
from headrace.sequence.decode import plain_reader
from headrace.sequence.encodings import JsonBytes
from headrace.sequence.parse.types import fields_of
from headrace.sequence.reasons import Reasons
from headrace.sinks.encoding.encoder import Encoder, encoder_of
from headrace.sinks.encoding.protobuf_rows import ProtobufRows, message_indexes, protobuf_trip

if TYPE_CHECKING:
    from headrace.description import Topic

Encode = Callable[[Mapping[str, Any]], bytes]
ENCODED = (Avro, Protobuf, JsonSchema)
# The magic byte and the id of a schema, which readers of two formats do not ask for.
FRAME = b"\0" + (1).to_bytes(4, "big")


@lru_cache
def encode_of(topic: Topic, part: str) -> Encode | None:
    """Make bytes of a sample row; None: its registry does not have the schema, or does not answer.

    In: part  "key" or "value" of the topic, whose format is of `ENCODED`. Rows are as JSON has them
    """
    of = topic.key_format if part == "key" else topic.format
    if isinstance(of, JsonSchema):
        return lambda row: FRAME + json.dumps(dict(row)).encode()
    fields = fields_of(topic.key_columns if part == "key" else topic.value_columns)
    try:
        encoder = _encoder(of, topic, part, pa.schema(fields))
    except (TerminalError, TransientError):
        return None
    read = plain_reader(part, fields, part, JsonBytes())

    def encode(row: Mapping[str, Any]) -> bytes:
        raw = pa.array([json.dumps(dict(row)).encode()], pa.binary())
        (found,) = encoder.encoded(read(raw, Reasons(1)).structs).to_pylist()
        if found["problem"] is not None:
            raise TerminalError(
                f"Topic '{topic.name}': a sample {part} cannot be written: {found['problem']}."
            )
        content: bytes = found["content"]
        return content

    return encode


def _encoder(of: Any, topic: Topic, part: str, columns: pa.Schema) -> Encoder:
    if not isinstance(of, Protobuf):
        return encoder_of(of, topic.name, part, columns, register=False)
    what = f"Topic '{topic.name}': {part}"
    prefix = FRAME + message_indexes(of, map_entries=of.map_entries is not False) if of.registered else b""
    return Encoder(ProtobufRows.of(of, columns, what), prefix, protobuf_trip(of, columns, what))
