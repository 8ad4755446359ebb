"""Keys or values of a topic that are Protobuf, many at a time.

Law: see `headrace.sequence.protobuf`.
Source: Confluent's wire format (see `framing`): before the payload stands how many indexes lead to the message in its file,
and the indexes themselves, as zigzag varints; the one index 0 is written as the number 0. Clients differ in whether the
messages of map entries count (see `indexes_of`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError

from headrace.description.formats.protobuf_types import indexes_of, parser_of
from headrace.sequence.encodings import ProtobufBytes
from headrace.sequence.protobuf.values import fields_taken
from headrace.sequence.readers.framing import HEADER_BYTES
from headrace.sequence.readers.read_part import ReadPart
from headrace.sequence.reasons import Reasons

MESSAGE_MAX = 160  # letters of an error


class Unreadable(Exception):
    """A record is not what was described; the message says why."""


class ProtobufReader:
    """Reads keys, or values, into structs of some fields."""

    def __init__(self, of: ProtobufBytes, fields: Sequence[pa.Field], what: str) -> None:
        """In: what  "key" or "value", as reasons call it."""
        self._what, self._registered, self._type = what, of.registered, pa.struct(list(fields))
        message, self._parse = parser_of(of.descriptors, of.message)
        self._take = fields_taken(message, [field.name for field in fields])
        self._name = message.full_name
        countings = (True, False) if of.map_entries is None else (of.map_entries,)
        self._indexes = {indexes_of(message, map_entries=each) for each in countings}

    def read(self, raw: pa.Array, reasons: Reasons) -> ReadPart:
        """Bytes as structs; null where there are none, and where they are malformed."""
        values = [self._value(row, record, reasons) for row, record in enumerate(raw.to_pylist())]
        try:
            return ReadPart(pa.array(values, self._type))
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return ReadPart(pa.array(self._taken(values, reasons), self._type))

    def _value(self, row: int, record: bytes | None, reasons: Reasons) -> Any:
        if record is None:
            return None
        try:
            return self._take(self._parse(self._payload(record) if self._registered else record))
        except Unreadable as why:
            reasons.add_one(row, f"malformed {self._what}: {why}")
        except DecodeError:
            reasons.add_one(row, f"malformed {self._what}: its bytes are no {self._name}")
        except Exception as error:  # whatever the bytes make of the values, the record is to blame
            reasons.add_one(row, f"malformed {self._what}: {error}"[:MESSAGE_MAX])
        return None

    def _payload(self, record: bytes) -> bytes:
        if len(record) <= HEADER_BYTES:
            raise Unreadable(
                "it is too short for a magic byte, the id of a schema and the indexes of a message"
            )
        if record[0] != 0:
            raise Unreadable(f"its first byte is {record[0]}, not the magic byte 0")
        number, at = _varint(record, HEADER_BYTES)
        if number < 0:
            raise Unreadable(f"it has {number} indexes of its message")
        indexes = []
        for _ in range(min(number, len(record))):
            index, at = _varint(record, at)
            indexes.append(index)
        if tuple(indexes or [0]) not in self._indexes:
            own = " or ".join(str([*each]) for each in sorted(self._indexes))
            raise Unreadable(f"it is message {indexes or [0]} of its schema, and {self._name} is {own}")
        return record[at:]

    def _taken(self, values: list[Any], reasons: Reasons) -> list[Any]:
        """The values that Arrow takes, others are null."""
        for row, value in enumerate(values):
            try:
                pa.array([value], self._type)
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                reasons.add_one(row, f"malformed {self._what}: a value does not fit: {error}"[:MESSAGE_MAX])
                values[row] = None
        return values


def _varint(record: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint that stands somewhere, and where it ends."""
    number = shift = 0
    for place in range(at, min(at + 5, len(record))):
        number |= (record[place] & 0x7F) << shift
        shift += 7
        if record[place] < 0x80:
            return (number >> 1) ^ -(number & 1), place + 1
    raise Unreadable("the indexes of its message are cut short")
