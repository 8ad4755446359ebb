"""The law of retention: cutting off a log's older rows changes no table, and what follows is what the whole log leads to.

In each random world the log is cut once or twice at random commits; more records follow, some of them for windows and
batches that were open at the cut. Windows and totals are compared with oracles that read the whole log; every kind of
node that can be cut, with a backfill from its opening balance; and the books balance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lifecycle.backfill import verify
from headrace.quality.books import open_books
from tests.laws.driving import FEW, in_parallel, side_by_side
from tests.laws.keeping import (
    NODES,
    PLACES,
    SESSIONS,
    Come,
    arrivals,
    check,
    pipe,
)
from tests.laws.tables import ms
from tests.oracle.log_oracle import Commit

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CUTTABLE = [node for node in NODES if node not in (SESSIONS, PLACES)]
NAMES = [node.required_name for node in CUTTABLE]
driver = side_by_side(CUTTABLE)


@dataclass(frozen=True)
class World:
    """Cuts of the stream: what arrives, which nodes run, and where the log is cut then: before the last so many; None: not."""

    cuts: list[tuple[list[Come], frozenset[str], int | None]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    cuts = []
    for number in range(draw(st.integers(3, 5))):
        come = draw(arrivals(1_700_000_000_000, number, ["a", "a", "b", None]))
        kept = draw(st.sampled_from([0, 1, 2, None]))
        cuts.append((come, frozenset(draw(st.sets(st.sampled_from(NAMES)))), kept))
    return World(cuts)


def is_lively(world: World) -> bool:
    """True if enough happens to try the law: the first example of Hypothesis is the simplest, all cut before its end."""
    kept = [kept for _, _, kept in world.cuts if kept is not None]
    return sum(len(come) for come, _, _ in world.cuts) >= 12 and len(kept) >= 2 and any(kept)


@FEW
@given(world=worlds().filter(is_lively))
def test_a_log_that_is_cut_leads_from_the_opening_balances_to_what_the_whole_log_leads_to(
    driver: TestDriver, world: World
) -> None:
    driver.reset()
    commits: list[Commit] = []
    for number, (come, runs, kept) in enumerate(world.cuts):
        driver.advance_wall_clock("4 seconds")
        commits.append(Commit(driver.now_ms, [arrival for arrival, _ in come]))
        for arrival, place in come:
            pipe(driver, arrival, place)
        last = number == len(world.cuts) - 1
        driver.cut(None if last or kept is not None else sorted(runs))
        if kept is not None:
            cut_before(driver, commits[-1 - min(kept, number)].now)
    check(driver, commits, CUTTABLE)
    in_parallel(partial(books_balance, driver), CUTTABLE)


def cut_before(driver: TestDriver, before_ms: int) -> None:
    done = driver.retain("events", before_ms)
    if done.at_ms is not None:
        assert done.at_ms < before_ms
        rest = [ms(row["ingested_at"]) for row in driver.log("events") if row["offset"] is not None]
        assert all(at_ms > done.at_ms for at_ms in rest)


def books_balance(driver: TestDriver, node: Node) -> None:
    books = open_books(driver.spark, driver._lake, node)
    assert [a for a in books.accounts if a.delivered != a.accounted] == [], node.required_name
    assert books.in_results in (None, books.total("used")), node.required_name
    differing = [verdict for verdict in verify(driver.spark, driver._lake, node) if not verdict.equal]
    assert differing == [], node.required_name
