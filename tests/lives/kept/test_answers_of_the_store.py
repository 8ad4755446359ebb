"""A store that loses answers: what stands in the lake counts, and not what its writer has learned."""

from __future__ import annotations

import pytest

from tests.lives.one import live
from tests.lives.story import Cut, Life, Made, Send, Sent, StoreFault


@pytest.mark.fast
def test_a_node_reads_its_state_as_of_the_commit_whose_answer_was_lost() -> None:
    """It had read the state before that commit, so a record that waited for its partner was gone."""
    life = Life(
        nodes=(Made(kind="join of streams", number=4),),
        begins=1,
        steps=(
            StoreFault(kind="lost", times=9),
            Send(records=(Sent(topic="t", partition=0, key="a", at=10_834_000, value=1),)),
            Cut(topics=("t",), commits=2, settles=False),
            Cut(topics=("u",), commits=2),
            Send(
                records=(
                    Sent(topic="u", partition=1, key="b", at=10_860_000, value=-1),
                    Sent(topic="t", partition=0, key="b", at=10_853_000),
                )
            ),
        ),
    )
    live(life)
