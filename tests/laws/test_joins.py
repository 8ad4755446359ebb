"""The law of joins and groups: whatever changes, in whatever cuts, they hold what the latest rows make."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from tests.laws.changelogs import BEGIN_MS, Changelog, History, Recorder, by_key, ledger, live
from tests.laws.driving import FEW, SideBySide, in_parallel, side_by_side
from tests.laws.plain import Value, by_identity, fates, results_of_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Relation
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

POSITIONS = hr.Topic("positions", key="id STRING", value="ticker STRING, amount INT, parent STRING")
TICKERS = hr.Topic("tickers", key="ticker STRING", value="exchange STRING, founded INT")
EXCHANGES = hr.Topic("exchanges", key="exchange STRING", value="city STRING")

RECORDER = Recorder()
HELD, KNOWN, PLACES = POSITIONS.table(), TICKERS.table(), EXCHANGES.table()
BY_TIME = POSITIONS.table("timestamp").join(TICKERS.table("timestamp"), on="ticker", how="left")
SELECTED = ("left.amount AS amount", "right.amount AS parent_amount")
TOTALS = {"n": hr.count(), "total": hr.sum("amount"), "mean": hr.avg("amount")}
NODES: list[Relation] = [
    HELD.join(KNOWN, on="ticker").to(RECORDER).named("inner_join"),
    HELD.join(KNOWN, on="ticker", how="left").named("left_join"),
    HELD.join(KNOWN, on="ticker", broadcast=True).named("broadcast_join"),
    BY_TIME.named("by_time"),
    HELD.join(HELD, on="parent", how="left", select=SELECTED).named("self_join"),
    HELD.join(KNOWN, on="ticker").join(PLACES, on="exchange", how="left").named("chain"),
    HELD.join(KNOWN.join(PLACES, on="exchange"), on="ticker").named("nested"),
    HELD.group_by("ticker").aggregate(**TOTALS).named("groups"),
    HELD.join(KNOWN, on="ticker", how="left")
    .group_by("exchange")
    .aggregate(**TOTALS)
    .join(PLACES, on="exchange", how="left")
    .named("groups_of_a_join"),
]
NAMES = [node.required_name for node in NODES]
IDS, SYMBOLS, MARKETS = [f"p{n}" for n in range(12)], [f"t{n}" for n in range(5)], ["x0", "x1", "x2"]


def position(random: Random) -> Value | None:
    if random.random() < 0.25:
        return None
    return {
        "ticker": random.choice([*SYMBOLS, "dangling", None]),
        "amount": random.choice([None, *range(100)]),
        "parent": random.choice([*IDS, "nobody", None]),
    }


def ticker(random: Random) -> Value | None:
    if random.random() < 0.35:
        return None
    return {"exchange": random.choice([*MARKETS, "closed", None]), "founded": random.randrange(1900, 2000)}


def exchange(random: Random) -> Value | None:
    return None if random.random() < 0.35 else {"city": f"city {random.randrange(100)}"}


CHANGELOGS = {
    "positions": Changelog(IDS, position),
    "tickers": Changelog(SYMBOLS, ticker),
    "exchanges": Changelog(MARKETS, exchange),
}


driver = side_by_side(NODES)


@FEW
@given(seed=st.integers(0, 2**32))
def test_streamed_in_any_cuts_and_backfilled_a_join_is_that_of_the_latest_rows(
    driver: TestDriver, seed: int
) -> None:
    driver.reset()
    RECORDER.clear()
    history = History(driver, CHANGELOGS)
    live(history, NAMES, Random(seed), cuts=6, records=20)
    in_parallel(lambda node: check(driver, node, history), NODES)
    driver.spark.catalog.clearCache()


def check(driver: TestDriver, node: Relation, history: History) -> None:
    """Compare all that is read of a join with the oracle's."""
    name, expected = node.required_name, results_of_changes(node, history.changes)
    wanted = by_identity(node, expected.rows)
    assert by_key(driver.read(name)) == wanted
    assert by_key(driver.backfill(name)) == wanted
    nothing = dict.fromkeys(node.columns[1:])
    (key_column,) = node.identity
    updates = {row[key_column]: row.asDict() for row in driver.updates(name).orderBy("__batch").collect()}
    for key, update in updates.items():
        assert {column: update[column] for column in nothing} == {**nothing, **wanted.get(key, nothing)}
    assert updates.keys() >= wanted.keys()
    assert ledger(driver.ledger(name)) == fates(expected)
    if name == "inner_join":
        assert RECORDER.table() == wanted


