"""Avro, described: the schema in which a topic's keys or values are written, and what columns it gives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from headrace.description.ddl import quote
from headrace.description.formats.avro_types import PRIMITIVES, AvroType, SchemaError, parse_schema
from headrace.description.formats.format import Format, narrowed
from headrace.description.formats.registry import address_of, checked_url, described_schema
from headrace.description.schema import Column, parse_ddl, refuse_reserved
from headrace.description.ways_on import explained_call
from headrace.description.wording import a_value
from headrace.errors import DescriptionError


@explained_call
@dataclass(frozen=True)
class Avro(Format):
    """Keys or values written as Avro: `hr.Topic(…, format=hr.Avro(…), key_format=hr.Avro(…))`.

    In: `schema`: the reader's schema, as JSON text, as what that stands for, or as the `Path` of a file. Records are
    resolved to it, as Avro has it (defaults, aliases, promotions).
    `registry`: the address of a schema registry with Confluent's interface, or `dagster.EnvVar`. Each record then begins
    with a magic byte and the id of its schema, as Confluent's serializers write it. Without a registry records are plain
    Avro, written with `schema`.
    `subject`, `version`: with a registry and without `schema`: the reader's schema is that of this subject (default:
    `<topic>-value` or `<topic>-key`) in this version (default: the newest). It is asked for when the description is
    loaded, unless the topic's `value=` or `key=` names columns: then records are resolved to these.
    Out: columns from the schema (see the guide on formats); `value=` and `key=` may narrow them.
    Raises: DescriptionError naming the value and the fix.
    """

    schema: str | Path | Mapping[str, Any] | Sequence[Any] | None = None
    registry: str | None = None
    subject: str | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        if self.schema is None and self.registry is None:
            raise DescriptionError(
                "Avro: there is neither schema nor registry.", hint="Give one of them, or both."
            )
        if self.registry is not None:
            checked_url(self.registry, "Avro")
        if self.schema is not None and (self.subject, self.version) != (None, None):
            raise DescriptionError(
                "Avro: schema, and subject or version, both name the reader's schema.", hint="Leave one out."
            )
        if self.version is not None and (not isinstance(self.version, int) or self.version < 1):
            raise DescriptionError(f"Avro: version {a_value(self.version)} is not a whole number above 0.")
        object.__setattr__(self, "schema", None if self.schema is None else _text(self.schema))
        _ = self.reader_schema

    @cached_property
    def reader_schema(self) -> AvroType | None:
        """The reader's schema that the description holds; None: it holds none."""
        if self.schema is None:
            return None
        assert isinstance(self.schema, str)
        return _parsed(self.schema, (), "Avro: schema")

    @property
    def url(self) -> str | None:
        """The registry's address; None: records name no schema."""
        return None if self.registry is None else address_of(self.registry, "Avro")

    def reader(self, topic: str, part: str, declared: str | None) -> AvroType | None:
        """The reader's schema; None: records are resolved to the declared columns.

        In:     part      "key" or "value"
                declared  the columns as DDL, if the topic names some
        Raises: DescriptionError; RegistryAwayError when a registry has to be asked and does not answer
        """
        if self.reader_schema is not None or declared:
            return self.reader_schema
        assert self.url is not None
        subject = self.subject or f"{topic}-{part}"
        found = described_schema(self.url, subject, self.version)
        if found.kind != "AVRO":
            raise DescriptionError(
                f"Topic '{topic}': the schema of subject '{subject}' is {found.kind}, not AVRO."
            )
        return _parsed(found.text, found.references, f"Topic '{topic}': subject '{subject}'")

    def columns(self, topic: str, part: str, declared: str | None) -> tuple[Column, ...]:
        """The columns of keys or values (see `Format.columns`)."""
        what = f"Topic '{topic}': {part}"
        reader = self.reader(topic, part, declared)
        if reader is None:
            return parse_ddl(declared or "", what)
        names = [part] if reader.kind != "record" else [field.name for field in reader.fields]
        if part == "value" and reader.kind != "record":
            raise DescriptionError(f"{what}: its Avro schema is {reader.kind}, and values are records.")
        if declared and reader.kind != "record":
            names = [each.name for each in parse_ddl(declared, what)][:1]
        return narrowed(declared, names, lambda name: _column(reader, name, what), what, "Avro schema")


def field_type(reader: AvroType, name: str) -> AvroType:
    """The type of a column: that of the field, or the whole type of what is no record."""
    if reader.kind != "record":
        return reader
    return next(field.type for field in reader.fields if field.name == name)


def _column(reader: AvroType, name: str, what: str) -> str:
    refuse_reserved([name], what)
    try:
        return f"{quote(name)} {field_type(reader, name).column(name)}"
    except SchemaError as error:
        raise DescriptionError(
            f"{what}: the Avro schema gives no column.",
            detail=str(error),
            hint=f"Leave the field out: name the columns that you read with {what.rpartition(' ')[2]}='…'.",
        ) from None


def _text(schema: object) -> str:
    """A schema as JSON text of one form, so that equal schemas are equal."""
    if isinstance(schema, Path):
        try:
            schema = schema.read_text(encoding="utf-8")
        except OSError as error:
            raise DescriptionError(
                "Avro: the file of the schema cannot be read.", detail=str(error)
            ) from None
    if isinstance(schema, str) and schema not in PRIMITIVES:
        try:
            schema = json.loads(schema)
        except ValueError as error:
            raise DescriptionError(
                f"Avro: schema {a_value(schema)} is not JSON.",
                detail=str(error),
                hint="Give the schema's text, what it stands for, or pathlib.Path('orders.avsc').",
            ) from None
    return json.dumps(schema, separators=(",", ":"))


@lru_cache(maxsize=256)
def _parsed(text: str, references: tuple[str, ...], what: str) -> AvroType:
    try:
        return parse_schema(text, references)
    except SchemaError as error:
        raise DescriptionError(f"{what} cannot be used: {error}.") from None
