"""The law of tables: streamed in any cuts, crashed, folded or backfilled, they hold what a plain Python oracle holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from tests.laws.changelogs import Changelog, History, Recorder, by_key, ledger, live
from tests.laws.driving import FEW, in_parallel, side_by_side
from tests.oracle.tables_oracle import Change, Value, table

if TYPE_CHECKING:
    from headrace.description import Table
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VALUE = "ticker STRING, amount INT"
POSITIONS = hr.Topic("positions", key="id STRING", value=VALUE)
MORE = hr.Topic("more_positions", key="id STRING", value=VALUE)
KEYS = [f"p{number}" for number in range(12)]


def positive(value: Value) -> bool:
    return value["amount"] is not None and value["amount"] > 0


@dataclass(frozen=True)
class Subject:
    """A table under test, with what the oracle has to know of it; `sees`: which values reach the table at all."""

    node: Table
    order_by: str = "position"
    keeps: Callable[[Value], bool] = lambda value: True
    sees: Callable[[Value], bool] = lambda value: True

    @property
    def name(self) -> str:
        return self.node.required_name


RECORDERS = {"latest": Recorder(), "by_timestamp": Recorder()}
SUBJECTS = [
    Subject(POSITIONS.table().to(RECORDERS["latest"]).named("latest")),
    Subject(POSITIONS.table("timestamp").to(RECORDERS["by_timestamp"]).named("by_timestamp"), "timestamp"),
    Subject(POSITIONS.merge(MORE).table().named("of_two")),
    Subject(
        POSITIONS.merge(MORE).table("timestamp").where("amount > 0").named("kept"), "timestamp", positive
    ),
    Subject(POSITIONS.where("amount > 0").table().named("seen"), sees=positive),
]


def make(random: Random) -> Value | None:
    if random.random() < 0.3:
        return None
    return {"ticker": random.choice(["A", "B", None]), "amount": random.choice([None, -1, 0, 1, 2])}


CHANGELOGS = {topic.name: Changelog(KEYS, make) for topic in (POSITIONS, MORE)}


driver = side_by_side(subject.node for subject in SUBJECTS)


@FEW
@given(seed=st.integers(0, 2**32))
def test_streamed_in_any_cuts_and_backfilled_a_table_is_that_of_the_oracle(
    driver: TestDriver, seed: int
) -> None:
    driver.reset()
    for recorder in RECORDERS.values():
        recorder.rows.clear()
    history, random = History(driver, CHANGELOGS), Random(seed)
    live(history, [subject.name for subject in SUBJECTS], random, cuts=6, records=30)
    in_parallel(lambda subject: check(driver, subject, history), SUBJECTS)
    driver.spark.catalog.clearCache()


def check(driver: TestDriver, subject: Subject, history: History) -> None:
    """Compare all that is read of a table with the oracle's."""
    name = subject.name
    all_changes = [change for topic in subject.node.topics for change in history.changes[topic.name]]
    seen = [c for c in all_changes if c.value is None or subject.sees(c.value)]
    wanted = table(seen, subject.order_by, subject.keeps)
    assert by_key(driver.read(name)) == wanted
    assert by_key(driver.backfill(name)) == wanted
    updates = {row["id"]: row.asDict() for row in driver.updates(name).orderBy("__batch").collect()}
    gone = {"ticker": None, "amount": None}
    for key, update in updates.items():
        assert {column: update[column] for column in gone} == wanted.get(key, gone)
    assert updates.keys() >= wanted.keys()
    assert ledger(driver.ledger(name)) == fates(all_changes, subject)
    if name in RECORDERS:
        assert RECORDERS[name].table() == wanted


def fates(changes: list[Change], subject: Subject) -> Counter[tuple[str, int, str]]:
    """Each record's fate by topic and partition: what has a key is used, tombstones too."""
    counted: Counter[tuple[str, int, str]] = Counter()
    for change in changes:
        refused = change.value is not None and not subject.sees(change.value)
        fate = "filtered" if refused else "dead_letter" if change.key is None else "used"
        counted[change.at[1], change.at[2], "dead_letter" if change.dead else fate] += 1
    return counted
