"""What the law of every operator leaves out of joins: rows that refer to no right row, and each pair of two events."""

from __future__ import annotations

import os
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings

from headrace import oracle
from headrace.fold.joins import orphans
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import Sequenced, World
from tests.laws.kernel.plans import Plan, plans
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.relation_subjects import HELD, KNOWN, VALUE, referring
from tests.laws.kernel.timelines import CUTS
from tests.laws.kernel.verdict import Verdict
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "6")), deadline=None)


@FEW
@given(referring("positions", "tickers"), plans())
def test_orphans_are_the_rows_that_refer_to_no_row(world: World, plan: Plan) -> None:
    reading = Reading(HELD.join(KNOWN, on="ticker").named("joined"), world, changes=True)
    _, _, state, _ = run(reading.operator.steps, reading, plan, revised=True).state
    found = orphans(state["left_by_reference"], state["right_by_key"], ["id"], ["ticker"]).to_pylist()
    held, known = (
        oracle.results(side.named("side"), oracle.Log({"result": reading.log.plain[name]})).rows
        for name, side in (("left", HELD), ("right", KNOWN))
    )
    symbols = {row["symbol"] for row in known}
    assert {row["id"]: row["__orphan"] for row in found} == {
        row["id"]: row["ticker"] not in symbols for row in held if row["ticker"] is not None
    }


# Every pair of events: a left row that refers to ticker 1, 2 or nothing or is absent, before and after; likewise ticker 1.
LEFT_STATES = {"absent": None, "of 1": 1, "of 2": 2, "of none": 0}
LEFT_EVENTS = {**LEFT_STATES, "none": -1, "created anew": 1}
RIGHT_STATES = {"absent": None, "there": 1900}
RIGHT_EVENTS = {"none": -1, "deleted": None, "changed": 1950, "created anew": 1960}
PAIRS = list(product(LEFT_STATES, LEFT_EVENTS, RIGHT_STATES, RIGHT_EVENTS, ("left first", "right first")))


@pytest.mark.parametrize("how", ["inner", "left"])
def test_every_pair_of_a_left_and_a_right_event_in_one_micro_batch_and_in_two(how: Any) -> None:
    """Each pair has keys of its own, so that three log commits try them all; ticker 2 of each is always there."""
    positions: dict[int, list[Arrival]] = {1: [], 2: [], 3: []}
    tickers: dict[int, list[Arrival]] = {1: [], 2: [], 3: []}
    for number, (left_before, left, right_before, right, first) in enumerate(PAIRS):
        half = 2 if first == "left first" else 3
        tickers[1].append(a_ticker(number, 2, 2))
        positions[1] += [a_position(number, left_before)] if left_before != "absent" else []
        tickers[1] += [a_ticker(number, 1, 1900)] if right_before != "absent" else []
        positions[half] += [a_position(number, event) for event in events(left, "absent", "of 1")]
        tickers[5 - half] += [
            a_ticker(number, 1, RIGHT_EVENTS[event]) for event in events(right, "deleted", "created anew")
        ]
    logs = [
        Sequenced(name, sequence([Commit(1_000 * at, sent) for at, sent in commits.items()], None, 0))
        for name, commits in (("positions", positions), ("tickers", tickers))
    ]
    world = World(logs, VALUE)
    verdict = Verdict(Reading(HELD.join(KNOWN, on="ticker", how=how).named("joined"), world, changes=True))
    for plan in CUTS:
        verdict.check(plan)


def events(event: str, *anew: str) -> list[str]:
    return {"none": [], "created anew": [*anew]}.get(event, [event])


def a_position(number: int, event: str) -> Arrival:
    refers = LEFT_EVENTS[event]
    ticker = f"t{number}-{refers}" if refers else None
    return an_arrival(f"p{number}", None if refers is None else {"ref": ticker, "amount": len(event)})


def a_ticker(number: int, which: int, founded: int | None) -> Arrival:
    return an_arrival(f"t{number}-{which}", None if founded is None else {"ref": "x", "amount": founded})


def an_arrival(key: str, value: dict[str, Any] | None) -> Arrival:
    kind = "tombstone" if value is None else "record"
    whole: Any = None if value is None else {**value, "also": None}
    return Arrival(0, key, 1, whole, kind)
