"""Aggregates of two columns, and those that keep several values, are checked when they are described."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as hr
from headrace.description import RunningAggregate
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

VISITS = hr.Topic("visits", key="visitor STRING", value="page STRING, seconds DOUBLE, tags MAP<STRING, INT>")


def totals(**aggregates: Any) -> RunningAggregate:
    return VISITS.group_by().aggregate(**aggregates)


def test_ranked_values_have_the_type_of_their_column() -> None:
    node = totals(
        best=hr.max_by("page", by="seconds"),
        worst=hr.min_by("tags", "PAGE"),
        three=hr.top(3, "Page", by="seconds"),
    )
    assert [(column.name, column.type) for column in node.result_columns[1:]] == [
        ("best", "STRING"),
        ("worst", "MAP<STRING, INT>"),
        ("three", "ARRAY<STRING>"),
    ]
    assert dict(node.aggregates)["worst"] == hr.min_by("tags", by="page")


def test_what_ranks_is_in_the_fingerprint_and_is_read() -> None:
    by_seconds = totals(best=hr.max_by("visitor", by="seconds"))
    (branch,) = by_seconds.rules()["branches"]
    assert branch["value"] == "`seconds` DOUBLE"
    others: list[Any] = [
        hr.max_by("visitor", "page"),
        hr.min_by("visitor", "seconds"),
        hr.top(1, "visitor", "seconds"),
    ]
    others.append(hr.top(2, "visitor", "seconds"))
    found = {totals(best=other).fingerprint() for other in others}
    assert len({by_seconds.fingerprint(), *found}) == 5


@pytest.mark.parametrize("name", ["max_by", "min_by", "top"])
def test_values_are_ranked_by_a_column_that_has_an_order(name: str) -> None:
    def described(value: Any, by: Any) -> Any:
        return hr.top(2, value, by) if name == "top" else getattr(hr, name)(value, by)

    with refused(f"{name}: by None", "is not a column name", f"hr.{name}("):
        described("page", None)
    with refused(f"{name}: 5", "is not a column name"):
        described(5, "page")
    with refused(f"{name}('page'): by", "column 'secnds' does not exist", "Did you mean 'seconds'"):
        totals(best=described("page", "secnds"))
    with refused("column 'tags' is MAP<STRING, INT>", "maps have no order"):
        totals(best=described("page", "tags"))


@pytest.mark.parametrize("n", [0, -1, 1.5, True, None, "3"])
def test_top_keeps_a_positive_number_of_values(n: Any) -> None:
    with refused("top: n", "is not a positive number", "hr.top(3, 'page', by='seconds')"):
        hr.top(n, "page", by="seconds")


@pytest.mark.parametrize(
    "aggregate", [hr.max_by("page", "seconds"), hr.min_by("page", "seconds"), hr.top(2, "page", "seconds")]
)
def test_a_table_has_aggregates_by_rank_and_needs_their_columns(aggregate: Any) -> None:
    best = VISITS.table().group_by("page").aggregate(best=aggregate)
    assert best.result_columns[-1].type == ("ARRAY<STRING>" if aggregate.kind == "top" else "STRING")
    with refused("by: column 'seconds' does not exist"):
        VISITS.select("visitor", "page").table().group_by("page").aggregate(best=aggregate)
