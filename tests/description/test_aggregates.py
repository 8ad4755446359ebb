"""Aggregates of two columns, and those that keep several values, are checked when they are described."""

from __future__ import annotations

from dataclasses import dataclass
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


def test_counts_are_whole_numbers_and_quantiles_are_an_array() -> None:
    node = totals(
        exact=hr.count_distinct("PAGE"),
        about=hr.approx_count_distinct("page"),
        parts=hr.quantiles("seconds", at=[0.5, 1]),
    )
    assert [column.type for column in node.result_columns[1:]] == ["BIGINT", "BIGINT", "ARRAY<DOUBLE>"]
    assert dict(node.aggregates)["exact"].column == "page"
    assert dict(node.aggregates)["parts"].at == (0.5, 1.0)


def test_error_and_quantiles_are_in_the_fingerprint() -> None:
    described = [
        hr.count_distinct("seconds"),
        hr.approx_count_distinct("seconds"),
        hr.approx_count_distinct("seconds", error=0.05),
        hr.quantiles("seconds", at=[0.5]),
        hr.quantiles("seconds", at=[0.25]),
        hr.quantiles("seconds", at=[0.5], error=0.02),
    ]
    assert len({totals(x=each).fingerprint() for each in described}) == len(described)


@pytest.mark.parametrize("error", [0, 0.5, -0.01, True, None, "0.01", float("nan")])
def test_an_error_beyond_its_range_is_refused(error: Any) -> None:
    with refused("approx_count_distinct: error", "from 0.005 to 0.25", "0.01 is one percent"):
        hr.approx_count_distinct("page", error=error)
    with refused("quantiles: error", "from 0.0001 to 0.1"):
        hr.quantiles("seconds", at=[0.5], error=error)


@pytest.mark.parametrize(
    "at", [[], [1.5], [-0.1], ["0.5"], "0.5", 0.5, [True], [None], [0.1234567], [float("nan")]]
)
def test_what_is_no_quantile_is_refused(at: Any) -> None:
    with refused("quantiles: at", "is not a number from 0 to 1", "hr.quantiles('seconds', at=[0.5, 0.99])"):
        hr.quantiles("seconds", at=at)


def test_values_that_cannot_be_counted_or_ordered_are_refused() -> None:
    with refused("x=quantiles('page')", "is STRING, not a number"):
        totals(x=hr.quantiles("page", at=[0.5]))
    with refused("x=count_distinct('tags')", "maps have no order"):
        totals(x=hr.count_distinct("tags"))
    with refused("x=approx_count_distinct('tags')", "values of several parts", "hr.count_distinct"):
        totals(x=hr.approx_count_distinct("tags"))


def test_a_table_counts_distinct_values_exactly_or_not_at_all() -> None:
    counted = VISITS.table().group_by("page").aggregate(n=hr.count_distinct("seconds"))
    assert counted.result_columns[-1].type == "BIGINT"
    with refused("x=approx_count_distinct('page') of a table", "cannot be taken back", "count_distinct"):
        VISITS.table().group_by("page").aggregate(x=hr.approx_count_distinct("page"))


@dataclass
class Share(hr.Aggregate):
    """The share of numbers above a limit."""

    limit: int = 0
    state = "above BIGINT, all BIGINT"
    result = "DOUBLE"

    def init(self) -> Any:
        return {"above": 0, "all": 0}

    def add(self, state: Any, *values: Any) -> Any:
        return self.merge(state, {"above": int(values[0] > self.limit), "all": 1})

    def merge(self, one: Any, other: Any) -> Any:
        return {name: one[name] + other[name] for name in one}

    def finish(self, state: Any) -> Any:
        return state["above"] / state["all"]


def test_an_aggregate_of_ones_own_is_told_by_its_code_and_its_attributes() -> None:
    shares = [totals(x=Share(limit).of("seconds")) for limit in (0, 0, 5)]
    assert shares[0].fingerprint() == shares[1].fingerprint() != shares[2].fingerprint()
    assert shares[0].rules()["aggregates"][0][1]["code"]["name"] == "Share"
    assert shares[0].result_columns[-1].type == "DOUBLE"
    assert shares[0].aggregates[0][1].in_words == "Share(seconds)"
    assert shares[0].aggregates[0][1].columns == ("seconds",)
    # What an aggregate of ours is told by stays as it was.
    assert hr.count().rules() == {"kind": "count", "column": None, "scale": 0}


def test_an_aggregate_of_ones_own_that_does_not_fit_is_refused() -> None:
    class Wrong(Share):
        state = "above BIGINT, every BIGINT"

    class Untyped(Share):
        result = "NUMBER"

    with refused("Wrong: init gives", "Return a dict with just these"):
        Wrong().of("seconds")
    with refused("Untyped: result"):
        Untyped().of("seconds")
    with refused("Share: nothing is not a column name", "Share().of('value')"):
        Share().of()
    with refused("aggregate: x=Share: column 'nothing' does not exist"):
        totals(x=Share().of("nothing"))
    with refused("x=Share(seconds) of a table: when a row goes, what it contributed"):
        VISITS.table().group_by("page").aggregate(x=Share().of("seconds"))


def test_an_aggregate_says_how_it_was_written() -> None:
    written = [
        hr.count(),
        hr.sum("a"),
        hr.top(3, "a", by="b"),
        hr.max_by("a", "b"),
        hr.quantiles("a", at=[0, 0.5]),
    ]
    assert [each.in_words for each in written] == [
        "count()", "sum(a)", "top(3, a, by=b)", "max_by(a, by=b)", "quantiles(a, at=[0.0, 0.5])",
    ]  # fmt: skip


def test_a_column_that_is_made_of_an_expression_is_no_name_to_write() -> None:
    """Before, a misspelt name was the column that another aggregate's expression had made."""
    topic = hr.Topic("t", key="k STRING", value="st STRUCT<x: INT>, ok BOOLEAN, n BIGINT")
    for other in (
        hr.sum("st_x"),
        hr.sum("n", where="st_x > 1"),
        hr.max_by("n", "st_x"),
        hr.sum("st_x", where="ok"),
    ):
        with refused("column 'st_x' does not exist", "Did you mean 'st'?"):
            topic.group_by("k").aggregate(a=hr.sum("st.x"), b=other)


@pytest.mark.parametrize(
    "sql", ["map(k, n)", "str_to_map(k)", "map_filter(map(k, n), (a, b) -> b > 1)", "array(map(k, n))"]
)
def test_a_map_that_an_expression_makes_has_no_order(sql: str) -> None:
    """Before, the stream failed."""
    grouped = hr.Topic("t", key="k STRING", value="n BIGINT").group_by("k")
    for made in (hr.min(sql), hr.count_distinct(sql), hr.max_by("n", sql)):
        with refused("is ", "MAP<STRING, ", "maps have no order"):
            grouped.aggregate(a=made)
