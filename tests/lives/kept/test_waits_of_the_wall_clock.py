"""Nodes that wait for the wall clock, before one that reads a topic beside them, which may go on while they wait."""

from __future__ import annotations

import pytest

from tests.lives.one import live
from tests.lives.story import Cut, Life, Made, Overtaken, Send, Sent, Wait


def sent(at: int, *topics: str) -> Send:
    """A record of some topics."""
    return Send(tuple(Sent(topic, 0, "a", at, 1) for topic in topics))


@pytest.mark.fast
def test_a_node_of_the_wall_clock_promises_no_time_at_which_it_may_still_have_rows() -> None:
    """The second node waits for the end of a window that its log alone knows; the third one read on beyond that."""
    nodes = ("batches", "windows of the wall clock", "merged batches")
    life = Life(
        nodes=tuple(Made(kind, number=int(kind == "batches"), follows=True) for kind in nodes),
        begins=3,
        steps=(
            sent(0, "t", "u"),
            Cut(),
            Wait(2_000),
            sent(1_000, "t"),
            Cut(),
            Wait(2_000),
            Cut(),
            Wait(6_000),
            sent(5_000, "u"),
            Cut(),
            sent(9_000, "t", "u"),
            Cut(),
        ),
    )
    live(life)


@pytest.mark.fast
def test_a_log_promises_no_deadline_to_come_because_another_log_is_ahead_of_the_clock() -> None:
    """Three commits within a millisecond had taken the other log beyond the deadline of a batch."""
    life = Life(
        nodes=(Made("batches", number=1, follows=True), Made("merged batches", follows=True)),
        begins=2,
        steps=(
            sent(0, "t"),
            Cut(),
            Wait(1_999),
            sent(1_000, "u", "u", "u"),
            Cut(commits=3),
            sent(9_000, "t", "u"),
            Cut(),
        ),
    )
    live(life)


@pytest.mark.fast
def test_a_process_that_was_overtaken_gives_sinks_nothing_made_of_the_other_ones_state() -> None:
    """It had folded a record once more, on a state that held it, and given the row to the sink before the fence stopped it."""
    life = Life(
        nodes=(Made("totals", sink="rows", follows=True),),
        begins=1,
        steps=(
            sent(1_000, "t"),
            Cut(),
            Overtaken("after state", meanwhile=(Sent("t", 0, "a", 2_000, 1),), ms=130_000),
            sent(1_500, "t"),
            Cut(),
        ),
    )
    live(life)


@pytest.mark.fast
def test_sessions_without_grace_judge_a_row_of_a_node_by_its_own_stream_time() -> None:
    """A session that ends just the gap before it is over, and no other row of the node says so."""
    life = Life(
        nodes=(Made("lookup", follows=True), Made("sessions", follows=True)),
        begins=2,
        steps=(sent(1_000, "t"), Cut(), sent(3_000, "t"), Cut(), sent(9_000, "t"), Cut()),
    )
    live(life)
