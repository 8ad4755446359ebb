"""Expressions and conditions of aggregates become columns of the rows that are aggregated, named by their SQL.

Law: `hr.sum("a * b", where="c")` is the sum of a column `IF(c, a * b, NULL)`. So nobody behind the description knows of it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.description.aggregates import RANKED, Aggregate
from headrace.description.feeds import Feed
from headrace.description.known_types import require_condition, require_expression
from headrace.description.steps import predicate
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description.shape import Shape
    from headrace.description.stream import Stream

    Aggregates = Sequence[tuple[str, Aggregate]]

# Kinds for which null is a value, so no column can say that a record does not count.
NULL_COUNTS = ("first", "last")
_A_NAME = re.compile(r"\w+")
_NOT_IN_NAMES = re.compile(r"[.`]")


def columns_read(
    shape: Shape, aggregates: Mapping[str, Aggregate]
) -> tuple[dict[str, str], tuple[tuple[str, Aggregate], ...]]:
    """The columns that rows need for the expressions and conditions of aggregates, and aggregates of these columns.

    In:     shape  of the rows
    Out:    the SQL of each new column by its name
    Raises: DescriptionError for an expression that cannot be read, or a condition that a kind cannot have
    """
    from headrace.description.previous_values import Increase  # it is about nodes, which have aggregates

    columns: dict[str, str] = {}
    of_columns = []
    for name, aggregate in aggregates.items():
        if isinstance(aggregate, Increase):
            raise DescriptionError(
                f"aggregate: {name} is the increase of {a_value(aggregate.column)}, which is one of single records.",
                hint=f"Write .with_previous({name}=hr.increase({aggregate.column!r})), group again, and add up: "
                f".aggregate({name}=hr.sum({name!r})).",
            )
        if isinstance(aggregate, Aggregate) and aggregate.own is not None:
            for each in aggregate.inputs:
                shape.resolve(each, f"aggregate: {name}={aggregate.own.named}")
        elif isinstance(aggregate, Aggregate):
            aggregate = _of_columns(shape, name, aggregate, columns)
        of_columns.append((name, aggregate))
    return columns, tuple(of_columns)


def is_of_aggregate(column: str, expression: str) -> bool:
    """True if a column holds the expression or the condition of an aggregate, by whose name it is named."""
    if not re.search(r"\W", column):
        return False
    sql, named = _in_a_name(expression), column.rstrip("_")
    condition = named.rpartition(" where ")[2]
    return sql.rstrip("_") == named or (sql.startswith(f"IF({condition}, ") and sql.endswith(", NULL)"))


def _in_a_name(sql: str) -> str:
    return _NOT_IN_NAMES.sub("_", " ".join(sql.split()))


def _of_columns(shape: Shape, name: str, aggregate: Aggregate, columns: dict[str, str]) -> Aggregate:
    """The aggregate, of columns alone. In: columns  gains the expression of each new one."""
    what, where = f"aggregate: {name}={aggregate.in_words}", aggregate.where
    if where is not None:
        _check_condition(where, aggregate, shape, what)

    def column_of(sql: str | None, condition: str | None, part: str = "") -> str | None:
        is_column = sql is not None and _is_column(shape, sql)
        if sql is not None and is_column:
            # here, where no column is made of another aggregate's expression
            shape.resolve(sql, f"aggregate: {name}={aggregate.kind}('{aggregate.column}'){part}")
        if condition is None:
            return sql if sql is None or is_column else named(sql, sql)
        if sql is not None and not is_column:
            predicate(sql, what)  # alone: an alias, or a comment, would be part of something else
        shown = condition if sql is None else f"{sql} where {condition}"
        value = "1" if sql is None else f"`{sql}`" if is_column else sql
        return named(shown, f"IF({condition}, {value}, NULL)")

    def named(shown: str, expression: str) -> str:
        require_expression(predicate(expression, what), shape, what)
        column = _in_a_name(shown)
        taken = {each.lower(): None for each in shape.columns or ()} | {
            c.lower(): e for c, e in columns.items()
        }
        while taken.get(column.lower(), expression) != expression:
            column += "_"
        columns[column] = expression
        return column

    if aggregate.kind in RANKED:
        return replace(
            aggregate,
            column=column_of(aggregate.column, None),
            by=column_of(aggregate.by, where, ": by"),
            where=None,
        )
    return replace(aggregate, column=column_of(aggregate.column, where), where=None)


def _is_column(shape: Shape, sql: str) -> bool:
    """Whether a text names a column; also one that does not exist, which is refused as such."""
    names = [column.lower() for column in shape.columns or ()]
    return sql.lower() in names or _A_NAME.fullmatch(sql.strip()) is not None


def _check_condition(where: object, aggregate: Aggregate, shape: Shape, what: str) -> None:
    if not isinstance(where, str) or not where.strip():
        raise DescriptionError(
            f"{what}: where {a_value(where)} is no condition.", hint="Write SQL: where=\"status = 'failed'\"."
        )
    if aggregate.kind in NULL_COUNTS:
        best = "min_by" if aggregate.kind == "first" else "max_by"
        raise DescriptionError(
            f"{what}: hr.{aggregate.kind} takes no `where`, for null counts as a value.",
            hint=f"Filter the stream by .where({where!r}) before, or rank the records: hr.{best}(…, by=…, where=…).",
        )
    require_condition(predicate(where, what), shape, f"{what}: where")


def aggregated_feed(stream: Stream, by: Sequence[str], aggregates: Aggregates) -> Feed:
    """The rows of a stream, and of their columns those of the groups and of the aggregates."""
    read = (column for _, aggregate in aggregates for column in aggregate.columns)
    return Feed(stream, read=(*by, *read))


def aggregated_sources(
    stream: Stream, by: Sequence[str], aggregates: Aggregates
) -> dict[str, list[tuple[Stream, str]]]:
    """The columns of a stream that groups and aggregates are made of (see `Node.column_sources`)."""
    groups = {name: [(stream, name)] for name in by}
    made = {
        name: [(stream, column) for column in (of.column, of.by, *of.inputs) if column is not None]
        for name, of in aggregates
    }
    return groups | made


def grouped_in_words(by: str, aggregates: Aggregates) -> str:
    """Aggregates of groups, in few words. In: by  what tells a group."""
    return f"by {by}: {listed([f'{name} = {each.in_words}' for name, each in aggregates])}"
