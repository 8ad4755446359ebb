"""The law of aggregates: partials of any cut, merged in any order, finish to what plain Python finds over all rows."""

from __future__ import annotations

import datetime as dt
import math
import os
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Aggregate
from headrace.fold.aggregates import Aggregates
from headrace.fold.contract import INGESTED, OFFSET, PARTITION, TOPIC
from headrace.fold.exact import as_decimals, exactly, limbs_of, to_doubles, to_integers
from headrace.oracle.aggregates import aggregated, exact, usable

pytestmark = pytest.mark.fast

EXAMPLES = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "50")), deadline=None)
DOUBLES = st.one_of(
    st.sampled_from([0.1, 0.7, -0.0, 0.0, 5e-7, 1.5e-6, -5e-7, 2.675, 1e15 + 0.1, -1e15, 1e21, 9.5e21, 1e22]),
    st.sampled_from(
        [
            math.nan,
            math.inf,
            -math.inf,
            1e300,
            sys.float_info.max,
            5e-324,
            999999999.9999999,
            0.5,
            2.5,
            -2.5,
            1.7e9,
        ]
    ),
    st.floats(-1e6, 1e6),
    st.floats(),
    st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 13)).map(lambda pair: pair[0] / 10 ** pair[1]),
)
LONGS = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "double": (pa.float64(), DOUBLES),
    "float": (pa.float32(), st.floats(width=32)),
    "long": (pa.int64(), LONGS),
    "short": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "decimal": (
        pa.decimal128(12, 3),
        st.decimals(-999_999_999, 999_999_999, places=3),
    ),
    "wide": (
        pa.decimal128(38, 10),
        st.one_of(st.decimals(-(10**27), 10**27, places=10), st.decimals(-(10**5), 10**5, places=10)),
    ),
    "deep": (pa.decimal128(38, 30), st.decimals(-2, 2, places=30)),
}
ORDERED: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text(st.sampled_from("abü\x00"), max_size=3)),
    "date": (pa.date32(), st.dates()),
    "flag": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(12, 3), st.decimals(-999, 999, places=3)),
    "double": (pa.float64(), DOUBLES),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(-2, 2), max_size=3)),
}


