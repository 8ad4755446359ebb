"""Debezium, described: a topic of the changes of a captured table, read as that table's rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.description.ddl import quote
from headrace.description.formats.avro import Avro, field_type
from headrace.description.formats.format import Format, narrowed
from headrace.description.schema import Column, parse_ddl, refuse_repeats, refuse_reserved
from headrace.description.ways_on import explained_call
from headrace.description.wording import a_value
from headrace.errors import DescriptionError


@explained_call
@dataclass(frozen=True)
class Debezium(Format):
    """Changes of a captured table, as Debezium writes them: `.table()` of such a topic is the table.

    In: `format`: "json" (with or without Kafka Connect's `schema` and `payload` around it), or `hr.Avro(…)`.
    `operation`, `changed_at`, `transaction`: names of more columns: the letter of the operation (r, c, u, d), STRING; the
    time of the change in the database, BIGINT of epoch milliseconds, which `timestamp=` may name; the id of the
    transaction, STRING, null unless the connector provides it.
    Out: the columns of the table, from `value=` or from the Avro schema's `after`; then those named here. A record is the
    row as it is after the change. A deletion is a tombstone with its operation, time and transaction; its row is null.
    Keys in JSON are read with or without `schema`, also when `key_format` is not given.
    Raises: DescriptionError naming the value and the fix.
    """

    format: Literal["json"] | Avro = "json"
    operation: str | None = None
    changed_at: str | None = None
    transaction: str | None = None

    def __post_init__(self) -> None:
        if self.format != "json" and not isinstance(self.format, Avro):
            raise DescriptionError(
                f"Debezium: format {a_value(self.format)} is neither 'json' nor hr.Avro(…).",
                hint="Protobuf has no columns for Debezium's envelopes.",
            )
        for name in ("operation", "changed_at", "transaction"):
            given = getattr(self, name)
            if given is not None and (not isinstance(given, str) or not given):
                raise DescriptionError(f"Debezium: {name} {a_value(given)} is not the name of a column.")

    @property
    def more(self) -> tuple[Column, ...]:
        """The columns beside those of the table."""
        named = (self.operation, "STRING"), (self.changed_at, "BIGINT"), (self.transaction, "STRING")
        return tuple(Column(name, of, True) for name, of in named if name is not None)

    def columns(self, topic: str, part: str, declared: str | None) -> tuple[Column, ...]:
        """The columns of keys or values (see `Format.columns`)."""
        what = f"Topic '{topic}': {part}"
        if part == "key":
            if isinstance(self.format, Avro):
                return self.format.columns(topic, part, declared)
            return parse_ddl(declared or "", what)
        columns = (*self._of_table(topic, declared, what), *self.more)
        names = [column.name for column in columns]
        refuse_repeats(names, what)
        refuse_reserved(names, what)
        return columns

    def _of_table(self, topic: str, declared: str | None, what: str) -> tuple[Column, ...]:
        reader = self.format.reader(topic, "value", declared) if isinstance(self.format, Avro) else None
        if reader is None:
            return parse_ddl(declared or "", what)
        after = next((field.type for field in reader.fields if field.name == "after"), None)
        row = after.branches[0] if after is not None and after.branches else None
        if row is None or row.kind != "record":
            raise DescriptionError(
                f"{what}: its Avro schema is no envelope of Debezium: it has no record 'after'."
            )
        names = [field.name for field in row.fields]
        return narrowed(
            declared,
            names,
            lambda name: f"{quote(name)} {field_type(row, name).column(name)}",
            what,
            "Avro schema's after",
        )
