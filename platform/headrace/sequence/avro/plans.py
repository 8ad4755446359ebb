"""How the records of one schema are decoded: worked out once, used for each record.

Records are decoded some hundreds at a time: as one Avro array of them, with a mark after each. The marks prove that each
record took its own bytes and no others: they occur nowhere else, and each is read where a record ends. If one is not, or
anything else is odd, these records are decoded one by one, and each gets its own reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
from fastavro import parse_schema as fastavro_schema
from fastavro import schemaless_reader

from headrace.description.formats.avro_types import AvroType, SchemaError, parse_schema
from headrace.description.formats.registry import RegisteredSchema
from headrace.sequence.avro.columns import Mismatch, encoded_type, finished
from headrace.sequence.avro.meanings import other_meaning
from headrace.sequence.avro.shapes import Shape, has_choice, shape_of

MESSAGE_MAX = 160  # letters of an error that tells a whole schema
LEFT_OVER = "bytes are left over"
CUT = "it is cut short, or names a branch or a symbol that is not there"
TOGETHER = 512  # records that are decoded at once
MARK = b"\x9f\x1d\xe2HR\x07\xc3\x5a"  # no two of them overlap, for its first byte occurs in it once
BEYOND = "a date, a time or a decimal is beyond its column's range"


@dataclass(frozen=True)
class Plan:
    """Decodes records of one schema.

    reader  resolve to it; None: it is the writer's, or there is none
    rows_writer, rows_reader  the same of many records, as `_of_rows` has it
    shape   the schema of decoded values
    """

    writer: Any
    reader: Any
    rows_writer: Any
    rows_reader: Any
    shape: AvroType
    fields: tuple[pa.Field, ...]
    is_record: bool

    def decode(self, payloads: Sequence[bytes], begin: int) -> tuple[pa.StructArray, dict[int, str]]:
        """Structs of the fields, null where a record cannot be read; and why, by its place.

        In: begin  where Avro's bytes begin in each payload
        """
        why: dict[int, str] = {}
        values: list[Any] = []
        for first in range(0, len(payloads), TOGETHER):
            some = payloads[first : first + TOGETHER]
            values += self._together(some, begin) or [
                self._value(payload, begin, first + row, why) for row, payload in enumerate(some)
            ]
        whole = pa.struct(list(self.fields)) if self.is_record else self.fields[0].type
        encoded = encoded_type(self.shape, whole)
        try:
            read = pa.array(values, encoded)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            read = pa.array(self._taken(values, encoded, why), encoded)
        odd: list[np.ndarray] = []
        found = finished(read, self.shape, whole, np.arange(len(read)), odd)
        why |= dict.fromkeys(np.unique(np.concatenate(odd)).tolist(), BEYOND) if odd else {}
        if not self.is_record:
            found = pa.StructArray.from_arrays([found], fields=list(self.fields))
        return found, why

    def _together(self, payloads: Sequence[bytes], begin: int) -> list[Any]:
        """The values of some records; none: they have to be decoded one by one."""
        body = b"".join([part for payload in payloads for part in (payload[begin:], MARK)])
        if len(payloads) == 1 or body.count(MARK) != len(payloads):
            return []
        source = BytesIO(b"".join((_zigzag(len(payloads)), body, b"\0")))
        try:
            rows: Any = schemaless_reader(
                source, self.rows_writer, self.rows_reader, return_named_type=self._tagged
            )
            if source.read(1) or any(row["mark"] != MARK for row in rows):
                return []
            if self._shape is None:
                return [row["row"] for row in rows]
            return [self._shape(row["row"]) for row in rows]
        except Exception:  # one of them is to blame, and will say so
            return []

    def _value(self, payload: bytes, begin: int, row: int, why: dict[int, str]) -> Any:
        source = BytesIO(payload)
        source.seek(begin)
        try:
            value = schemaless_reader(source, self.writer, self.reader, return_named_type=self._tagged)
            if source.tell() < len(payload):
                why[row] = LEFT_OVER
                return None
            return value if self._shape is None else self._shape(value)
        except (EOFError, IndexError):
            why[row] = CUT
        except UnicodeDecodeError:
            why[row] = "a text is not UTF-8"
        except Exception as error:  # whatever the bytes make of the decoder, the record is to blame
            why[row] = f"{type(error).__name__}: {error}"[:MESSAGE_MAX]
        return None

    @cached_property
    def _shape(self) -> Shape | None:
        return shape_of(self.shape)

    @cached_property
    def _tagged(self) -> bool:
        return has_choice(self.shape)

    @staticmethod
    def _taken(values: list[Any], encoded: pa.DataType, why: dict[int, str]) -> list[Any]:
        """The values that Arrow takes, others are null."""
        for row, value in enumerate(values):
            try:
                pa.array([value], encoded)
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                why[row], values[row] = f"a value does not fit: {error}"[:MESSAGE_MAX], None
        return values


@lru_cache(maxsize=512)
def plan_of(
    writer: RegisteredSchema | AvroType, reader: AvroType | None, fields: tuple[pa.Field, ...]
) -> Plan | str:
    """The plan of a schema; a text: why its records cannot be read into these columns."""
    try:
        wrote = writer if isinstance(writer, AvroType) else _parsed(writer)
        shape = wrote if reader is None else _narrowed(reader, fields)
        whole = pa.struct(list(fields)) if shape.kind == "record" else fields[0].type
        if shape.kind != "record" and len(fields) != 1:
            return f"it is {shape.kind}, and there are {len(fields)} columns"
        encoded_type(shape, whole)
        if clash := other_meaning(wrote, shape):
            return clash
        same = reader is None or plain(_without_defaults(wrote)) == plain(_without_defaults(reader))
        resolved = None if same else fastavro_schema(plain(shape))
        rows = None if same else fastavro_schema(_of_rows(plain(shape)))
        writers = fastavro_schema(plain(wrote)), fastavro_schema(_of_rows(plain(wrote)))
        return Plan(writers[0], resolved, writers[1], rows, shape, fields, shape.kind == "record")
    except (SchemaError, Mismatch) as error:
        return str(error)
    except Exception as error:  # fastavro has a dozen classes for schemas that it does not take
        return f"{type(error).__name__}: {error}"[:MESSAGE_MAX]


def _parsed(schema: RegisteredSchema) -> AvroType:
    if schema.kind != "AVRO":
        raise SchemaError(f"it is {schema.kind}, not AVRO")
    return parse_schema(schema.text, schema.references)


def _narrowed(reader: AvroType, fields: Sequence[pa.Field]) -> AvroType:
    """A record without the fields that have no column: what is not read need not resolve."""
    names = {field.name for field in fields}
    if reader.fields:
        return replace(reader, fields=tuple(f for f in reader.fields if f.name in names))
    return reader


def _without_defaults(of: AvroType) -> AvroType:
    """A type without the defaults of its own fields: what a reader fills in makes no other writer."""
    return replace(of, fields=tuple(replace(field, default=None, aliases=()) for field in of.fields))


def _of_rows(schema: Any) -> Any:
    """The schema of an array of records, with a mark after each."""
    mark = {"type": "fixed", "name": "headrace__mark", "size": len(MARK)}
    fields = [{"name": "row", "type": schema}, {"name": "mark", "type": mark}]
    return {"type": "array", "items": {"type": "record", "name": "headrace__row", "fields": fields}}


def _zigzag(number: int) -> bytes:
    """A number as Avro writes it."""
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def plain(of: AvroType, named: set[str] | None = None) -> Any:
    """A type as fastavro takes it, without logical types: values stay as they are encoded."""
    named = set() if named is None else named
    if of.kind == "union":
        return [plain(each, named) for each in of.inner]
    if of.kind == "array":
        return {"type": "array", "items": plain(of.inner[0], named)}
    if of.kind == "map":
        return {"type": "map", "values": plain(of.inner[0], named)}
    if not of.name:
        return of.kind
    if of.name in named:
        return of.name
    named.add(of.name)
    found: dict[str, Any] = {"type": of.kind, "name": of.name, "aliases": [*of.aliases]}
    if of.kind == "fixed":
        return found | {"size": of.size}
    if of.kind == "enum":
        default = {} if of.default is None else {"default": of.default}
        return found | {"symbols": [*of.symbols]} | default
    fields = []
    for field in of.fields:
        default = {} if field.default is None else {"default": json.loads(field.default)}
        fields.append(
            {"name": field.name, "type": plain(field.type, named), "aliases": [*field.aliases]} | default
        )
    return found | {"fields": fields}
