"""Mergeable aggregates: partial over rows, merge over partials, finish once at the end.

Law: `finish(merge(partials))` depends on the set of rows alone, not on how they were grouped into partials. So
floats are rounded to a stated scale and summed as DECIMAL, and -0.0 is 0.0 to minima and maxima.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column as Expr
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description import quote
from headrace.operators.rows import position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.description import Aggregate

# An input may have 28 digits, a sum has 38: room for ten thousand million inputs of the largest size.
INPUT_DIGITS, SUM_DIGITS = 28, 38
# The square of an input has twice its digits: room for a hundred million inputs of the largest size.
SPREAD_DIGITS = 15
SMALL_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType)
FLOATS = (T.FloatType, T.DoubleType)

Over = Callable[[Expr], Expr]  # where an aggregate function is applied: in groups, or over a window
Merge = Callable[[Expr, Over], Expr]


def in_groups(function: Expr) -> Expr:
    """An aggregate function as `groupBy` takes it."""
    return function


@dataclass(frozen=True)
class Mergeable:
    """One aggregate as Spark expressions.

    partial   over input rows: suffix -> expression
    merge     over partial columns: suffix -> what combines them: a function of the column and of `Over`
    finish    from merged columns (given by suffix) to the result
    unusable  true for a row whose input cannot be represented; None if every input can
    """

    partial: Mapping[str, Expr]
    merge: Mapping[str, Merge]
    finish: Callable[[Mapping[str, Expr]], Expr]
    unusable: Expr | None = None


def mergeable(aggregate: Aggregate, schema: T.StructType) -> Mergeable:
    """The expressions of an aggregate over rows of this schema.

    Raises: DescriptionError (from the description layer) has already refused unknown columns and kinds.
    """
    if aggregate.kind == "count":
        return _count(aggregate)
    assert aggregate.column is not None
    column = F.col(quote(aggregate.column))
    data_type = schema[spelling(schema, aggregate.column)].dataType
    match aggregate.kind:
        case "sum":
            return _sum(column, data_type, aggregate.scale)
        case "avg":
            return _avg(column, data_type, aggregate.scale)
        case "variance" | "stddev":
            return _spread(column, data_type, aggregate)
        case "min" | "max":
            return _extreme(column, data_type, F.min if aggregate.kind == "min" else F.max)
        case "first" | "last":
            return _by_position(column, F.min if aggregate.kind == "first" else F.max)
        case "collect":
            return _collect(column, aggregate.max_items or 0)
    raise ValueError(f"unknown aggregate {aggregate.kind!r}")


def _plainly(function: Callable[[Expr], Expr]) -> Merge:
    return lambda partial, over: over(function(partial))


def spelling(schema: T.StructType, name: str) -> str:
    """How a schema spells the name of a column."""
    return next(field.name for field in schema if field.name.lower() == name.lower())


def _count(aggregate: Aggregate) -> Mergeable:
    counted = F.count(F.lit(1)) if aggregate.column is None else F.count(F.col(quote(aggregate.column)))
    return Mergeable({"n": counted}, {"n": _plainly(F.sum)}, lambda merged: merged["n"])


def _sum(column: Expr, data_type: T.DataType, scale: int) -> Mergeable:
    exact, sum_type, result_type = exactly(column, data_type, scale)
    return Mergeable(
        {"sum": F.sum(exact).cast(sum_type)},
        {"sum": lambda partial, over: over(F.sum(partial)).cast(sum_type)},
        lambda merged: merged["sum"].try_cast(result_type),
        column.isNotNull() & exact.isNull(),
    )


def _avg(column: Expr, data_type: T.DataType, scale: int) -> Mergeable:
    exact, sum_type, _ = exactly(column, data_type, scale)
    return Mergeable(
        {"sum": F.sum(exact).cast(sum_type), "n": F.count(exact)},
        {"sum": lambda partial, over: over(F.sum(partial)).cast(sum_type), "n": _plainly(F.sum)},
        lambda merged: F.try_divide(merged["sum"].cast("double"), merged["n"].cast("double")),
        column.isNotNull() & exact.isNull(),
    )


def _extreme(column: Expr, data_type: T.DataType, function: Callable[[Expr], Expr]) -> Mergeable:
    value = without_negative_zero(column, data_type)
    return Mergeable(
        {"value": function(value)}, {"value": _plainly(function)}, lambda merged: merged["value"]
    )


def without_negative_zero(column: Expr, data_type: T.DataType) -> Expr:
    """A column in which a float's -0.0 is 0.0."""
    if not isinstance(data_type, FLOATS):
        return column
    return F.when(column == 0, F.lit(0.0).cast(data_type)).otherwise(column)