# Every pair of events: a left row that refers to ticker 1, 2 or nothing or is absent, before and after; likewise ticker 1.
LEFT_STATES = {"absent": None, "of 1": 1, "of 2": 2, "of none": 0}
LEFT_EVENTS = {**LEFT_STATES, "none": -1, "created anew": 1}
RIGHT_STATES = {"absent": None, "there": 1900}
RIGHT_EVENTS = {"none": -1, "deleted": None, "changed": 1950, "created anew": 1960}
PAIRS = list(product(LEFT_STATES, LEFT_EVENTS, RIGHT_STATES, RIGHT_EVENTS, ("left first", "right first")))


def test_every_pair_of_a_left_and_a_right_event_in_one_micro_batch_and_in_two(spark: SparkSession) -> None:
    """Each pair has keys of its own, so that three cuts try them all; ticker 2 of each is always there."""
    hows = ("inner", "left")
    at_once = {f"{how}_at_once": HELD.join(KNOWN, on="ticker", how=how) for how in hows}
    in_two = {f"{how}_in_two": HELD.join(KNOWN, on="ticker", how=how) for how in hows}
    folded = {f"{how}_folded": HELD.join(KNOWN, on="ticker", how=how) for how in hows}
    nodes = [node.named(name) for name, node in {**at_once, **in_two, **folded}.items()]
    driver = SideBySide(nodes, spark)
    try:
        history = History(driver, CHANGELOGS)
        history.begin("positions", "tickers")
        for number, (left, _, right, _, _) in enumerate(PAIRS):
            send_left(history, number, [left] if left != "absent" else [])
            send_right(history, number, [right] if right != "absent" else [])
            history.pipe("tickers", f"t{number}-2", {"exchange": "x", "founded": 2}, BEGIN_MS)
        driver.cut()
        for name in folded:
            driver._runners[name].maintain()
        for half in ("left first", "right first"):
            history.begin("positions", "tickers")
            for number, (_, left, _, right, first) in enumerate(PAIRS):
                if first == half:
                    send_left(history, number, steps(left))
                else:
                    send_right(history, number, steps(right))
            driver.cut([*in_two, *folded])
        driver.cut()
        for node in nodes:
            name = node.required_name
            wanted = by_identity(node, results_of_changes(node, history.changes).rows)
            assert by_key(driver.read(name)) == wanted, name
            assert by_key(driver.backfill(name)) == wanted, name
    finally:
        driver.close()


def steps(event: str) -> Sequence[str]:
    return {"none": [], "created anew": ["absent", "of 1"]}.get(event, [event])


def send_left(history: History, number: int, events: Sequence[str]) -> None:
    for event in events:
        refers = LEFT_EVENTS[event]
        ticker = f"t{number}-{refers}" if refers else None
        value = None if refers is None else {"ticker": ticker, "amount": len(event), "parent": None}
        history.pipe("positions", f"p{number}", value, BEGIN_MS)


def send_right(history: History, number: int, events: Sequence[str]) -> None:
    for event in events:
        founded = {**RIGHT_STATES, **RIGHT_EVENTS, "of 1": 1960}[event]
        value = None if founded is None else {"exchange": "x", "founded": founded}
        history.pipe("tickers", f"t{number}-1", value, BEGIN_MS)
