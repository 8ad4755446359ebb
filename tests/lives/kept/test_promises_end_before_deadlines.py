"""A log promised its readers a moment that a deadline of the wall clock had passed, and that no commit had reached."""

from __future__ import annotations

import pytest

from tests.lives.one import live
from tests.lives.story import Cut, Life, Made, Send, Sent, Wait


@pytest.mark.fast
def test_a_row_that_waits_for_the_wall_clock_is_not_passed_over_by_readers_of_two_nodes() -> None:
    """The second node had read beyond the moment at which the batch closed, and never saw it."""
    records = (
        Sent(topic="t", partition=0, key="b", at=3_650_001, value=3),
        Sent(topic="u", partition=1, key="b", at=3_662_500, value=3),
    )
    life = Life(
        nodes=(
            Made(kind="batches", number=14),
            Made(kind="processor of a table", number=55),
            Made(kind="merged batches", number=71),
        ),
        begins=3,
        steps=(
            Send(records),
            Wait(ms=61000),
            Cut(),
            Send(records=(Sent(topic="t", partition=2, key="b", at=3_646_000),)),
            Wait(ms=61001),
            Cut(topics=("t",)),
        ),
    )
    live(life)
