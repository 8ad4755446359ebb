"""Nodes whose rows are records of a stream, each by itself: they keep its columns, keys, chains and causes."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from headrace.description.emitting import Emitting
from headrace.description.grouping import common_key
from headrace.description.meanings import meaning_of
from headrace.description.schema import ResultColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description.stream import Stream


class RecordRows(Emitting):
    """The base of such nodes. Law: a row is its record: it has the record's place, times, chain and cause."""

    @property
    @abstractmethod
    def stream(self) -> Stream:
        """A stream with the columns of the rows."""

    def column_sources(self) -> Mapping[str, Sequence[tuple[Stream, str]]]:
        """Those of its streams."""
        streams = tuple(self.sides.values()) or (self.stream,)
        return {name: [(stream, name) for stream in streams] for name in self.columns}

    # Yes: a row follows from one record
    passes_chains = True

    passes_causes = True  # those of its records

    @property
    def key(self) -> tuple[str, ...]:
        """The record key, if all topics have it and the steps keep it; or that of `key_by`."""
        return common_key(self.stream)

    @property
    def comparable_columns(self) -> tuple[str, ...]:
        """Those columns that are not known to hold a MAP."""
        return tuple(column.name for column in self.result_columns if "MAP<" not in column.type)

    day_column = "__ingested_at"  # a row belongs to the day of its record's commit

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The columns of the stream."""
        assert self.stream.columns is not None
        shape = self.stream.shape
        return tuple(shape.result_column(name, meaning_of(self.stream, name)) for name in self.stream.columns)
