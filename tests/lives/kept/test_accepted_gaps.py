"""A log goes on after lost records that a person accepts, and never back."""

from __future__ import annotations

import pytest

from tests.lives.one import live
from tests.lives.story import Life, Lose, Made, Overtaken, Send, Sent


@pytest.mark.fast
def test_a_gap_that_another_process_has_read_beyond_moves_the_log_no_more() -> None:
    """It moved it back, and the record after the gap stood in the log twice."""
    life = Life(
        nodes=(Made(kind="merged batches", number=994),),
        begins=1,
        steps=(
            Send(
                records=(
                    Sent(topic="t", partition=1, key=None, at=280798500, value=1),
                    Sent(topic="t", partition=1, key=None, at=280801000, value=-1),
                )
            ),
            Overtaken(at="before log commit"),
            Lose(topic="t", partition=1),
        ),
    )
    live(life)
