"""The law of erasure: afterwards every table is that of a log in which the key's records said nothing.

In each random world one key is erased between two cuts; nodes may be behind, and some died on the way.
More records follow, of the same key too. Windows and totals are compared with the oracles; every kind of node, with its
own backfill; and no file of any table's newest version holds the key any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sequence.log_columns import ERASED
from headrace.testing.driver import STEPS
from tests.lake.searching import files_with
from tests.laws.driving import FEW, side_by_side
from tests.laws.keeping import NODES, Come, arrivals, check, pipe
from tests.oracle.log_oracle import Arrival, Commit

if TYPE_CHECKING:
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GONE = "erase-me-7f3a"
KEYS = [GONE, GONE, "a", "b", None]
NAMES = [node.required_name for node in NODES]
driver = side_by_side(NODES)


@dataclass(frozen=True)
class World:
    """Cuts: what arrives, and which nodes run; the key goes after one of them. `crashes` strike at the first."""

    cuts: list[tuple[list[Come], frozenset[str]]]
    erased_after: int
    crashes: dict[str, str]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    cuts = []
    for number in range(draw(st.integers(2, 4))):
        come = draw(arrivals(1_700_000_000_000, number, KEYS))
        cuts.append((come, frozenset(draw(st.sets(st.sampled_from(NAMES))))))
    dying = draw(st.sets(st.sampled_from(NAMES), max_size=3))
    return World(cuts, draw(st.integers(0, len(cuts) - 1)), {n: draw(st.sampled_from(STEPS)) for n in dying})


def is_lively(world: World) -> bool:
    """True if enough happens to try the law: the first example of Hypothesis is the simplest, without a crash."""
    keys = [arrival.key for come, _ in world.cuts for arrival, _ in come]
    return len(keys) >= 12 and {GONE, "a", "b"} <= {*keys} and bool(world.crashes)


def erased(arrival: Arrival) -> Arrival:
    """What the log still says of it: a dead letter stays one."""
    return (
        replace(arrival, kind=ERASED)
        if (arrival.key, arrival.kind != "dead_letter") == (GONE, True)
        else arrival
    )


@FEW
@given(world=worlds().filter(is_lively))
def test_after_an_erasure_all_tables_are_those_of_a_log_whose_records_of_the_key_say_nothing(
    driver: TestDriver, world: World
) -> None:
    driver.reset()
    for name, step in world.crashes.items():
        driver.crash(step, name)
    commits: list[Commit] = []
    for number, (come, runs) in enumerate(world.cuts):
        driver.advance_wall_clock("4 seconds")
        commits.append(Commit(driver.now_ms, [arrival for arrival, _ in come]))
        for arrival, place in come:
            pipe(driver, arrival, place)
        driver.cut(None if number == len(world.cuts) - 1 else sorted(runs))
        if number != world.erased_after:
            continue
        theirs = [a for commit in commits for a in commit.arrivals if a.key == GONE]
        assert bool(files_with(driver, GONE)) == bool(theirs)
        done = {(each.of, each.what): each.rows for each in driver.erase("events", GONE)}
        assert done["log/events", "log"] == len(theirs)
        commits = [replace(commit, arrivals=[*map(erased, commit.arrivals)]) for commit in commits]
        assert files_with(driver, GONE) == []
    check(driver, commits, NODES)
