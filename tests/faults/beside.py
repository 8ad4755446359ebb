"""Backfills, maintenance and rebuilds beside a stream, each killed at any moment."""

from __future__ import annotations

import signal
import time
from random import Random

from tests.faults.lives import REST, Life
from tests.faults.stream import DIFFERENT, EQUAL, Order
from tests.faults.verdict import Verdict


def beside(life: Life, random: Random, times: int) -> Verdict:
    """While a process backfills and maintains, the stream is killed; then the process beside it is.

    A time counts when a backfill was beside the stream that found what the stream had written.
    """
    life.traffic()
    _built(life, revised=False)  # before it there is nothing to backfill
    done = 0
    for _ in range(times):
        life.traffic()
        other = life.next()
        other.go(Order(beside=True))
        life.killed(Order(after_s=random.uniform(4, 12)))
        assert other.reaches("round 1"), other.said()[-4000:]
        assert other.end() == -signal.SIGKILL
        done += equal_backfills(other.said()) > 0
        life.say(
            f"{done:4} beside: {equal_backfills(other.said())} backfills, {other.said().count('maintained')} tables"
        )
    life.times = done
    life.traffic()
    return life.drained()


def equal_backfills(said: str) -> int:
    """How many backfills found the stream's rows; raises AssertionError if one found others."""
    assert DIFFERENT not in said, said[said.index(DIFFERENT) :][:4000]
    return said.count(EQUAL)


def rebuilt(life: Life, random: Random, times: int) -> Verdict:
    """Change the description, and kill the rebuild that follows; then let the next one do it, and work on for a while.

    A rebuild that ended before its step came is tried once more, with another change.
    """
    revised = False
    life.traffic()
    _built(life, revised=revised)
    for _ in range(times):
        step = random.choice(["before swap", "after results", "before outputs", "after state"])
        for time_of_step in (random.choice([1, 2]), 1):
            revised = not revised
            life.traffic()
            where = life.killed(Order(step=step, time=time_of_step, revised=revised))
            _built(life, revised=revised)
            if where != REST:
                break
    life.traffic()
    return life.drained(Order(drain=True, revised=revised))


def _built(life: Life, *, revised: bool) -> None:
    """Run a process of this description until it has caught up."""
    process = life.next()
    process.go(Order(revised=revised))
    began = time.monotonic()
    assert process.reaches("caught up"), process.said()[-4000:]
    life.recoveries.append(time.monotonic() - began)
    process.end()
