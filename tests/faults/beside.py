"""Backfills, maintenance and rebuilds beside a stream, each killed at any moment."""

from __future__ import annotations

import signal
import time
from random import Random

from tests.faults.lives import Life
from tests.faults.stream import Order
from tests.faults.verdict import Verdict


def beside(life: Life, random: Random, times: int) -> Verdict:
    """While a process backfills and maintains, the stream is killed; then the process beside it is."""
    for number in range(times):
        life.traffic()
        other = life.next()
        other.go(Order(beside=True))
        if number == 0:  # there is nothing to backfill yet
            life.killed(Order(step="after state", time=6))
        else:
            life.killed(Order(after_s=random.uniform(4, 12)))
            other.reaches("round 1")
            assert "equal" in other.said(), other.said()[-4000:]
        assert other.process.poll() is None, other.said()[-4000:]
        assert other.end() == -signal.SIGKILL
        assert "DIFFERENT" not in other.said(), other.said()[-4000:]
        life.say(
            f"{life.times:4} beside: {other.said().count('backfilled')} backfills, {other.said().count('maintained')} tables"
        )
    life.traffic()
    return life.drained()


def rebuilt(life: Life, random: Random, times: int) -> Verdict:
    """Change the description, and kill the rebuild that follows; then let the next one do it, and work on for a while."""
    revised = False
    for _ in range(times):
        life.traffic()
        step = random.choice(["before swap", "after results", "before outputs", "after state"])
        life.killed(Order(step=step, time=random.choice([1, 2]), revised=revised))
        process = life.next()
        process.go(Order(revised=revised))
        began = time.monotonic()
        assert process.reaches("caught up"), process.said()[-4000:]
        life.recoveries.append(time.monotonic() - began)
        process.end()
        revised = not revised
    life.traffic()
    return life.drained(Order(drain=True, revised=revised))
