"""Expressions and conditions of aggregates: columns of the rows that are aggregated, which nobody sees in the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as hr
from headrace.description import Aggregate, Node

pytestmark = pytest.mark.fast

ORDERS = hr.Topic(
    "orders",
    key="id STRING",
    value="id STRING, price DECIMAL(10,2), `a.b` INT, n INT, state STRING, who STRUCT<age: INT>",
)
BY_STATE = ORDERS.group_by("state")


def of(**aggregates: Aggregate) -> dict[str, str]:
    """The types of the columns that aggregates make."""
    node = BY_STATE.aggregate(**aggregates).named("totals")
    return {column.name: column.type for column in node.result_columns[1:]}


def test_an_aggregate_takes_sql_and_its_type_is_known() -> None:
    assert of(
        total=hr.sum("price * n"),
        largest=hr.max("price * n", where="state <> 'failed'"),
        failed=hr.count(where="state = 'failed'"),
        age=hr.avg("who.age"),
        best=hr.top(2, "upper(id)", by="n * 2", where="price > 1"),
        dotted=hr.sum("`a.b` + 1"),
    ) == {
        "total": "DECIMAL(38,2)",
        "largest": "DECIMAL(21,2)",
        "failed": "BIGINT",
        "age": "DOUBLE",
        "best": "ARRAY<STRING>",
        "dotted": "BIGINT",
    }


def written_out() -> Node:
    steps = ORDERS.with_column("price * n where n > 1", "IF(n > 1, price * n, NULL)")
    return steps.group_by("state").aggregate(total=hr.sum("price * n where n > 1")).named("totals")


def test_it_is_the_aggregate_of_a_column_that_somebody_writes_out() -> None:
    node = BY_STATE.aggregate(total=hr.sum("price * n", where="n > 1")).named("totals")
    assert node.fingerprint() == written_out().fingerprint()
    assert node == written_out()


def test_expressions_that_differ_in_case_or_spelling_alone_are_columns_of_their_own() -> None:
    node = BY_STATE.aggregate(
        a=hr.count("nullif(state, 'x')"), b=hr.count("nullif(state, 'X')"), c=hr.count("nullif(state,  'X')")
    ).named("totals")
    read = {name: aggregate.column for name, aggregate in node.aggregates}
    assert len({column.lower() for column in read.values() if column}) == 3


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: hr.sum("prise * n"),
            r"total=sum\(prise \* n\): column 'prise' does not exist.*\n(.*\n)*.*'price'",
        ),
        (lambda: hr.sum("prise"), "column 'prise' does not exist"),
        (lambda: hr.sum("prise", where="n > 1"), "column 'prise' does not exist"),
        (lambda: hr.sum("uper(id)"), "uper"),
        (lambda: hr.sum("upper(id)"), "is STRING, not a number"),
        (lambda: hr.sum("price", where="n + 1"), "where: the expression is INT, and no condition"),
        (lambda: hr.sum("price", where="m > 1"), "where: column 'm' does not exist"),
        (lambda: hr.count(where=3), r"where 3 \(int\) is no condition.*\n.*where=\"status"),  # type: ignore[arg-type]
        (lambda: hr.sum("price * n AS x"), "x"),
        (lambda: hr.last("price", where="n > 1"), r"hr.last takes no `where`.*\n.*hr.max_by"),
        (lambda: hr.sum("sum(price)"), "sum"),
        (lambda: hr.sum("price", where="n > rand()"), "rand"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(hr.DescriptionError, match=says):
        BY_STATE.aggregate(total=make())
