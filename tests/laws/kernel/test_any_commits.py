"""Counterexamples: one log, committed in two ways with the same stream times, gives the same rows. Minutes of one day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import headrace as hr
from tests.laws.kernel.test_several_topics import MINUTE, Row, T, U, V, counts, folded, log, windows

pytestmark = pytest.mark.fast

OTHER = U.select("key", "value AS other")
PRIOR = T.join_prior(OTHER, on="key", grace=2 * MINUTE)
DATED = T.lookup(OTHER.table(), on="key", as_of="event", complete_first=False)


def values(described: Any, t: Sequence[Row], u: Sequence[Row]) -> list[tuple[int, int | None]]:
    """The rows that leave: the values of T and of U."""
    found, _ = folded(described, {"t": log("t", t), "u": log("u", u)})
    return sorted((row["value"], row["other"]) for row in found.rows())


@pytest.mark.parametrize("commits", [(3, 3), (3, 5)])
def test_a_version_that_comes_late_counts_from_the_stream_time_at_which_it_came(
    commits: tuple[int, int],
) -> None:
    stream = [(1, "a", 10, 10), (2, "a", 25, 25), (9, "b", 60, 60)]
    table = [(commits[0], "a", 5, 5), (commits[0], "b", 20, 20), (commits[1], "a", 8, 20), (8, "b", 70, 70)]
    # Before, one commit of the table gave (1, 3): the late row of minute 8 stood there when the first record left.
    assert values(DATED, stream, table) == [(1, 1), (2, 3)]


@pytest.mark.parametrize("commits", [(3, 3), (3, 5)])
def test_an_earlier_record_counts_that_comes_within_the_grace(commits: tuple[int, int]) -> None:
    stream = [(1, "a", 10, 10), (2, "a", 25, 25), (9, "b", 60, 60)]
    within = [(commits[0], "a", 5, 5), (commits[0], "b", 12, 12), (commits[1], "a", 8, 12), (8, "b", 70, 70)]
    beyond = [(commits[0], "a", 5, 5), (commits[0], "b", 13, 13), (commits[1], "a", 8, 13), (8, "b", 70, 70)]
    assert values(PRIOR, stream, within) == [(1, 3), (2, 3)]
    assert values(PRIOR, stream, beyond) == [(1, 1), (2, 3)]


def test_a_record_that_comes_late_finds_what_the_records_before_it_find() -> None:
    table = [(1, "a", 5, 5), (1, "a", 7, 7), (1, "a", 20, 20), (9, "b", 40, 40)]
    for at in (2, 3):
        stream = [(2, "b", 20, 20), (at, "a", 8, 20), (8, "b", 30, 30)]
        assert values(DATED, stream, table) == [(1, None), (2, 2)]


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_pair_does_not_depend_on_which_record_is_committed_first(order: tuple[int, int]) -> None:
    joined = T.join(OTHER, on="key", within=10 * MINUTE, grace=2 * MINUTE)
    left: list[Row] = [(order[0], "b", 70, 70), (order[0], "a", 60, 70)]  # behind by more than the grace
    right: list[Row] = [(order[1], "a", 50, 50), (order[1], "a", 65, 65)]
    # Before, the pair of minutes 60 and 50 was there if the left record was committed before the right one.
    assert values(joined, left, right) == [(2, 2)]


LOOKED_UP = T.lookup(OTHER.table(), on="key", complete_first=False).select("key", "value")
LATE = [
    (1, "a", 10, 10),
    (2, "a", 0, 10),
    (3, "a", 30, 30),
]  # the second record is late for windows of five minutes
TOGETHER = [(2, "a", 10, 10), (2, "a", 0, 10), (3, "a", 30, 30)]


@pytest.mark.parametrize("stream", [LATE, TOGETHER])
def test_behind_a_node_a_record_is_late_as_it_is_without_the_node(stream: list[Row]) -> None:
    logs = {"t": log("t", stream), "u": log("u", [(1, "a", 0, 0)])}
    # Before, the record of minute 0 had a window behind the lookup if one commit held it and the record of minute 10.
    assert counts(windows(T, 5), logs) == counts(windows(LOOKED_UP, 5), logs) == {10: 1}


@pytest.mark.parametrize("stream", [LATE, TOGETHER])
def test_windows_of_one_commit_are_not_late_for_larger_windows(stream: list[Row]) -> None:
    small = windows(T, 5).select("key", "n AS value")
    assert counts(windows(small, 10), {"t": log("t", [*stream, (4, "a", 90, 90)])}) == {10: 1, 30: 1}


def looked_up(stream: Any) -> Any:
    """A node that goes by clocks."""
    return stream.lookup(OTHER.table(), on="key", complete_first=False).select("key", "value")


CALM = T.table().suppress(hr.until_time_limit(10 * MINUTE)).select("key", "value")
SELDOM = [("a", 0, 0), ("b", 1000, 1000), ("c", 1001, 1001), ("d", 4000, 4000)]
OF_NO_UPDATE = [("a", 0, 0), (None, 600, 600), ("b", 590, 600), ("c", 2000, 2000), ("c", 2020, 2020)]


@pytest.mark.parametrize("behind", [windows, lambda stream, size: windows(looked_up(stream), size)])
@pytest.mark.parametrize(
    ("records", "wanted"),
    [
        # Before, `windows(looked_up(CALM), 5)` gave nothing: each row had the clock of the record that ended its wait.
        (SELDOM, {0: 1, 1000: 1}),
        # The record without a key ends the wait of `a`; `b` is ten minutes behind when it comes, and leaves at once.
        # Before, in commits of their own, the row of `a` came late: L had moved, and the suppressor's time had not.
        (OF_NO_UPDATE, {0: 1, 590: 1, 2020: 1}),
    ],
)
@pytest.mark.parametrize("together", [1, 2, 5])
def test_a_row_of_a_time_limit_is_not_late_because_the_next_record_comes_late(
    behind: Any, records: Sequence[tuple[str | None, int, int]], wanted: dict[int, int], together: int
) -> None:
    stream: list[Row] = [(1 + n // together, *record) for n, record in enumerate(records)]
    end = stream[-1][0] + 1
    closing: list[Row] = [(end, "z", 9000, 9000), (end + 1, "z", 9100, 9100), (end + 2, "z", 9200, 9200)]
    logs = {"t": log("t", [*stream, *closing]), "u": log("u", [(1, "a", 0, 0)])}
    found = counts(behind(CALM, 5), logs)
    assert {start: n for start, n in found.items() if start < 4000} == wanted


def test_a_record_that_comes_before_an_open_session_does_not_join_it_to_the_next() -> None:
    both = T.merge(U).lookup(V.select("key", "value AS other").table(), on="key", complete_first=False)
    sessions = both.select("key", "value").group_by("key").window(hr.session(3 * MINUTE), grace=0)
    node = sessions.aggregate(n=hr.count()).suppress(hr.until_window_closes())
    slow = log("t", [(1, "a", 36, 36), (5, "b", 60, 60), (7, "b", 61, 61)])
    fast = log("u", [(2, "a", 40, 40), (3, "a", 38, 40), (5, "b", 60, 60), (8, "b", 61, 61)])
    # Before, the next increment made one session of both, since minutes 36 and 38 are within the gap. In one go they were two.
    logs = {"t": slow, "u": fast, "v": log("v", [(1, "a", 0, 0)])}
    assert counts(node, logs) == {36: 1, 38: 2}
