"""Fields that a topic's records have and no column takes: in the newest records of its log, and in schemas of registries.

JSON keeps such fields if the topic says `hr.Json(unknown=…)`. Of Avro, the log keeps each schema by which it has read
records. Kafka and registries are not asked.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.description.ddl import quote
from headrace.description.formats import Avro, Json
from headrace.description.formats.avro_types import SchemaError, parse_schema
from headrace.description.schema import parse_ddl
from headrace.errors import DescriptionError
from headrace.lake import open_table
from headrace.lake.files.sorted_rows import all_rows
from headrace.log.schema_store import SchemaStore
from headrace.sequence.log_columns import RECORD

if TYPE_CHECKING:
    from headrace.description import Topic
    from headrace.lake.paths import Lake

RECORDS_MAX = 100_000  # of a log that are looked at, the newest ones
COMMIT_TIME = "ingested_at"
TEXT = "STRING"


@dataclass(frozen=True)
class UntakenField:
    """A field that no column takes.

    type     as a column would have it
    records  of the newest `among` that have it; None: only a schema has it, of which the log keeps no counts
    line     the topic's `value=` with the column
    """

    topic: str
    name: str
    type: str
    line: str
    records: int | None = None
    among: int | None = None

    def __str__(self) -> str:
        """A proposal of two lines."""
        where = (
            "in a schema by which records were read"
            if self.records is None
            else f"in {self.records:,} of the newest {self.among:,} records"
        )
        return f"topic {self.topic}: no column takes the field {self.name}, {self.type}, {where}. Write\n  {self.line}"


@dataclass
class _Seen:
    """The values of a field."""

    records: int = 0
    types: set[str] = field(default_factory=set)


def untaken_fields(lake: Lake, topic: Topic) -> list[UntakenField]:
    """The fields of a topic's records that no column takes, the most frequent first."""
    log = open_table(lake.log(topic.name))
    if not log.exists:
        return []
    match topic.format:
        case Json(unknown=str(column)):
            return _of_json(lake, topic, column)
        case Avro(registry=str()):
            return _of_schemas(lake, topic)
        case _:
            return []


def _of_json(lake: Lake, topic: Topic, column: str) -> list[UntakenField]:
    seen, among = defaultdict[str, _Seen](_Seen), 0
    for text in _newest(lake, topic, column):
        among += 1
        for name, value in ({} if text is None else json.loads(text)).items():
            seen[name].records += 1
            if value is not None:
                seen[name].types.add(_type(value))
    by_count = sorted(seen.items(), key=lambda item: (-item[1].records, item[0]))
    return [
        field
        for name, each in by_count
        for field in _proposed(topic, name, _common(each.types), each.records, among)
    ]


def _newest(lake: Lake, topic: Topic, column: str) -> Iterator[str | None]:
    """The texts of a column of the newest records; none if the log does not have it yet."""
    log, left = open_table(lake.log(topic.name)), RECORDS_MAX
    files = log.snapshot().files
    schema = pa.schema([log.schema.field("kind"), log.schema.field("value")])
    if schema.field("value").type.get_field_index(column) < 0:
        return
    for name in sorted(files, key=lambda each: files[each].highest.get(COMMIT_TIME, 0), reverse=True):
        for rows in all_rows([f"{log.uri}/{name}"], schema):
            kinds, values = rows["kind"].to_pylist(), rows["value"].combine_chunks()
            texts = values.field(column).to_pylist()
            yield from (text for kind, text in zip(kinds, texts, strict=True) if kind == RECORD)
            left -= kinds.count(RECORD)
        if left <= 0:
            return


def _of_schemas(lake: Lake, topic: Topic) -> list[UntakenField]:
    """Schemas of keys may lie beside those of values, so a schema counts that shares a field with the columns."""
    taken, found = {column.name for column in topic.value_columns}, dict[str, str]()
    for schema in SchemaStore(lake.log(topic.name), topic).known.schemas.values():
        known = _fields(schema.text, schema.references) if schema.kind == "AVRO" else {}
        if taken & known.keys():
            found |= known
    return [field for name, of in sorted(found.items()) for field in _proposed(topic, name, of)]


def _fields(text: str, references: tuple[str, ...]) -> dict[str, str]:
    """The fields of an Avro schema that columns can take, with their types."""
    known = parse_schema(text, references)
    found = dict[str, str]()
    for each in known.fields if known.kind == "record" else ():
        with suppress(SchemaError):
            found[each.name] = each.type.column(each.name)
    return found


def _proposed(
    topic: Topic, name: str, of: str, records: int | None = None, among: int | None = None
) -> Iterator[UntakenField]:
    """The field with the topic's `value=` and one more column, if a description may have these columns.

    Records that are older than a column keep its field among those that no column took; and no column has the name of
    another one, without regard to case.
    """
    kept = topic.format.unknown if isinstance(topic.format, Json) else None
    columns = [
        f"{_name(each.name)} {each.type}{'' if each.nullable else ' NOT NULL'}"
        for each in topic.value_columns
        if each.name != kept
    ]
    line = ", ".join([*columns, f"{_name(name)} {of}"])
    with suppress(DescriptionError):
        parse_ddl(line, topic.name)
        yield UntakenField(
            topic.name, name, of, f"value={json.dumps(line, ensure_ascii=False)}", records, among
        )


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else quote(name)


def _common(types: set[str]) -> str:
    """One type for all values: whole numbers are numbers, too; what has nothing in common is read as text."""
    if types == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return next(iter(types)) if len(types) == 1 else TEXT


def _type(value: Any) -> str:
    match value:
        case bool():
            return "BOOLEAN"
        case int():
            return "BIGINT" if -(2**63) <= value < 2**63 else "DECIMAL(38,0)"
        case float():
            return "DOUBLE"
        case list():
            return f"ARRAY<{_common({_type(each) for each in value if each is not None})}>"
        case Mapping():
            inner = (
                f"{_name(name)}: {TEXT if each is None else _type(each)}" for name, each in value.items()
            )
            return f"STRUCT<{', '.join(inner)}>" if value else TEXT
        case _:
            return TEXT
