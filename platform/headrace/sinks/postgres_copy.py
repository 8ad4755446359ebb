"""The work of executors for the PostgreSQL sink: they copy one task's rows into the staging table. Few rows need no task.

Law: the lines of COPY's text format follow from the rows, whoever makes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates.kind import whole
from headrace.fold.values.json_text import json_values, plain_texts
from headrace.sinks.postgres_halving import Halving, Place
from headrace.sinks.postgres_session import (
    ROWS_SECONDS_MAX,
    connect,
    explained,
    kept_open,
)
from headrace.sinks.producing import Outcome, outcomes_batch, outcomes_of
from headrace.sinks.refusals import OUTCOMES
from headrace.spark.one_task import mapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from headrace.sinks.refusals import Refusal

Line = tuple[str, int, int]  # the line, its sequence and its ordinal
SPECIAL = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
_YEAR = re.compile("^([-+]?[0-9]+)(-.*)")


def lines_of(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """Each row as a line of COPY's text format."""
    fields = [_escaped(whole(rows[name])).fill_null(r"\N") for name in columns]
    return pc.binary_join_element_wise(*fields, "\t")


def _escaped(values: pa.Array) -> pa.Array:
    of = values.type
    if pa.types.is_binary(of):
        texts = [None if value is None else rf"\\x{value.hex().upper()}" for value in values.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_temporal(of):
        texts = plain_texts(values)
        return _dated(
            pc.binary_join_element_wise(texts, "+00", "") if pa.types.is_timestamp(of) and of.tz else texts
        )
    if not (pa.types.is_nested(of) or pa.types.is_string(of)):
        return plain_texts(values)
    texts = json_values(values, exact=True) if pa.types.is_nested(of) else values
    for special, written in SPECIAL.items():
        texts = pc.replace_substring(texts, special, written)
    return texts


def _dated(texts: pa.Array) -> pa.Array:
    """Dates and times with the year as PostgreSQL writes it: without a sign, and before the year 1 with BC."""
    if not pc.any(pc.match_substring_regex(texts, "^([-+]|0000-)"), min_count=0).as_py():
        return texts
    return pa.array([text and _YEAR.sub(_with_year, text) for text in texts.to_pylist()], pa.string())


def _with_year(text: re.Match[str]) -> str:
    year, rest = int(text[1]), text[2]
    return f"{year:04}{rest}" if year > 0 else f"{1 - year:04}{rest} BC"


@dataclass(frozen=True)
class Copier:
    """Copies rows into a staging table.

    statement  COPY of `columns`; store: the target in words
    Law: a task's rows are staged all together or, when the database is lost on the way, not at all.
    """

    dsn: str
    statement: str
    store: str
    columns: tuple[str, ...]

    def of_frame(self, rows: DataFrame, tasks: int) -> Sequence[Sequence[Any]]:
        """Outcomes (see `refusals.OUTCOMES`) of rows that are copied by so many tasks at a time."""
        return mapped(rows.coalesce(tasks), self, self.columns, OUTCOMES).collect()

    def of_table(self, rows: pa.Table) -> Sequence[Sequence[Any]]:
        """The same of few rows, in this process."""
        return outcomes_of(self(rows.select(self.columns).combine_chunks().to_batches()))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`: rows in, outcomes out."""
        yield outcomes_batch(list(self._copied(batches)))

    def _copied(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcome]:
        connection: psycopg.Connection | None = None
        copy: _Copy | None = None
        refused: list[Refusal] = []
        count, coming = 0, iter(batches)
        try:
            while (batch := _next(coming, connection)) is not None:
                if not batch.num_rows:
                    continue
                connection = connection or connect(self.dsn)
                copy = copy or _Copy(connection, self.statement)
                rows = pa.Table.from_batches([batch])
                places = (rows[name].to_pylist() for name in ("__sequence", "__ordinal"))
                lines = list(zip(lines_of(rows, self.columns).to_pylist(), *places, strict=True))
                copy.put(lines)
                count += len(lines)
            if connection is not None and copy is not None:
                refused = copy.refused()
                connection.commit()
        except psycopg.Error as error:
            yield None, None, None, str(explained(error, self.store)), None
            return
        finally:
            if connection is not None:
                connection.close()
        for refusal in refused:
            yield *refusal, None, None
        yield None, None, None, None, count - len(refused)


def _next(batches: Iterator[pa.RecordBatch], connection: psycopg.Connection | None) -> pa.RecordBatch | None:
    """The next batch; None: there is none. Spark may take long to compute it, with the transaction open."""
    if connection is None:
        return next(batches, None)
    with kept_open(connection, ROWS_SECONDS_MAX):
        return next(batches, None)


class _Copy(Halving[list[Line]]):
    def __init__(self, connection: psycopg.Connection, statement: str) -> None:
        super().__init__(connection)
        self._statement = statement

    def write(self, rows: list[Line]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(self._statement) as copy:
            copy.write("\n".join(line for line, _, _ in rows) + "\n")

    def parts(self, rows: list[Line]) -> Place | tuple[list[Line], list[Line]]:
        half = len(rows) // 2
        return (rows[:half], rows[half:]) if half else Place(*rows[0][1:])
