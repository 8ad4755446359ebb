"""Deadlines of wall-clock time: a tick for each that passes, and none besides."""

from __future__ import annotations

import json
import random

import pytest

from headrace.description.clocks import WallWait
from headrace.log.deadlines import Deadlines, waits_now
from headrace.sequence.log_state import LogState
from headrace.sequence.set_limits import SetLimit

pytestmark = pytest.mark.fast


def test_nobody_waits_so_nothing_passes() -> None:
    deadlines = Deadlines(())
    deadlines.committed(1_000)
    assert not deadlines.passed(1_000, 10**9)


def test_a_deadline_passes_once_and_a_commit_at_it_does_as_well_as_a_tick() -> None:
    deadlines = Deadlines([500])
    deadlines.committed(1_000)
    assert not deadlines.passed(1_000, 1_499)
    assert deadlines.passed(1_000, 1_500)
    assert not deadlines.passed(1_500, 10**9), "the log says so already"


def test_the_next_deadline_is_the_first_of_all_waits_that_no_commit_has_reached() -> None:
    deadlines = Deadlines([500, WallWait(300, 100)])
    assert deadlines.next_ms(0) is None
    deadlines.committed(1_050)
    assert [deadlines.next_ms(frontier) for frontier in (1_050, 1_100, 1_299, 1_300, 1_550)] == [
        1_100,
        1_200,
        1_300,
        1_550,
        None,
    ]


