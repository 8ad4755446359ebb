"""A typed expression over the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Datum = Any  # of Arrow: an array with a value for each row, or a scalar that stands for all rows
NOT_CONSTANT = object()


class SparkNeededError(Exception):
    """A batch holds a value for which only Spark's own answer, or error, is proven. Spark evaluates the batch instead."""


@dataclass(frozen=True)
class Rows:
    """The columns that terms read, each without chunks, and how many rows there are. Names are in lower case."""

    columns: Mapping[str, pa.Array]
    number: int

    @classmethod
    def of(cls, table: pa.Table) -> Rows:
        """The rows of a table."""
        table = table.combine_chunks()
        arrays = {
            name.lower(): column.chunk(0) if column.num_chunks else pa.array([], column.type)
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
        return cls(arrays, table.num_rows)


Evaluate = Callable[[Rows], Datum]


@dataclass(frozen=True)
class Term:
    """An expression with its type.

    type       as Arrow's, which stands for Spark's: INT is int32, TIMESTAMP is timestamp[us, UTC], NULL is null
    evaluate   gives a datum; None: only Spark evaluates it
    constant   the value of a literal, else NOT_CONSTANT
    """

    type: pa.DataType
    evaluate: Evaluate | None = None
    constant: Any = NOT_CONSTANT

    @property
    def is_constant(self) -> bool:
        """True of a literal."""
        return self.constant is not NOT_CONSTANT

    def over(self, rows: Rows) -> pa.Array:
        """The values, one for each row.

        Raises: SparkNeededError when a value is among the rows for which only Spark is proven
        """
        assert self.evaluate is not None
        return array_of(self.evaluate(rows), rows.number)


def array_of(value: Datum, rows: int) -> pa.Array:
    """A value for each row. In: value  an array, or a scalar that stands for all rows."""
    if isinstance(value, pa.ChunkedArray):
        return value.combine_chunks()
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def literal(value: Any, of: pa.DataType) -> Term:
    """A term that has one value in all rows."""
    scalar = pa.scalar(value, of)
    return Term(of, lambda rows: scalar, value)


def null_of(of: pa.DataType) -> Term:
    """A null of a type."""
    return literal(None, of)


def lifted(of: pa.DataType, compute: Callable[..., Datum], *terms: Term) -> Term:
    """A function of terms. In: compute  takes the value of each term: arrays, or scalars of literals."""
    evaluates = [term.evaluate for term in terms]
    if any(each is None for each in evaluates):
        return Term(of)
    return Term(of, lambda rows: compute(*(each(rows) for each in evaluates if each is not None)))


def on_arrays(of: pa.DataType, compute: Callable[..., Datum], *terms: Term) -> Term:
    """As `lifted`, for a function that takes arrays alone."""
    evaluates = [term.evaluate for term in terms]
    if any(each is None for each in evaluates):
        return Term(of)
    return Term(
        of,
        lambda rows: compute(*(array_of(each(rows), rows.number) for each in evaluates if each is not None)),
    )
