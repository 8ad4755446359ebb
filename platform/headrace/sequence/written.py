"""Keys and values as people write them in Python, as the bytes of a topic: for drivers, traffic and workbenches."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.description.formats import PlainValue
from headrace.errors import TerminalError
from headrace.sequence.readers.plain_values import written

if TYPE_CHECKING:
    from headrace.description import Topic


def record_bytes(topic: Topic, part: str, content: Any) -> bytes | None:
    """A record's key or value as bytes: bytes and texts as they are, all else as the topic's format has it, or as JSON.

    In:     part     "key" or "value"
            content  a plain value, or a mapping of columns; None: there is none
    Raises: TerminalError when a plain value does not fit the format
    """
    of, columns = (
        (topic.key_format, topic.key_columns) if part == "key" else (topic.format, topic.value_columns)
    )
    plain = isinstance(of, PlainValue) or (part == "key" and topic.scalar_key)
    if plain and isinstance(content, Mapping):
        content = content[columns[0].name]
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(of, PlainValue):
        try:
            return written(of.kind, content)
        except (TypeError, ValueError, OverflowError, struct.error) as error:
            raise TerminalError(
                f"Topic '{topic.name}': the {part} {content!r} is no {of.kind}.", detail=str(error)
            ) from None
    return str(content).encode() if plain or isinstance(content, str) else json.dumps(content).encode()
