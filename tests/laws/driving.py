"""Live through a random world in a test driver, on both cores."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hypothesis import settings

from headrace.testing import TestDriver
from tests.laws.worlds import World, sent
from tests.oracle.log_oracle import Commit

EXAMPLES = os.environ.get("HEADRACE_EXAMPLES")
# A world takes a second without Spark. The kernel's laws try hundreds of logs of the same operators.
WORLDS = settings(max_examples=int(EXAMPLES or 3))

A = TypeVar("A")
B = TypeVar("B")


def in_parallel(function: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """Planning keeps one core busy; two threads keep two."""
    with ThreadPoolExecutor(max_workers=3) as pool:
        return list(pool.map(function, items))


class SideBySide(TestDriver):
    """A driver whose nodes run side by side, as the queries of a stream run do."""

    __test__ = False

    def _run(self, names: Collection[str]) -> None:
        in_parallel(lambda name: super(SideBySide, self)._run([name]), names)


def live_through(world: World, driver: TestDriver) -> dict[str, list[Commit]]:
    """Pipe, wait, crash and cut as the world says, all nodes at its end; the commits of each topic."""
    commits = defaultdict(list)
    for node, mark in world.crashes.items():
        driver.crash(mark, node)
    for number, step in enumerate(world.steps, start=1):
        driver.advance_wall_clock(step.wait)
        for topic, arrivals in step.arrivals.items():
            commits[topic].append(Commit(driver.now_ms, arrivals))
            for position, arrival in enumerate(arrivals):
                driver.pipe(
                    topic,
                    key=arrival.key,
                    value=sent(arrival, position),
                    timestamp_ms=arrival.ts,
                    partition=arrival.partition,
                )
        driver.cut(None if number == len(world.steps) else sorted(step.runs))
    return commits
