"""A loop in the shape that tests of supervision need: no Spark, and work that a test hands in."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from headrace.streams.loops.supervised_loop import SupervisedLoop

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 10.0  # nothing here takes so long


def until(condition: Callable[[], object]) -> None:
    """Wait for something that is bound to come; by the real clock, for a test may set another."""
    for _ in range(round(LONG / 0.002)):
        if condition():
            return
        time.sleep(0.002)
    raise AssertionError("it did not come")


def raise_(error: BaseException) -> Any:
    """Raise it, in a lambda."""
    raise error


def held_up(stream: Loop, then: Callable[[], int]) -> threading.Event:
    """Open a stream and begin a micro-batch; it ends as `then` once the event is set."""
    begun, go_on = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        go_on.wait(LONG)
        return then()

    stream.does = work
    stream.keep_running()
    stream.check_now()
    assert begun.wait(LONG)
    return go_on


class Loop(SupervisedLoop):
    """As logs and nodes are."""

    kind, name, trigger_ms = "stream", "tried", 5

    def __init__(self) -> None:
        super().__init__()
        self.opened = self.closed = self.worked = self.looks = 0
        self.refusals: list[BaseException] = []
        self.does: Callable[[], int] = lambda: 1
        self.looks_find: Callable[[], bool] = lambda: False

    def open(self) -> None:
        self.opened += 1
        if self.refusals:
            raise self.refusals.pop(0)

    def close(self) -> None:
        self.closed += 1

    def due(self) -> bool:
        self.looks += 1
        return self.looks_find()

    def work(self) -> int:
        try:
            return self.does()
        finally:
            self.worked += 1

    def batch(self) -> None:
        """Run a micro-batch to its end."""
        worked = self.worked
        self.check_now()
        until(lambda: self.worked > worked and not self._busy.locked())


def fail_at_work(stream: Loop, error: BaseException) -> None:
    """Run a micro-batch that fails, until what ran has ended."""
    stream.does = lambda: raise_(error)
    stream.check_now()
    until(lambda: not stream.running)
