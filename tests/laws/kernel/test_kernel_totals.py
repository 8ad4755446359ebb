"""The law of totals: any cut, bucket and repeat leads to the totals that plain Python finds."""

from __future__ import annotations

import math
import os
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.fold.totals import Totals
from tests.laws.kernel.harness import ONE_GO, Outcome, Plan, plans, run
from tests.laws.kernel.logs import World, worlds
from tests.oracle.running_oracle import KEPT_ITEMS, totals_of

pytestmark = pytest.mark.fast

EXAMPLES = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "15")), deadline=None)
DOUBLES = st.one_of(
    st.sampled_from([0.1, 0.2, 0.7, -0.0, 0.0, 5e-7, 1.5e-6, -5e-7, 1e15 + 0.1, -1e15, 1e21, None]),
    st.floats(-1e6, 1e6),
    st.sampled_from([1e300, math.nan, -math.inf]),
)
LONGS = st.one_of(st.none(), st.integers(-5, 5), st.integers(-(10**15), 10**15))
DECIMALS = st.one_of(st.none(), st.decimals(-999_999_999, 999_999_999, places=3), st.just(Decimal("-0.001")))


def node(value: str, *topics: str) -> Any:
    streams = [hr.Topic(name, key="key STRING", value=f"value {value}") for name in topics]
    stream = streams[0] if len(streams) == 1 else streams[0].merge(*streams[1:])
    return stream.group_by("key").aggregate(
        n=hr.count(),
        total=hr.sum("value"),
        lowest=hr.min("value"),
        highest=hr.max("value"),
        mean=hr.avg("value"),
        oldest=hr.first("value"),
        newest=hr.last("value"),
        some=hr.collect("value", max_items=KEPT_ITEMS),
    )


def check(world: World, plan: Plan, value: str) -> Outcome:
    operator = Totals.of(node(value, *world.topics), world.schema)
    found = run(operator.steps, world, plan)
    expected = totals_of([(each.topic, each.log) for each in world.logs])
    rows = found.current(["key"])
    assert {key for (key,) in rows} == {*expected.rows}
    for (key,), row in rows.items():
        row["ts"] = row["__timestamp"]
        row["place"] = tuple(row[name] for name in ("__sequence", "__topic", "__partition", "__offset"))
        for name, wanted in expected.rows[key].items():
            assert alike(row[name], wanted), (key, name, row[name], wanted)
        del row["ts"], row["place"]
    assert found.fates == {(t, p, fate): n for (t, p, fate), n in expected.fates.items()}
    whole = {row["key"]: row for row in operator.current(found.state[0]["totals"]).to_pylist()}
    assert repr(sorted(whole.items())) == repr(sorted((key, row) for (key,), row in rows.items()))
    return found


def alike(found: Any, wanted: Any) -> bool:
    if isinstance(found, float) and isinstance(wanted, Decimal):
        return found == float(wanted)
    if isinstance(found, list):
        return repr(found) == repr(wanted)
    return repr(found) == repr(wanted) or bool(found == wanted)


@EXAMPLES
@given(worlds(DOUBLES, pa.float64(), ("t", "u")), plans(apart=True))
def test_totals_of_doubles_in_two_topics(world: World, plan: Plan) -> None:
    check(world, plan, "DOUBLE")


@EXAMPLES
@given(worlds(LONGS, pa.int64()), plans())
def test_totals_of_whole_numbers(world: World, plan: Plan) -> None:
    check(world, plan, "BIGINT")


@EXAMPLES
@given(worlds(DECIMALS, pa.decimal128(12, 3)), plans())
def test_totals_of_decimals(world: World, plan: Plan) -> None:
    check(world, plan, "DECIMAL(12,3)")


@EXAMPLES
@given(worlds(DOUBLES, pa.float64(), ("t", "u")), plans())
def test_what_is_shown_after_a_commit_depends_on_the_log_alone(world: World, plan: Plan) -> None:
    """The rows of a micro-batch that ends with a commit are those of one that begins with the log and ends there."""
    operator = Totals.of(node("DOUBLE", "t", "u"), world.schema)
    one, other = run(operator.steps, world, plan), run(operator.steps, world, ONE_GO)
    assert repr(sorted(one.current(["key"]).items())) == repr(sorted(other.current(["key"]).items()))
