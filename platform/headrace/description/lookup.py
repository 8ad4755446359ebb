"""Lookups: a stream, each record with the row that a table had for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.fingerprint import rules_of
from headrace.description.grouping import key_of, require_known_columns
from headrace.description.join import HOWS, LEFT
from headrace.description.node import Node
from headrace.description.schema import ResultColumn
from headrace.description.table import Table
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.stream import Stream
    from headrace.description.topic import Topic


@dataclass(frozen=True)
class Lookup(Node):
    """A lookup: each record of a stream with the row of a table that it refers to, as of the record's place in the log.

    In:  on   columns of the stream that hold the table's key; one that is null refers to nothing
         how  "left": every record; "inner": those that find a row
    Out: the columns of the stream, then those of the table that are not in its key. One row per record, never revised.
    Law: a function of the logs alone: across topics a record's place is its commit time, then topic, partition, offset.
    """

    stream: Stream
    table: Table
    on: tuple[str, ...]
    how: str = LEFT

    def __post_init__(self) -> None:
        if not isinstance(self.table, Table):
            raise DescriptionError(
                f"lookup: {a_value(self.table)} is no table of a topic.", hint="Write topic.table()."
            )
        if self.how not in HOWS:
            raise DescriptionError(
                f"lookup: how {a_value(self.how)} does not exist; there are {listed(HOWS)}."
            )
        columns = require_known_columns(self.stream, "lookup")
        self._check_on()
        names = {name.lower() for name in columns}
        for name in self.table.values:
            if name.lower() in names:
                raise DescriptionError(
                    f"lookup: the stream and the table both have a column '{name}'.",
                    hint=f"Rename one before: .select(…, '{name} AS its_{name}').",
                )
        super().__post_init__()

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics of the stream and of the table."""
        return tuple(dict.fromkeys((*self.stream.topics, *self.table.topics)))

    @property
    def identity(self) -> tuple[str, ...]:
        """The record key: to a sink, a later row of a key replaces an earlier one."""
        return key_of(self.stream, "lookup")

    @property
    def day_column(self) -> str:
        """A row belongs to the day of its record's commit."""
        return "__ingested_at"

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The columns of the stream, then the values of the table."""
        assert self.stream.columns is not None
        key, shape = self.table.identity, self.stream.shape
        own = [(name, shape.type_of(name)) for name in self.stream.columns]
        return (
            *(
                ResultColumn(name, known.type if known else "computed", "Of the record.")
                for name, known in own
            ),
            *(column for column in self.table.result_columns if column.name not in key),
        )

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        which = "" if self.how == LEFT else " that finds a row"
        return f"One row per record{which}, by {listed(self.on)}; as of the record's place in the log."

    def rules(self) -> dict[str, Any]:
        """The stream, the table, the columns and the kind."""
        assert self.stream.columns is not None
        return {
            "lookup": rules_of(self.stream, self.stream.columns),
            "table": self.table.rules(),
            "on": self.on,
            "how": self.how,
        }

    def _check_on(self) -> None:
        shape, key = self.stream.shape, self.table.identity
        object.__setattr__(self, "on", tuple(shape.resolve(name, "lookup: on") for name in self.on))
        if len(self.on) != len(key):
            raise DescriptionError(
                f"lookup: on names {listed(self.on)}, and the key of the table is {listed(key)}.",
                hint="Name one column of the stream for each, in that order.",
            )
        for name, theirs in zip(self.on, key, strict=True):
            mine, other = shape.type_of(name), self.table.shape.type_of(theirs)
            if mine and other and mine.type != other.type:
                raise DescriptionError(
                    f"lookup: '{name}' is {mine.type} and the table's '{theirs}' is {other.type}.",
                    hint=f"Cast it before: .with_column('{name}', 'CAST({name} AS {other.type})').",
                )
