"""The encoder of a sink's keys or values: chosen and checked on the driver, used in tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from headrace.description.formats import Avro, Format, JsonSchema, PlainValue, Protobuf
from headrace.description.formats.registry import address_of
from headrace.errors import TerminalError
from headrace.sinks.encoding.avro_rows import AvroRows, avro_schema, avro_trip
from headrace.sinks.encoding.json_schema import json_schema, json_trip
from headrace.sinks.encoding.plain_rows import PlainRows, plain_trip
from headrace.sinks.encoding.protobuf_rows import ProtobufRows, protobuf_trip, registered_message
from headrace.sinks.encoding.round_trip import RoundTrip
from headrace.sinks.encoding.subjects import subject_schema
from headrace.sinks.encoding.values import plain_values

PROBLEM_MAX = 200  # letters


class RowEncoder(Protocol):
    """Makes bytes of rows; goes to tasks."""

    def function(self) -> Callable[[Any], bytes | None]:
        """A function of the columns of one row, by name, as Python values. It raises when they do not fit.

        Out: None: a key that is null
        """
        ...


@dataclass(frozen=True)
class Encoder:
    """Makes bytes of many rows.

    rows    None: rows are JSON, which Spark writes
    prefix  for registries: the magic byte, the id, and the indexes of a message
    trip    reads the bytes back
    """

    rows: RowEncoder | None
    prefix: bytes
    trip: RoundTrip

    def encoded(self, structs: pa.Array) -> pa.Array:
        """For each row `content`, its bytes, or `problem`, why it has none; both are null where the struct is.

        In:  structs  of the columns; Spark wants these very types of its functions
        Law: what our reader reads of the bytes is the row
        """
        assert self.rows is not None
        encode, contents, problems = self.rows.function(), list[bytes | None](), list[str | None]()
        for row in plain_values(structs, self.trip.read):
            content = problem = None
            if row is not None:
                try:
                    if isinstance(row, Exception):
                        raise row
                    content = encode(row)
                except Exception as error:  # whatever a library says, it is the row that does not fit
                    problem = f"it does not fit its schema: {type(error).__name__}: {error}"[:PROBLEM_MAX]
            contents.append(content)
            problems.append(problem)
        return self._checked(structs, pa.array(contents, pa.binary()), problems)

    def checked(self, structs: pa.Array, contents: pa.Array) -> pa.Array:
        """The same of rows that are JSON. In: contents  their bytes, without `prefix`."""
        return self._checked(structs, contents, [None] * len(contents))

    def _checked(self, structs: pa.Array, contents: pa.Array, problems: Sequence[str | None]) -> pa.Array:
        back = self.trip.problems(structs, contents)
        both = [one or other for one, other in zip(problems, back, strict=True)]
        whole = [
            None if content is None or why is not None else self.prefix + content
            for content, why in zip(contents.to_pylist(), both, strict=True)
        ]
        reasons = [why and why[:PROBLEM_MAX] for why in both]
        columns = [pa.array(whole, pa.binary()), pa.array(reasons, pa.string())]
        return pa.StructArray.from_arrays(columns, names=["content", "problem"])


def encoder_of(of: Format, topic: str, part: str, columns: pa.Schema, *, register: bool) -> Encoder:
    """The encoder of a topic's keys or values.

    In:     part      "key" or "value"
            columns   of the rows
            register  False: a schema that the registry does not have yet is refused
    Raises: TerminalError when the columns do not fit the schema, or the registry refuses it; RegistryAwayError
    """
    what = f"KafkaSink '{topic}': {part}"
    match of:
        case Avro():
            schema = avro_schema(of, topic, part, columns, what)
            trip = avro_trip(schema, columns, what)
            return Encoder(AvroRows(schema), _prefix(of, topic, part, "AVRO", schema, register), trip)
        case JsonSchema():
            schema, trip = json_schema(of, topic, part, columns), json_trip(of, columns, what)
            return Encoder(None, _prefix(of, topic, part, "JSON", schema, register), trip)
        case Protobuf():
            rows, trip = ProtobufRows.of(of, columns, what), protobuf_trip(of, columns, what)
            return Encoder(rows, registered_message(of, topic, part, what, register=register), trip)
        case PlainValue():
            plain = PlainRows(columns.names[0], of.kind, part == "key")
            return Encoder(plain, b"", plain_trip(of, columns, what))
    raise TerminalError(f"{what}: {type(of).__name__} is a format for reading alone.")


def _prefix(of: Avro | JsonSchema, topic: str, part: str, kind: str, schema: str, register: bool) -> bytes:
    if of.registry is None:
        return b""
    url, subject = address_of(of.registry, kind), of.subject or f"{topic}-{part}"
    return b"\0" + subject_schema(url, subject, kind, schema, (), register=register).id.to_bytes(4, "big")
