"""The laws of aggregates that keep values, or counts of them: ranked and distinct values, estimates and quantiles."""

from __future__ import annotations

import datetime as dt
import math
import os
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Aggregate
from headrace.fold.aggregates import Aggregates, cardinality
from headrace.fold.aggregates.running import running_values
from headrace.fold.contract import INGESTED, OFFSET, PARTITION, TOPIC
from headrace.fold.segments import begins
from headrace.oracle.aggregates import aggregated
from tests.description.refusal import refused
from tests.laws.kernel.partials import LONGS, ORDERED, TYPES, folded, partials_of, rows_of

pytestmark = pytest.mark.fast

EXAMPLES = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "50")), deadline=None)
RANKING = ORDERED | {
    "long": TYPES["long"],
    "float": TYPES["float"],
    "moment": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    "struct": (
        pa.struct([("a", pa.float64()), ("b", pa.string())]),
        st.fixed_dictionaries(
            {"a": st.sampled_from([-0.0, 0.0, math.nan, None]), "b": st.none() | st.just("x")}
        ),
    ),
}
CARRIED = RANKING | {
    "map": (pa.map_(pa.string(), pa.int64()), st.lists(st.tuples(st.sampled_from("ab"), LONGS), max_size=2)),
    "bytes": (pa.binary(), st.binary(max_size=2)),
}


@EXAMPLES
@given(st.sampled_from(sorted(CARRIED)), st.sampled_from(sorted(RANKING)), st.data())
def test_ranked_values_do_not_depend_on_cuts(name: str, by: str, data: st.DataObject) -> None:
    of, values = CARRIED[name]
    by_type, ranks = RANKING[by]
    few = data.draw(st.lists(ranks, min_size=1, max_size=3))  # so that many are equal
    kinds = {kind: Aggregate(kind, "value", 0, by="rank") for kind in ("max_by", "min_by")}
    kinds["top"] = Aggregate("top", "value", 0, 2, "rank")
    drawn = data.draw(
        st.lists(st.tuples(st.none() | values, st.none() | ranks | st.sampled_from(few)), max_size=14)
    )
    rows = rows_of([value for value, _ in drawn], of)
    rows = rows.append_column("rank", pa.array([rank for _, rank in drawn], by_type, from_pandas=False))
    aggregates = Aggregates.of([*kinds.items()], rows.schema)
    codes = data.draw(st.lists(st.integers(0, 2), min_size=rows.num_rows, max_size=rows.num_rows))
    found = folded(rows, codes, 3, aggregates, data).to_pylist()
    pairs = [*zip(rows["value"].to_pylist(), rows["rank"].to_pylist(), strict=True)]
    for group in range(3):
        mine = [pair for pair, code in zip(pairs, codes, strict=True) if code == group]
        for kind, each in kinds.items():
            assert repr(found[group][kind]) == repr(aggregated(mine, each)), (kind, mine)


@EXAMPLES
@given(st.sampled_from(["long", "text", "double"]), st.booleans(), st.data())
def test_values_through_each_row_are_those_of_all_rows_before_it(
    name: str, alone: bool, data: st.DataObject
) -> None:
    of, values = (TYPES | ORDERED)[name]
    asked: dict[str, Aggregate] = {"different": hr.count_distinct("value")}
    asked |= {} if alone else {"n": hr.count(), "last": hr.last("value")}
    few = data.draw(st.lists(values, min_size=1, max_size=3))
    rows = rows_of(data.draw(st.lists(st.none() | st.sampled_from(few), max_size=12)), of)
    aggregates = Aggregates.of([*asked.items()], rows.schema)
    count = data.draw(st.integers(1, 6))
    codes = sorted(data.draw(st.lists(st.integers(0, count - 1), min_size=len(rows), max_size=len(rows))))
    partials = pa.table(aggregates.partials(rows, np.array(codes, np.int64), count))
    segment = np.array(sorted(data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))))
    found = pa.table(running_values(aggregates, partials, begins(segment))).to_pylist()
    for row in range(count):
        before = [n for n in range(row + 1) if segment[n] == segment[row]]
        mine = [value for value, code in zip(rows["value"].to_pylist(), codes, strict=True) if code in before]
        expected = {
            each: aggregated(mine if kind.column else [True] * len(mine), kind)
            for each, kind in asked.items()
        }
        assert repr(found[row]) == repr(expected)


def test_of_records_that_rank_as_high_the_first_in_the_log_is_taken() -> None:
    rows = pa.table(
        {
            INGESTED: [9, 9, 8, 8, 8],
            TOPIC: ["t"] * 5,
            PARTITION: pa.array([0, 0, 1, 0, 0], pa.int32()),
            OFFSET: [4, 3, 0, 1, 2],
            "value": ["fourth", "third", "second", "first", None],
            "rank": [-0.0, 0.0, 0.0, None, -1.0],
        }
    )
    asked = [
        ("best", hr.max_by("value", "rank")),
        ("worst", hr.min_by("value", "rank")),
        ("two", hr.top(2, "value", "rank")),
    ]
    aggregates = Aggregates.of(asked, rows.schema)
    (found,) = pa.table(aggregates.finish(aggregates.partials(rows, np.zeros(5, np.int64), 1))).to_pylist()
    assert found == {"best": "second", "worst": None, "two": ["second", "third"]}


COUNTED = RANKING | {"bytes": CARRIED["bytes"], "short": TYPES["short"]}


@EXAMPLES
@given(st.sampled_from(sorted(COUNTED)), st.data())
def test_distinct_values_are_counted_in_any_cut(name: str, data: st.DataObject) -> None:
    of, values = COUNTED[name]
    asked = {"exact": hr.count_distinct("value")}
    if not pa.types.is_nested(of):
        asked |= {f"about_{error}": hr.approx_count_distinct("value", error) for error in (0.25, 0.02)}
    check_in_two_cuts(asked, of, values, data)


