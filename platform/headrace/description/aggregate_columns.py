"""The columns that aggregates make: their types, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.description.aggregates import BOUNDED
from headrace.description.schema import COMPUTED, ResultColumn, is_decimal, is_integral, parse_type
from headrace.description.wording import listed

if TYPE_CHECKING:
    from headrace.description.aggregates import Aggregate
    from headrace.description.shape import Shape


def aggregate_column(shape: Shape, name: str, aggregate: Aggregate) -> ResultColumn:
    """The column that an aggregate makes of a stream of this shape."""
    if aggregate.own is not None:
        meaning = f"{aggregate.own.named} of {listed([f'`{column}`' for column in aggregate.inputs])}."
        return ResultColumn(name, parse_type(aggregate.own.result, aggregate.own.named), meaning)
    if aggregate.column is None:
        return ResultColumn(name, "BIGINT", "Number of records.")
    return ResultColumn(name, _result_type(shape, aggregate.kind, aggregate.column), _meaning(aggregate))


def _meaning(aggregate: Aggregate) -> str:
    match aggregate.kind:
        case "max_by" | "min_by":
            best = "highest" if aggregate.kind == "max_by" else "lowest"
            return f"`{aggregate.column}` of the record with the {best} `{aggregate.by}`."
        case "top":
            first = (
                f"first {aggregate.max_items} records by {', '.join(aggregate.order)}"
                if aggregate.order
                else ""
            )
            highest = f"{aggregate.max_items} records with the highest `{aggregate.by}`"
            ties = ", and of those that rank as high as the last" if aggregate.ties else ""
            return f"`{aggregate.column}` of the {first or highest}{ties}."
        case "count_distinct":
            return f"Number of different values of `{aggregate.column}`."
        case "approx_count_distinct":
            return f"About the number of different values of `{aggregate.column}`, error {aggregate.error}."
        case "quantiles":
            return f"Quantiles {listed(map(str, aggregate.at or ()))} of `{aggregate.column}`, error {aggregate.error}."
    bound = f", the first {aggregate.max_items}" if aggregate.max_items else ""
    return f"{aggregate.kind.capitalize()} of `{aggregate.column}`{bound}."


def _result_type(shape: Shape, kind: str, column: str) -> str:
    known = shape.type_of(column)
    of = known.type if known else COMPUTED
    if kind in ("count", "count_distinct", "approx_count_distinct"):
        return "BIGINT"
    if kind == "quantiles":
        return "ARRAY<DOUBLE>"
    if kind in ("avg", "variance", "stddev"):
        return "DOUBLE"
    if kind in BOUNDED:
        return f"ARRAY<{of}>" if known else of
    if kind != "sum" or not known:
        return of
    if is_integral(of):
        return "BIGINT"
    return of.replace(of[len("DECIMAL(") : of.index(",")], "38", 1) if is_decimal(of) else "DOUBLE"
