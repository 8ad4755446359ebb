"""The law of totals over several topics: what a sink got, and the place of each row, are the same in any cuts."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from tests.laws.changelogs import Changelog, History, Recorder, by_key, live, placed
from tests.laws.driving import FEW, in_parallel, side_by_side
from tests.laws.plain import Value, by_identity, results_of_changes

if TYPE_CHECKING:
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SALES = hr.Topic("sales", key="id STRING", value="shop STRING, amount INT")
REFUNDS = hr.Topic("refunds", key="id STRING", value="shop STRING, amount INT")
SHOPS, IDS = [f"s{n}" for n in range(6)], [f"i{n}" for n in range(9)]


def sale(random: Random) -> Value | None:
    if random.random() < 0.1:
        return None
    return {"shop": random.choice(SHOPS), "amount": random.choice([None, *range(-9, 100)])}


CHANGELOGS = {"sales": Changelog(IDS, sale), "refunds": Changelog(IDS, sale)}
RECORDERS = {name: Recorder() for name in ("totals", "totals_twin")}


def totals(name: str) -> Any:
    aggregates = {
        "n": hr.count(),
        "total": hr.sum("amount"),
        "newest": hr.last("id"),
        "some": hr.collect("amount", 4),
    }
    merged = SALES.merge(REFUNDS).group_by("shop").aggregate(**aggregates)
    return merged.to(RECORDERS[name]).named(name)


driver = side_by_side(totals(name) for name in RECORDERS)


@FEW
@given(seed=st.integers(0, 2**32))
def test_in_any_cuts_a_sink_ends_with_the_totals_each_at_the_place_of_its_last_record(
    driver: TestDriver, seed: int
) -> None:
    driver.reset()
    for recorder in RECORDERS.values():
        recorder.clear()
    history = History(driver, CHANGELOGS)
    live(history, list(RECORDERS), Random(seed), cuts=6, records=12)
    found = {topic: placed(driver, topic, history.changes[topic]) for topic in CHANGELOGS}
    node = totals("totals")
    expected = results_of_changes(node, found).rows
    wanted, last_ms = by_identity(node, expected), {row["shop"]: row["__sequence"] for row in expected}
    in_parallel(lambda name: check(driver, name, wanted), RECORDERS)
    rows = RECORDERS["totals"].rows
    assert rows == RECORDERS["totals_twin"].rows
    assert {key: place[0] for (key,), (place, _) in rows.items()} == last_ms
    driver.spark.catalog.clearCache()


def check(driver: TestDriver, name: str, wanted: dict[str, Value]) -> None:
    assert by_key(driver.read(name)) == wanted
    assert by_key(driver.backfill(name)) == wanted
    assert RECORDERS[name].table() == wanted