@EXAMPLES
@given(st.sampled_from(sorted(TYPES)), st.sampled_from([0.0001, 0.01, 0.1]), st.data())
def test_quantiles_are_those_of_rounded_numbers_in_any_cut(
    name: str, error: float, data: st.DataObject
) -> None:
    of, values = TYPES[name]
    at = data.draw(
        st.lists(st.integers(0, 1_000_000).map(lambda each: each / 1_000_000), min_size=1, max_size=4)
    )
    check_in_two_cuts({"parts": hr.quantiles("value", at=[*at, 0.5, 0, 1], error=error)}, of, values, data)


def check_in_two_cuts(
    asked: dict[str, Aggregate], of: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    """Partials are merged along two cuts. Both lead to the same state, and to what the oracle finds."""
    few = data.draw(st.lists(values, min_size=1, max_size=4))
    rows = rows_of(data.draw(st.lists(st.none() | values | st.sampled_from(few), max_size=14)), of)
    aggregates = Aggregates.of([*asked.items()], rows.schema)
    codes = data.draw(st.lists(st.integers(0, 2), min_size=rows.num_rows, max_size=rows.num_rows))
    merged, others = (partials_of(rows, codes, 3, aggregates, data) for _ in range(2))
    assert merged.equals(others)
    found = pa.table(aggregates.finish(merged), schema=pa.schema(aggregates.results)).to_pylist()
    for group in range(3):
        mine = [value for value, code in zip(rows["value"].to_pylist(), codes, strict=True) if code == group]
        for name, each in asked.items():
            assert repr(found[group][name]) == repr(aggregated(mine, each)), (name, mine)


def test_an_estimate_is_as_exact_as_stated() -> None:
    """A standard error is a share of two thirds of all estimates; of these none is four of them away."""
    counts, found = [1, 10, 300, 4_000, 50_000, 200_000], []
    values = np.arange(sum(counts)) * 7_919
    codes = np.repeat(np.arange(len(counts)), counts)
    rows = pa.table({"value": pa.array(np.concatenate([values, values[::3]]))})
    for error in (0.1, 0.02, 0.005):
        aggregates = Aggregates.of([("n", hr.approx_count_distinct("value", error))], rows.schema)
        parts = aggregates.partials(rows, np.concatenate([codes, codes[::3]]), len(counts))
        estimates = np.array(aggregates.finish(parts)["n"].to_pylist())
        found += [*(np.abs(estimates / np.array(counts) - 1) / error)]
        assert max(map(len, parts["__n_registers"].to_pylist())) <= (1.04 / error) ** 2 * 2
    assert max(found) < 4
    assert np.mean(np.array(found) < 1) > 0.6


def test_estimates_of_many_values_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers stand in the state, and estimates in tables: neither may change with a new version."""
    values = [f"visitor {number}" for number in range(20_000)]
    rows = pa.table({"value": pa.array(values)})
    asked = hr.approx_count_distinct("value", 0.01)
    aggregates = Aggregates.of([("n", asked)], rows.schema)
    parts = aggregates.partials(rows, np.zeros(len(values), np.int64), 1)
    (found,) = aggregates.finish(parts)["n"].to_pylist()
    assert found == aggregated(values, asked) == 20_168
    monkeypatch.setattr(cardinality, "GROUPS_AT_ONCE", 10)
    many = pa.table(parts).take(pa.array(np.zeros(21, np.int64)))  # more than are estimated at once
    assert set(aggregates.finish(many)["n"].to_pylist()) == {found}


@pytest.mark.parametrize("error", [0.0001, 0.003, 0.01, 0.1])
def test_a_quantile_is_as_exact_as_stated(error: float) -> None:
    chance = np.random.default_rng(3)
    numbers = np.concatenate(
        [chance.lognormal(5, 4, 5_000), -chance.lognormal(-9, 3, 3_001), [0.0, sys.float_info.max, 5e-300]]
    )
    at = [0, 0.001, 0.25, 0.374, 0.375, 0.5, 0.99, 0.999999, 1]
    rows = pa.table({"value": pa.array(numbers)})
    aggregates = Aggregates.of([("parts", hr.quantiles("value", at=at, error=error))], rows.schema)
    parts = aggregates.partials(rows, np.zeros(len(numbers), np.int64), 1)
    (found,) = aggregates.finish(parts)["parts"].to_pylist()
    ordered = np.sort(numbers)
    for quantile, each in zip(at, found, strict=True):
        exactly_there = ordered[max(math.ceil(Fraction(str(quantile)) * len(ordered)), 1) - 1]
        assert abs(each - exactly_there) <= error * abs(exactly_there), quantile


def test_small_whole_numbers_are_quantiles_as_they_are() -> None:
    rows = pa.table({"value": pa.array([*range(-128, 129)])})
    at = [0, 0.25, 0.5, 0.75, 1]
    aggregates = Aggregates.of([("parts", hr.quantiles("value", at=at))], rows.schema)
    (found,) = aggregates.finish(aggregates.partials(rows, np.zeros(257, np.int64), 1))["parts"].to_pylist()
    assert found == [-128, -64, 0, 64, 128]


def test_columns_whose_type_only_sql_knows_are_refused_when_a_node_opens() -> None:
    inputs = pa.schema([("value", pa.struct([("a", pa.string())]))])
    with refused("quantiles: column 'value' is struct<a: string>, not a number", "try_cast"):
        Aggregates.of([("x", hr.quantiles("value", at=[0.5]))], inputs)
    with refused("approx_count_distinct: column 'value' is struct<a: string>", "hr.count_distinct"):
        Aggregates.of([("x", hr.approx_count_distinct("value"))], inputs)
