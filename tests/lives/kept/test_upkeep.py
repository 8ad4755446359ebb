"""Maintenance of a whole lake."""

from __future__ import annotations

import pytest

from tests.lives.one import live
from tests.lives.story import Cut, Life, Made, Send, Sent, Upkeep


@pytest.mark.fast
def test_maintenance_needs_no_jvm() -> None:
    """It had started one for the sake of a lease, which names the JVM of its holder."""
    records = (Sent(topic="t", partition=0, key="a", at=0), Sent(topic="u", partition=0, key="a", at=1))
    life = Life(
        nodes=(Made(kind="table by another key", number=132), Made(kind="batches", number=14)),
        begins=2,
        steps=(Upkeep(), Send(records), Cut(), Upkeep()),
    )
    live(life)