def rows_of(values: list[Any], of: pa.DataType) -> pa.Table:
    """Rows in the log's order."""
    n = len(values)
    return pa.table(
        {
            INGESTED: pa.array([7 + i // 5 for i in range(n)], pa.int64()),
            TOPIC: pa.array([f"t{i // 3 % 2}" for i in range(n)], pa.string()),
            PARTITION: pa.array([1 + i % 2 for i in range(n)], pa.int32()),
            OFFSET: pa.array(range(n), pa.int64()),
            "value": pa.array(values, of, from_pandas=False),
        }
    ).sort_by([(name, "ascending") for name in (INGESTED, TOPIC, PARTITION, OFFSET)])


def folded(
    rows: pa.Table, codes: list[int], groups: int, aggregates: Aggregates, data: st.DataObject
) -> pa.Table:
    """The results, merged along a cut."""
    merged = partials_of(rows, codes, groups, aggregates, data)
    return pa.table(aggregates.finish(merged), schema=pa.schema(aggregates.results))


def partials_of(
    rows: pa.Table, codes: list[int], groups: int, aggregates: Aggregates, data: st.DataObject
) -> pa.Table:
    """Cut anywhere into partials, merge some of them, then all; in any order."""
    order = np.array(data.draw(st.permutations(range(rows.num_rows))), np.int64)
    cuts = sorted(data.draw(st.lists(st.integers(0, rows.num_rows), max_size=3)))
    tables, which = [], []
    for begin, end in zip([0, *cuts], [*cuts, rows.num_rows], strict=True):
        part = order[begin:end]
        mine, dense = np.unique(np.array(codes, np.int64)[part], return_inverse=True)
        found = aggregates.partials(rows.take(pa.array(part)), dense, len(mine))
        tables.append(pa.table(found, schema=pa.schema(aggregates.fields)))
        which.append(mine)
    if len(tables) > 2:
        both = np.concatenate(which[:2])
        mine, dense = np.unique(both, return_inverse=True)
        merged = aggregates.merge(pa.concat_tables(tables[:2]), dense, len(mine))
        tables, which = (
            [pa.table(merged, schema=pa.schema(aggregates.fields)), *tables[2:]],
            [mine, *which[2:]],
        )
    merged = aggregates.merge(pa.concat_tables(tables), np.concatenate(which), groups)
    return pa.table(merged, schema=pa.schema(aggregates.fields))


def rounded(value: float, scale: int) -> Fraction | None:
    """What the oracle adds for a double; None: it is out of range."""
    number = exact(value, Aggregate("sum", "value", scale))
    return None if number is None else Fraction(number, 10**scale)


def same(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and math.isnan(found):
        return isinstance(expected, float) and math.isnan(expected)
    return bool(found == expected) and str(found).startswith("-") == str(expected).startswith("-")


@EXAMPLES
@given(st.sampled_from(sorted(TYPES)), st.integers(0, 12), st.data())
def test_sums_are_exact_in_any_cut(name: str, scale: int, data: st.DataObject) -> None:
    of, values = TYPES[name]
    asked = {kind: Aggregate(kind, "value", scale) for kind in ("count", "sum", "avg", "variance", "stddev")}
    aggregates = Aggregates.of(
        [(kind, Aggregate(kind, "VALUE", scale)) for kind in asked], rows_of([], of).schema
    )
    drawn = data.draw(st.lists(st.none() | values, max_size=14))
    rows = rows_of(drawn, of)
    refused = {reason: mask for mask, reason in aggregates.unusable(rows)}
    given_values = rows["value"].to_pylist()
    for kind, each in asked.items():
        mask = refused.get(f"out of range: VALUE for {kind} {kind}", np.zeros(len(drawn), bool))
        assert [usable(value, each) for value in given_values] == (~mask).tolist()
    good = [all(usable(value, each) for each in asked.values()) for value in given_values]
    rows = rows.filter(pa.array(good, pa.bool_()))
    codes = data.draw(st.lists(st.integers(0, 2), min_size=rows.num_rows, max_size=rows.num_rows))
    found = folded(rows, codes, 3, aggregates, data).to_pylist()
    kept = rows["value"].to_pylist()
    for group in range(3):
        mine = [value for value, code in zip(kept, codes, strict=True) if code == group]
        for kind, each in asked.items():
            assert same(found[group][kind], aggregated(mine, each)), (kind, mine)


@EXAMPLES
@given(st.sampled_from(sorted(ORDERED)), st.data())
def test_extremes_and_order_do_not_depend_on_cuts(name: str, data: st.DataObject) -> None:
    of, values = ORDERED[name]
    kinds = {
        kind: Aggregate(kind, "value", 0, 2 if kind == "collect" else None)
        for kind in ("min", "max", "first", "last", "collect", "count")
    }
    rows = rows_of(data.draw(st.lists(st.none() | values, max_size=14)), of)
    aggregates = Aggregates.of([*kinds.items()], rows.schema)
    codes = data.draw(st.lists(st.integers(0, 2), min_size=rows.num_rows, max_size=rows.num_rows))
    found = folded(rows, codes, 3, aggregates, data).to_pylist()
    kept = rows["value"].to_pylist()
    for group in range(3):
        mine = [value for value, code in zip(kept, codes, strict=True) if code == group]
        for kind, each in kinds.items():
            expected = aggregated(mine, each)
            assert repr(found[group][kind]) == repr(expected), (kind, mine)


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


def test_estimates_of_many_values_stay_what_they_are() -> None:
    """Registers stand in the state, and estimates in tables: neither may change with a new version."""
    values = [f"visitor {number}" for number in range(20_000)]
    rows = pa.table({"value": pa.array(values)})
    asked = hr.approx_count_distinct("value", 0.01)
    aggregates = Aggregates.of([("n", asked)], rows.schema)
    parts = aggregates.partials(rows, np.zeros(len(values), np.int64), 1)
    (found,) = aggregates.finish(parts)["n"].to_pylist()
    assert found == aggregated(values, asked) == 20_168


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


@EXAMPLES
@given(st.sampled_from(["double", "long", "decimal"]), st.data())
def test_rows_can_be_taken_out_again(name: str, data: st.DataObject) -> None:
    of, values = TYPES[name]
    kinds = ("count", "sum", "avg", "variance", "stddev")
    asked = {kind: Aggregate(kind, "value", 6) for kind in kinds}
    asked["quantiles"] = hr.quantiles("value", at=[0, 0.5, 1])
    drawn = data.draw(st.lists(values, min_size=1, max_size=10))
    drawn = [value for value in drawn if all(usable(value, each) for each in asked.values())]
    out = data.draw(st.lists(st.booleans(), min_size=len(drawn), max_size=len(drawn)))
    rows = rows_of(drawn, of)
    aggregates = Aggregates.of([*asked.items()], rows.schema)
    assert aggregates.invertible
    schema = pa.schema(aggregates.fields)
    everything = pa.table(aggregates.partials(rows, np.zeros(rows.num_rows, np.int64), 1), schema=schema)
    gone = rows.filter(pa.array(out, pa.bool_()))
    minus = aggregates.negate(
        pa.table(aggregates.partials(gone, np.zeros(gone.num_rows, np.int64), 1), schema=schema)
    )
    both = pa.concat_tables([everything, pa.table(minus, schema=schema)])
    merged = pa.table(aggregates.merge(both, np.zeros(2, np.int64), 1), schema=schema)
    (found,) = pa.table(aggregates.finish(merged)).to_pylist()
    rest = rows.filter(pa.array([not each for each in out], pa.bool_()))
    assert merged.equals(pa.table(aggregates.partials(rest, np.zeros(len(rest), np.int64), 1), schema=schema))
    left = rest["value"].to_pylist()
    assert all(same(found[kind], aggregated(left, each)) for kind, each in asked.items())


@EXAMPLES
@given(st.lists(DOUBLES, min_size=1, max_size=20), st.integers(0, 12))
def test_floats_are_rounded_half_away_from_zero_by_their_shortest_form(
    doubles: list[float], scale: int
) -> None:
    exact = exactly(pa.array(doubles, from_pandas=False), scale)
    low, high, _ = exact.sums(np.arange(len(doubles)), len(doubles))
    found = as_decimals(low, high, pa.decimal128(38, scale), ~exact.there).to_pylist()
    expected = [rounded(value, scale) for value in doubles]
    assert [None if value is None else Fraction(value) for value in found] == expected


@EXAMPLES
@given(
    st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), min_size=1, max_size=20), st.integers(0, 30)
)
def test_decimals_of_any_size_add_up_and_become_doubles(numbers: list[int | None], places: int) -> None:
    of = pa.decimal128(38, places)
    values = pa.array([None if n is None else Decimal(n) for n in numbers], pa.decimal128(38, 0)).view(of)
    known = [n for n in numbers if n is not None]
    low, high, _ = limbs_of(values).sums(np.zeros(len(numbers), np.int64), 1)
    total = as_decimals(low, high, pa.decimal128(38, 0)).to_pylist()
    assert total == [sum(known) if abs(sum(known)) < 10**38 else None]
    assert to_doubles(values).to_pylist() == [
        None if n is None else float(Fraction(n, 10**places)) for n in numbers
    ]
    integers = to_integers(values.view(pa.decimal128(38, 0))).to_pylist()
    assert integers == [n if n is not None and -(2**63) <= n < 2**63 else None for n in numbers]


def test_a_sum_beyond_its_type_is_null_and_stays_so() -> None:
    rows = pa.table({"value": pa.array([2**63 - 1, 1, -5])})
    aggregates = Aggregates.of([("total", Aggregate("sum", "value", 0))], rows.schema)
    parts = aggregates.partials(rows, np.array([0, 0, 1]), 2)
    assert aggregates.finish(parts)["total"].to_pylist() == [None, -5]
    merged = aggregates.merge(parts, np.zeros(2, np.int64), 1)
    assert aggregates.finish(merged)["total"].to_pylist() == [2**63 - 5]  # the partial holds it


@pytest.mark.parametrize("scale", range(13))
def test_halves_are_rounded_away_from_zero_wherever_the_double_lies(scale: int) -> None:
    """1.005 lies beneath its half, and times a hundred it is 100.49999999999999; its shortest form is 1.005."""
    halves = [float(f"{whole}5e-{scale + 1}") for whole in range(-300, 300)]
    doubles = [
        each for half in halves for each in (half, math.nextafter(half, 9e9), math.nextafter(half, -9e9))
    ]
    exact = exactly(pa.array(doubles), scale)
    low, high, _ = exact.sums(np.arange(len(doubles)), len(doubles))
    found = as_decimals(low, high, pa.decimal128(38, scale)).to_pylist()
    assert list(map(Fraction, found)) == [rounded(value, scale) for value in doubles]


def test_a_sum_of_more_than_38_digits_stays_null() -> None:
    of = pa.decimal128(28, 0)
    rows = pa.table({"value": pa.array([Decimal(10**27), Decimal(-5)], of)})
    aggregates = Aggregates.of([("total", Aggregate("sum", "value", 0))], rows.schema)
    parts = pa.table(aggregates.partials(rows, np.array([0, 1]), 2))
    for _ in range(11):  # doubled, and with its sign turned, as often as it takes: 10**38 does not fit
        both = pa.concat_tables([parts.take(pa.array([0])).combine_chunks() for _ in range(10)])
        grown = pa.table(aggregates.merge(both, np.zeros(10, np.int64), 1))
        parts = pa.concat_tables([grown, parts.slice(1)])
    assert aggregates.finish(parts)["total"].to_pylist() == [None, Decimal(-5)]
    merged = aggregates.merge(parts, np.zeros(2, np.int64), 1)
    assert aggregates.finish(merged)["total"].to_pylist() == [None]
