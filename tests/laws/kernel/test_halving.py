"""The odd ones among items are found by halving: all of them, or all before a place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from functools import partial
from itertools import accumulate, cycle
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock, patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.steps import apart
from headrace.engine.steps.apart import UnusableRecordsError, set_apart
from headrace.engine.steps.halving import OutOfTriesError, Tries, odd_ones
from headrace.engine.steps.unusable import Unusable

if TYPE_CHECKING:
    from headrace.engine.steps.unusable import Place

pytestmark = pytest.mark.fast


class Items:
    """So many items, some of them odd; each try of a run is counted."""

    def __init__(self, count: int, odd: frozenset[int], tries: int) -> None:
        self.count, self.odd, self.tries = count, odd, Tries(tries)
        self.tried = 0

    def fails(self, first: int, end: int) -> bool:
        assert 0 <= first < end <= self.count
        self.tries.spend()
        self.tried += 1
        return any(first <= one < end for one in self.odd)

    def told(self, at: int) -> str:
        assert at in self.odd
        self.tries.spend()
        self.tried += 1
        return f"odd {at}"


COUNTS = st.integers(0, 300)


@st.composite
def items(draw: st.DrawFn) -> tuple[int, frozenset[int]]:
    count = draw(COUNTS)
    return count, draw(st.frozensets(st.integers(0, count - 1), max_size=40)) if count else frozenset()


@given(items())
def test_all_odd_ones_are_found(drawn: tuple[int, frozenset[int]]) -> None:
    each = Items(*drawn, tries=10_000)
    found = odd_ones(each.count, each.fails, each.told)
    assert found.items == {at: f"odd {at}" for at in each.odd}
    assert found.known == each.count
    odd = max(1, len(each.odd))
    assert each.tried <= 1 + odd * (3 + 2 * math.log2(max(2, each.count / odd) + 1))


@given(items(), st.integers(0, 60))
def test_when_the_tries_run_out_all_before_a_place_are_known(
    drawn: tuple[int, frozenset[int]], tries: int
) -> None:
    each = Items(*drawn, tries=tries)
    found = odd_ones(each.count, each.fails, each.told)
    assert each.tried <= tries
    assert set(found.items) == {at for at in each.odd if at < found.known}
    whole = Items(*drawn, tries=10_000)
    odd_ones(whole.count, whole.fails, whole.told)
    assert (found.known == each.count) == (whole.tried <= tries)


def test_one_odd_item_of_a_million_takes_few_tries() -> None:
    each = Items(1_000_000, frozenset({654_321}), tries=50)
    assert set(odd_ones(each.count, each.fails, each.told).items) == {654_321}


def test_no_try_is_left() -> None:
    with pytest.raises(OutOfTriesError):
        Tries(0).spend()


# Of each log commit how many records it has, and which of them are odd.
Commits = Sequence[tuple[int, frozenset[int]]]


class Log:
    """Trials of an increment of a log: they fail where a record is odd."""

    def __init__(self, commits: Commits, tries: Tries, first: int) -> None:
        self.commits = [0, *accumulate(count for count, _ in commits)]
        starts = zip(self.commits, commits, strict=False)
        self._odd = {start + each for start, (_, odd) in starts for each in odd}
        self._at = [first + number for number, (count, _) in enumerate(commits) for _ in range(count)]
        self._tries = tries

    def place(self, at: int) -> Place:
        return {"ingested_ms": self._at[at], "topic": "t", "partition": 0, "offset": at - self._first_of(at)}

    def fails(self, first: int, end: int) -> bool:
        assert 0 <= first < end <= self.commits[-1]
        self._tries.spend()
        return any(first <= one < end for one in self._odd)

    def unusable(self, at: int) -> list[Unusable]:
        self._tries.spend()
        place = self.place(at)
        return [Unusable("rows", **place, fate="dead_letter", reason="odd")] if at in self._odd else []

    def limited(self, tries: int) -> Log:
        part = copy(self)
        part._tries = Tries(tries, self._tries)
        return part

    def close(self) -> None:
        pass

    def _first_of(self, at: int) -> int:
        return max(start for start in self.commits[:-1] if start <= at)


def trials_of(commits: Commits, first: int, rows: Any, logs: Any, known: Any, tries: Tries) -> Log:
    return Log(commits, tries, first)


def folded(commits: Commits, cuts: Sequence[int]) -> tuple[set[tuple[int, int]], int]:
    """Fold a log in increments of so many commits: commit and offset of what is set apart, and where the node stops."""
    found: set[tuple[int, int]] = set()
    done, sizes = 0, cycle(cuts)
    while done < len(commits):
        upto = min(done + next(sizes), len(commits))
        with patch.object(apart, "Trials", partial(trials_of, commits[done:upto], done + 1)):
            try:
                each = set_apart(Mock(), {}, {"t": done}, {"t": upto}, [])
            except UnusableRecordsError:
                return found, done
        found |= {(one.ingested_ms - 1, one.offset) for one in each.added}
        assert each.upto_ms["t"] > done
        done = each.upto_ms["t"]
    return found, done


@st.composite
def logs(draw: st.DrawFn) -> Commits:
    found = []
    for _ in range(draw(st.integers(1, 8))):
        count = draw(st.integers(1, 40))
        found.append((count, draw(st.frozensets(st.integers(0, count - 1), max_size=6))))
    return found


@settings(max_examples=300, deadline=None)
@given(logs(), st.lists(st.integers(1, 8), min_size=1, max_size=4), st.integers(8, 40))
def test_neither_what_is_found_nor_where_a_node_stops_depends_on_cuts(
    commits: Commits, cuts: Sequence[int], tries: int
) -> None:
    with patch.multiple(apart, TRIES_MAX=tries + 5, COMMIT_TRIES_MAX=tries):
        found, stopped = folded(commits, cuts)
        assert (found, stopped) == folded(commits, [1])
    assert found == {(at, one) for at, (_, odd) in enumerate(commits[:stopped]) for one in odd}
