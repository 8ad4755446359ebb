"""The law of aggregates: partials of any cut, merged in any order, finish to what plain Python finds over all rows."""

from __future__ import annotations

import math
import os
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Aggregate
from headrace.fold.aggregates import Aggregates
from headrace.fold.values.exact import as_decimals, exactly, limbs_of, to_doubles, to_integers
from headrace.oracle.aggregates import aggregated, exact, usable
from tests.laws.kernel.partials import DOUBLES, ORDERED, TYPES, folded, rows_of

pytestmark = pytest.mark.fast

EXAMPLES = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "50")), deadline=None)


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
@example([10**38 - 1] * 3, 0)  # more than 128 bits
@given(
    st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), min_size=1, max_size=20), st.integers(0, 30)
)
def test_decimals_of_any_size_add_up_and_become_doubles(numbers: list[int | None], places: int) -> None:
    of = pa.decimal128(38, places)
    values = pa.array([None if n is None else Decimal(n) for n in numbers], pa.decimal128(38, 0)).view(of)
    known = [n for n in numbers if n is not None]
    low, high, beyond = limbs_of(values).sums(np.zeros(len(numbers), np.int64), 1)
    total = as_decimals(low, high, pa.decimal128(38, 0), beyond).to_pylist()
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
