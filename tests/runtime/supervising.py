"""A loop in the shape that tests of supervision need: no Spark, and work that a test hands in."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from headrace.streams.loops import supervised_loop
from headrace.streams.loops.supervised_loop import SupervisedLoop
from tests import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest

    from headrace.streams.loops.supervised import Supervised

LONG = 60.0  # nothing here takes so long
until = partial(waiting.until, every_s=0.002, patience_s=LONG)


def kept_running(stream: Supervised, done: Callable[[], object]) -> None:
    """Poll as a run does, until something is true."""

    def look() -> bool:
        stream.keep_running()
        return bool(done())

    waiting.until(look, told=lambda: stream.error)


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


class Timeline:
    """In place of a loop's clock and condition: time passes only while the loop waits, or while a test says so.

    now  seconds since the loop began
    """

    def __init__(self, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self._loop = 0.0, loop
        self._wakes, self._end = deque[float](), 0.0
        monkeypatch.setattr(supervised_loop, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(loop, "_changed", self)

    def live(self, seconds: float, wakes: Iterable[float] = ()) -> None:
        """Let the loop live so long. In: wakes  when it is told that there is something new"""
        self._end, self._wakes = seconds, deque(wakes)
        self._loop.keep_running()
        until(lambda: not self._loop.running)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def notify_all(self) -> None: ...

    def wait(self, seconds: float) -> None:
        """As the loop waits: until it is woken, or for so long."""
        at = self.now + seconds
        if self._wakes and self._wakes[0] <= at:
            self.now = max(self.now, self._wakes.popleft())
            self._loop.check_now()
        elif at > self._end:
            self._loop._closing.set()
        else:
            self.now = at
