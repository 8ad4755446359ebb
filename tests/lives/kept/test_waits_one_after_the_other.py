"""Nodes wait for the wall clock one after the other, and another one reads the last of them beside a topic."""

from __future__ import annotations

import pytest

from tests.lives.one import live
from tests.lives.story import Cut, Life, Made, Send, Sent, Wait

CHAIN = (
    Made(kind="batches", number=4784, follows=True),
    Made(kind="windows of the wall clock", number=3959, follows=True),
    Made(kind="merged batches", number=3210, follows=True),
)


@pytest.mark.fast
def test_a_reader_goes_on_while_the_topic_of_a_node_of_the_wall_clock_is_silent() -> None:
    """The node promised no more than it had read."""
    silent = Send(records=(Sent(topic="u", partition=0, key="a", at=187154500, value=5, kind="rolled back"),))
    live(Life(nodes=CHAIN, begins=3, steps=(silent,), dated=True))


@pytest.mark.fast
def test_a_wait_after_a_wait_ends_though_nothing_comes() -> None:
    """The second node waits after the tick that ends the wait of the first one, and nobody ticked for it."""
    record = Sent(topic="t", partition=0, key="a", at=187154500, value=5)
    cut = Cut(topics=("t", "u"), commits=1, nodes=None, settles=True)
    steps = [Send(records=(record,)), cut]
    for _ in range(6):
        steps += [Wait(ms=9_000), cut]
    live(Life(nodes=CHAIN, begins=3, steps=tuple(steps), dated=True))
