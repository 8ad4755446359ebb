"""The law of tables: streamed in any cuts, crashed, folded or backfilled, they hold what a plain Python oracle holds."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from tests.laws.changelogs import Changelog, History, Recorder, by_key, ledger, live
from tests.laws.driving import FEW, in_parallel, side_by_side
from tests.laws.plain import Value, by_identity, fates, results_of_changes

if TYPE_CHECKING:
    from headrace.description import Table
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VALUE = "ticker STRING, amount INT"
POSITIONS = hr.Topic("positions", key="id STRING", value=VALUE)
MORE = hr.Topic("more_positions", key="id STRING", value=VALUE)
KEYS = [f"p{number}" for number in range(12)]


RECORDERS = {"latest": Recorder(), "by_timestamp": Recorder()}
NODES: list[Table] = [
    POSITIONS.table().to(RECORDERS["latest"]).named("latest"),
    POSITIONS.table("timestamp").to(RECORDERS["by_timestamp"]).named("by_timestamp"),
    POSITIONS.merge(MORE).table().named("of_two"),
    POSITIONS.merge(MORE).table("timestamp").where("amount > 0").named("kept"),
    POSITIONS.where("amount > 0").table().named("seen"),
]


def make(random: Random) -> Value | None:
    if random.random() < 0.3:
        return None
    return {"ticker": random.choice(["A", "B", None]), "amount": random.choice([None, -1, 0, 1, 2])}


CHANGELOGS = {topic.name: Changelog(KEYS, make) for topic in (POSITIONS, MORE)}


driver = side_by_side(NODES)


@FEW
@given(seed=st.integers(0, 2**32))
def test_streamed_in_any_cuts_and_backfilled_a_table_is_that_of_the_oracle(
    driver: TestDriver, seed: int
) -> None:
    driver.reset()
    for recorder in RECORDERS.values():
        recorder.clear()
    history, random = History(driver, CHANGELOGS), Random(seed)
    live(history, [node.required_name for node in NODES], random, cuts=6, records=30)
    in_parallel(lambda node: check(driver, node, history), NODES)
    driver.spark.catalog.clearCache()


def check(driver: TestDriver, node: Table, history: History) -> None:
    """Compare all that is read of a table with the oracle's."""
    name, expected = node.required_name, results_of_changes(node, history.changes)
    wanted = by_identity(node, expected.rows)
    assert by_key(driver.read(name)) == wanted
    assert by_key(driver.backfill(name)) == wanted
    updates = {row["id"]: row.asDict() for row in driver.updates(name).orderBy("__batch").collect()}
    gone = {"ticker": None, "amount": None}
    for key, update in updates.items():
        assert {column: update[column] for column in gone} == wanted.get(key, gone)
    assert updates.keys() >= wanted.keys()
    assert ledger(driver.ledger(name)) == fates(expected)
    if name in RECORDERS:
        assert RECORDERS[name].table() == wanted