def _spread(column: Expr, data_type: T.DataType, aggregate: Aggregate) -> Mergeable:
    """Exact sums of the inputs and of their squares; what is left to floats is small beside them.

    With the mean rounded to an input's decimals, m, and the rest r = sum - n m, the squares around m add up to
    `squares - m (sum + r)`; the variance is that less r²/n, over n - 1. The product is exact while it has 38 digits.
    """
    exact, sum_type, _ = exactly(column, data_type, aggregate.scale)
    places = sum_type.scale if isinstance(sum_type, T.DecimalType) else 0
    exact = exact.try_cast(T.DecimalType(SPREAD_DIGITS, places))
    square_type = T.DecimalType(SUM_DIGITS, 2 * places)

    def finish(merged: Mapping[str, Expr]) -> Expr:
        n, total, squares = merged["n"], merged["sum"], merged["squares"]
        mean = F.try_divide(total, n.cast("decimal(20,0)")).cast(T.DecimalType(SPREAD_DIGITS, places))
        rest = total - n.cast("decimal(20,0)") * mean
        factor = (total + rest).try_cast(T.DecimalType(SUM_DIGITS - SPREAD_DIGITS - 1, places))
        exactly = (squares - (mean * factor).cast(square_type)).cast("double")
        roughly = squares.cast("double") - mean.cast("double") * (total + rest).cast("double")
        around = F.coalesce(exactly, roughly)
        variance = (around - rest.cast("double") * rest.cast("double") / n) / (n - 1)
        variance = F.when(n > 1, F.greatest(variance, F.lit(0.0)))
        return F.sqrt(variance) if aggregate.kind == "stddev" else variance

    return Mergeable(
        {
            "sum": F.sum(exact).cast(T.DecimalType(SUM_DIGITS, places)),
            "squares": F.sum((exact * exact).cast(T.DecimalType(2 * SPREAD_DIGITS, 2 * places))).cast(
                square_type
            ),
            "n": F.count(exact),
        },
        {
            "sum": lambda partial, over: over(F.sum(partial)).cast(T.DecimalType(SUM_DIGITS, places)),
            "squares": lambda partial, over: over(F.sum(partial)).cast(square_type),
            "n": _plainly(F.sum),
        },
        finish,
        column.isNotNull() & exact.isNull(),
    )


def _by_position(column: Expr, function: Callable[[Expr], Expr]) -> Mergeable:
    """The value that stands lowest, or highest, in the log's order; positions differ, so values are never compared."""
    at = F.struct(position().alias("position"), column.alias("value"))
    return Mergeable({"at": function(at)}, {"at": _plainly(function)}, lambda merged: merged["at"]["value"])


def _collect(column: Expr, max_items: int) -> Mergeable:
    at = F.when(column.isNotNull(), F.struct(position().alias("position"), column.alias("value")))

    def bounded(items: Expr) -> Expr:
        return F.slice(F.sort_array(items), 1, max_items)

    return Mergeable(
        {"items": bounded(F.collect_list(at))},
        {"items": lambda partial, over: bounded(F.flatten(over(F.collect_list(partial))))},
        lambda merged: F.transform(merged["items"], lambda item: item["value"]),
    )


def exactly(column: Expr, data_type: T.DataType, scale: int) -> tuple[Expr, T.DataType, T.DataType]:
    """The input as an exact number, the type of its sums and the type of the result."""
    if isinstance(data_type, SMALL_INTEGERS):
        return column.cast("long"), T.LongType(), T.LongType()
    if isinstance(data_type, T.LongType):
        return column.cast("decimal(19,0)"), T.DecimalType(SUM_DIGITS, 0), T.LongType()
    if isinstance(data_type, T.DecimalType):
        digits = min(data_type.precision, INPUT_DIGITS)
        places = min(data_type.scale, digits)
        summed = T.DecimalType(SUM_DIGITS, places)
        return column.try_cast(T.DecimalType(digits, places)), summed, summed
    return (
        column.cast("double").try_cast(T.DecimalType(INPUT_DIGITS, scale)),
        T.DecimalType(SUM_DIGITS, scale),
        T.DoubleType(),
    )