def test_windows_end_at_their_own_times_whichever_commit_they_hold() -> None:
    rng = random.Random(11)
    for size, advance in [(100, 100), (100, 30), (60, 7)]:
        deadlines, at, commits = Deadlines([WallWait(size, advance)]), 0, list[int]()
        for _ in range(300):
            at += rng.choice([1, 10, 49, 50, 100, 500])
            deadlines.committed(at)
            commits.append(at)
            frontier = at + rng.choice([0, 0, 3, 40])
            for now in (frontier, frontier + 7, frontier + 30, frontier + 99, frontier + 200):
                ends = {
                    start + size
                    for commit in commits[-200:]
                    for start in range(commit // advance * advance, commit - size, -advance)
                }
                assert deadlines.passed(frontier, now) == any(frontier < end <= now for end in ends)
            at = frontier


def test_a_limit_that_was_set_counts_beside_the_described_one() -> None:
    waits: list[WallWait | int] = [WallWait(500, node="calm"), WallWait(70), 30]
    assert waits_now(waits, {"other": (SetLimit(5),)}) == waits
    set_since = (SetLimit(900, 9_000), SetLimit(20))
    assert waits_now(waits, {"calm": set_since}) == [*waits, WallWait(900), WallWait(20)]


def test_a_limit_stays_until_the_last_wait_under_it_is_over_and_the_longest_for_good() -> None:
    """A log kept the last one alone, and did not tick for waits that began under the others."""
    state = LogState()
    for limit_ms, at_ms in ((50, 1_000), (900, 1_010), (20, 1_020), (30, 1_030), (20, 1_061)):
        state = state.with_limits("calm", {"limit_ms": limit_ms}, at_ms)
    assert state.limits_ms == {"calm": ((900, 1_920), (30, 1_091), (20, None))}, (
        "that of 50 ms is over at 1060"
    )
    assert state.longest_limits_ms == 900
    state = state.with_limits("calm", {"limit_ms": 40}, 5_000)
    assert state.limits_ms == {"calm": ((900, 1_920), (20, 5_020), (40, None))}
    document = json.loads(json.dumps(state.to_json()))
    assert LogState.from_json(document) == state
    assert LogState.from_json({**document, "limits_ms": {"calm": 9}}).limits_ms == {"calm": ((9, None),)}


def test_a_log_opened_again_knows_its_waiting_commits() -> None:
    deadlines = Deadlines([500, 100], [900, 1_000])
    assert not deadlines.passed(1_050, 1_099)
    assert deadlines.passed(1_050, 1_100), "1000 + 100"
    assert deadlines.passed(1_100, 1_400), "900 + 500"
    assert deadlines.passed(1_400, 1_500), "1000 + 500"


def test_deadlines_are_those_of_the_definition_and_what_is_over_is_forgotten() -> None:
    rng = random.Random(7)
    waits, commits = [50, 200], []
    deadlines, at = Deadlines(waits), 0
    for _ in range(2_000):
        at += rng.choice([1, 10, 49, 50, 51, 200, 500])
        deadlines.committed(at)
        commits.append(at)
        for now in (at, at + 49, at + 50, at + 123, at + 200, at + 999):
            wanted = any(at < commit + wait <= now for commit in commits[-300:] for wait in waits)
            assert deadlines.passed(at, now) == wanted
    assert len(deadlines._behind[0]._commits_ms) < 1_000


def test_who_reads_a_node_waits_after_the_commit_that_ends_the_nodes_wait() -> None:
    deadlines = Deadlines([WallWait(500), WallWait(300, after=1), WallWait(100, after=2)])
    deadlines.committed(1_000)
    ends, frontier = list[int](), 1_000
    while (due := deadlines.next_ms(frontier)) is not None:
        frontier = due + 7  # the tick comes a little later
        deadlines.committed(frontier, has_records=False, time_alone=True)
        ends.append(due)
    # 1,000 + 100, + 300 and + 500, and after the ticks for these two what waits behind the node whose wait they end.
    assert ends == [1_100, 1_300, 1_407, 1_500, 1_607, 1_807, 1_914]
    assert deadlines.longest_ms == 500 + 300 + 100


def test_a_commit_without_records_may_end_the_wait_of_a_node_that_others_read() -> None:
    deadlines = Deadlines([WallWait(300, after=1)])
    deadlines.committed(1_000, has_records=False)
    assert deadlines.next_ms(1_000) == 1_300, "a tick of stream time may have given the node's readers a row"
    deadlines.committed(1_300, has_records=False)
    assert deadlines.next_ms(1_300) == 1_600, "so may one that passes a deadline of theirs"
    deadlines.committed(1_600, has_records=False, time_alone=True)
    assert deadlines.next_ms(1_600) is None, "their own tick gives nothing more"
    alone = Deadlines([WallWait(300)])
    alone.committed(1_000, has_records=False)
    assert alone.next_ms(1_000) is None


def test_a_log_opened_again_knows_which_ticks_others_wait_after() -> None:
    waits = [WallWait(500), WallWait(300, after=1)]
    going_on = Deadlines(waits)
    going_on.committed(1_000)
    going_on.committed(1_500, has_records=False, time_alone=True)
    again = Deadlines(waits, [1_000], times_ms=[1_500])
    assert again.next_ms(1_500) == going_on.next_ms(1_500) == 1_800


def test_a_log_opened_again_forgets_no_deadline() -> None:
    waits = [WallWait(500), WallWait(300, after=1), WallWait(200, 100, after=2), WallWait(40, after=4)]
    for seed in range(200):
        rng, going_on, commits = random.Random(seed), Deadlines(waits), list[tuple[int, bool, bool]]()
        end_ms = 10_000
        for _ in range(30):
            end_ms += rng.choice([1, 40, 100, 290, 300, 500, 2_000])
            has_records = rng.random() < 0.2
            commits.append((end_ms, has_records, not has_records and rng.random() < 0.7))
            going_on.committed(*commits[-1])
        known = [each for each in commits if each[0] > end_ms - going_on.known_ms]
        of_records, of_time = [ms for ms, yes, _ in known if yes], [ms for ms, _, yes in known if yes]
        others = [ms for ms, has_records, alone in known if not (has_records or alone)]
        again = Deadlines(waits, of_records, others, of_time)
        for frontier in range(end_ms, end_ms + going_on.longest_ms, 5):
            assert (again.next_ms(frontier) or 0) <= (going_on.next_ms(frontier) or 10**9)
            assert again.next_ms(frontier) or not going_on.next_ms(frontier)


def test_after_a_long_pause_a_tick_counts_for_more_rather_than_for_less() -> None:
    """Two deadlines pass in one tick, and the commit from which the first one was is too old to be known."""
    waits = [WallWait(500), WallWait(300, after=1)]
    going_on = Deadlines(waits)
    for at_ms, has_records, time_alone in [(1_000, True, False), (1_490, False, False), (3_000, False, True)]:
        going_on.committed(at_ms, has_records, time_alone)
    again = Deadlines(waits, others_ms=[1_490], times_ms=[3_000])
    assert going_on.next_ms(3_000) == again.next_ms(3_000) == 3_300
