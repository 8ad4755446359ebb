"""The encoder of a sink's keys or values: chosen and checked on the driver, used in tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Protocol

import pyarrow as pa

from headrace.description.arrow_types import arrow_type
from headrace.description.formats import Avro, Format, JsonSchema, PlainValue, Protobuf
from headrace.description.formats.avro_types import SchemaError
from headrace.description.formats.registry import address_of
from headrace.description.python_rows import python_rows
from headrace.description.schema import parse_type
from headrace.errors import TerminalError
from headrace.sequence.encodings import JsonBytes
from headrace.sinks.encoding.avro_rows import AvroRows, avro_schema, avro_trip
from headrace.sinks.encoding.plain_rows import PlainRows, plain_trip
from headrace.sinks.encoding.protobuf_rows import ProtobufRows, protobuf_trip, registered_message
from headrace.sinks.encoding.round_trip import RoundTrip, require_fit
from headrace.sinks.encoding.subjects import SchemaText, subject_schema

PROBLEM_MAX = 200  # letters
Change = Callable[[Any], Any]
_WIDE = Context(prec=2 * 38)
DRAFT = "http://json-schema.org/draft-07/schema#"
_TYPES: tuple[tuple[Callable[[pa.DataType], bool], dict[str, Any]], ...] = (
    (pa.types.is_boolean, {"type": ["null", "boolean"]}),
    (pa.types.is_integer, {"type": ["null", "integer"]}),
    (pa.types.is_floating, {"type": ["null", "number", "string"]}),  # NaN and infinities are texts
    (pa.types.is_decimal, {"type": ["null", "number"]}),
    (pa.types.is_date, {"type": ["null", "string"], "format": "date"}),
    (pa.types.is_timestamp, {"type": ["null", "string"], "format": "date-time"}),
)


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
    known = subject_schema(url, subject, SchemaText(kind, schema), register=register)
    return b"\0" + known.id.to_bytes(4, "big")


def plain_values(structs: pa.StructArray, read: pa.Schema | None = None) -> Iterator[Any]:
    """Each struct as a dict; None where it is null; an error where Python has no such value, as a time in the year 10000.

    In: read  the types as which the columns are read: numbers that are read as decimals get the scale of those
    """
    change = _change(structs.type, None if read is None else pa.struct(list(read)))
    for value in python_rows(structs):
        yield change(value) if change is not None and isinstance(value, dict) else value


def _change(of: pa.DataType, read: pa.DataType | None) -> Change | None:
    """Choose how values of a type become plain ones; None: they are plain already. In: read  as which they are read."""
    if pa.types.is_struct(of):
        types = (
            {field.name: field.type for field in read}
            if read is not None and pa.types.is_struct(read)
            else {}
        )
        changes = {
            field.name: change
            for field in of
            if (change := _change(field.type, types.get(field.name))) is not None
        }
        if not changes:
            return None
        return lambda value: (
            value
            | {name: None if value[name] is None else change(value[name]) for name, change in changes.items()}
        )
    if pa.types.is_map(of):
        items = read.item_type if read is not None and pa.types.is_map(read) else None
        change = _change(of.item_type, items) or (lambda value: value)
        return lambda value: {key: None if each is None else change(each) for key, each in value}
    if pa.types.is_list(of):
        inner = _change(
            of.value_type, read.value_type if read is not None and pa.types.is_list(read) else None
        )
        return inner and (lambda value: [None if each is None else inner(each) for each in value])
    if read is not None and pa.types.is_decimal(read) and of != read:
        digits = Decimal(1).scaleb(-read.scale)
        return lambda value: _with_digits(Decimal(value), digits)
    return None


def _with_digits(value: Decimal, digits: Decimal) -> Decimal:
    """The same number with so many digits behind the point; unchanged if it has more."""
    rounded = value.quantize(digits, context=_WIDE)
    return rounded if rounded == value else value


def json_schema(of: JsonSchema, topic: str, part: str, columns: pa.Schema) -> str:
    """The schema that is registered: the described one, or that of the columns."""
    if of.schema is None:
        properties = {column.name: _type(column.type) for column in columns}
        return json.dumps(
            {"$schema": DRAFT, "title": f"{topic}-{part}", "type": "object", "properties": properties}
        )
    return str(of.schema)


def json_trip(of: JsonSchema, columns: pa.Schema, what: str) -> RoundTrip:
    """The way back of rows that are JSON.

    Raises: TerminalError when a column is no property of the described schema, or its values cannot come back
    """
    if of.schema is None:
        return RoundTrip(JsonBytes(), columns)

    def read(name: str) -> pa.DataType:
        try:
            found = of.property_type(name)
        except SchemaError as error:
            raise TerminalError(f"{what}: property '{name}' cannot be written: {error}.") from None
        if found is None:
            raise TerminalError(
                f"{what}: column '{name}' is no property of the JSON Schema; these are {', '.join(of.properties)}.",
                hint="Add it to the schema, or leave the column out with a select.",
            )
        return arrow_type(parse_type(found, what))

    return RoundTrip(JsonBytes(), require_fit(columns, read, "JSON Schema", what))


def _type(of: pa.DataType) -> dict[str, Any]:
    for test, found in _TYPES:
        if test(of):
            return found
    if pa.types.is_struct(of):
        return {"type": ["null", "object"], "properties": {field.name: _type(field.type) for field in of}}
    if pa.types.is_list(of):
        return {"type": ["null", "array"], "items": _type(of.value_type)}
    if pa.types.is_map(of):
        return {"type": ["null", "object"], "additionalProperties": _type(of.item_type)}
    return {"type": ["null", "string"]}
