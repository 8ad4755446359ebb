"""Flat-mapped streams: one row for each element of an array that SQL makes of a record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.description.emitting import Emitting
from headrace.description.fingerprint import rules_of
from headrace.description.flat_map import FlatMap, check_ordinal
from headrace.description.grouping import common_key, require_known_columns
from headrace.description.schema import ResultColumn
from headrace.description.stream import Stream
from headrace.description.wording import listed

if TYPE_CHECKING:
    from headrace.description.node import Node


@dataclass(frozen=True)
class FlatMapped(Emitting):
    """The elements of an array of each record: appended to a table, and sent to sinks, once.

    In:  rows     the stream
         array    the step that makes the array, in a column of its own name
         ordinal  the name of a column with the element's place in the array, from 0; None: there is none
    Out: the columns of the stream, with the element in place of the array; one row per element, nulls too. The rows of a
         record stand one after another, in the order of the array
    Law: a record is taken whole or not at all. Its array is a function of the record; there is no state, and nothing waits.
         A record whose array is null or empty is filtered. The ledger counts records, not rows.
    Source: Kafka Streams, KStream.flatMapValues.
    """

    rows: Stream
    array: FlatMap
    ordinal: str | None = None

    def __post_init__(self) -> None:
        columns = require_known_columns(self.stream, "flat_map")
        if self.ordinal is not None:
            check_ordinal(self.ordinal, columns)
        super().__post_init__()

    @cached_property
    def stream(self) -> Stream:
        """The stream with the array as a column: what the operator reads."""
        return self.rows._with_step(self.array)

    @property
    def inputs(self) -> tuple[Stream | Node, ...]:
        """The stream before the array is made."""
        return (self.rows,)

    @property
    def inputs_drawn(self) -> tuple[Stream | Node, ...]:
        """The stream with the array, one of its steps."""
        return (self.stream,)

    work = ()

    # Yes: a row follows from one record
    passes_chains = True

    goes_by_clocks = True

    @property
    def key(self) -> tuple[str, ...]:
        """The record key, if all topics have it and the steps keep it, and the ordinal, if it is a column."""
        key = common_key(self.stream)
        return (*key, self.ordinal) if key and self.ordinal is not None else key

    @property
    def comparable_columns(self) -> tuple[str, ...]:
        """Those columns that are not known to hold a MAP."""
        return tuple(column.name for column in self.result_columns if "MAP<" not in column.type)

    @property
    def distinguishing_columns(self) -> tuple[str, ...]:
        """Columns of the record by which its rows can be told from those of most others; maybe none."""
        own = [name for name in self.comparable_columns if name not in (self.array.name, self.ordinal)]
        return tuple(name for name in common_key(self.stream) if name in own) or tuple(own)

    day_column = "__ingested_at"  # a row belongs to the day of its record's commit

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The columns of the stream, and the ordinal."""
        shape = self.stream.shape
        assert shape.columns is not None
        own = [shape.result_column(name, self._meaning(name)) for name in shape.columns]
        number = (
            [] if self.ordinal is None else [ResultColumn(self.ordinal, "INT", "Of the element, from 0.")]
        )
        return (*own, *number)

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        topics = listed([topic.in_words for topic in self.topics])
        return f"One row per element of '{self.array.name}' of each record of {topics}."

    def how_to_type(self, column: str) -> str:
        """How to say the type of a column, where SQL computes it."""
        if column == self.array.name:
            return f".flat_map('CAST(… AS ARRAY<…>) AS {column}'), with the type that its elements have"
        return super().how_to_type(column)

    def rules(self) -> dict[str, Any]:
        """The stream and its steps, the array, the ordinal."""
        columns = self.stream.columns
        assert columns is not None
        return {"flat_map": rules_of(self.stream, columns), "ordinal": self.ordinal}

    def _meaning(self, name: str) -> str:
        return "An element of the array." if name == self.array.name else "Of the record."
