"""What befalls the processes of a life and the store of its lake. It needs no wall clock and no thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.engine.folding import spark_fold
from headrace.errors import TransientError
from headrace.lake import FencedError, notices, table, tables
from headrace.lake.commits import snapshot, writer
from headrace.lake.files import local_files
from headrace.testing.driver import SimulatedCrashError
from tests.lives.story import Crash, Overtaken, StoreFault

if TYPE_CHECKING:
    from headrace.engine.slices.log_slices import LogSlice

DIED = (SimulatedCrashError, FencedError, TransientError, OSError)
RESTARTS_MAX = 60


class StoreDownError(OSError):
    """The store of the lake has refused a request, or its answer is lost."""


def until_done(work: Callable[[], None], restart: Callable[[], None]) -> None:
    """Do the work of a process. If it dies, another one starts, and does the rest.

    Raises: AssertionError when it dies again and again
    """
    error: Exception | None = None
    for _ in range(RESTARTS_MAX):
        try:
            if error is not None and not isinstance(error, FencedError):
                restart()
            error = None
            work()
            return
        except DIED as died:
            error = died
    raise AssertionError(f"a process dies again and again: {error!r}") from error


class AnotherProcess:
    """Lets two processes see the lake: neither sees what the other has remembered of the tables."""

    def __init__(self) -> None:
        self._remembered: dict[str, Any] | None = None

    @contextmanager
    def runs(self) -> Iterator[None]:
        """Another process runs meanwhile; the first one goes on with its memory."""
        first = dict(tables._OPEN)
        tables._OPEN.clear()
        try:
            yield
        finally:
            self._remembered = dict(tables._OPEN)
            tables._OPEN.clear()
            tables._OPEN.update(first)

    def takes_over(self) -> None:
        """The first process has ended: what is remembered now is what the other one has."""
        if self._remembered is not None:
            tables._OPEN.clear()
            tables._OPEN.update(self._remembered)
            self._remembered = None


@contextmanager
def steady_clock(seconds: Callable[[], float]) -> Iterator[None]:
    """What a process remembers of the lake grows old by this clock, and not by the machine's."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (snapshot, table, writer):
            patch.setattr(module, "boot_seconds", seconds)
        for module in (snapshot, notices):
            patch.setattr(module, "time", SimpleNamespace(monotonic=seconds))
        yield


@dataclass
class Armed:
    """Something that waits for its moment. In: left  so many that are passed over before, and times: how often it comes"""

    what: Crash | Overtaken | StoreFault
    left: int
    times: int = 1


@dataclass
class Troubles:
    """The crashes, pauses and faults that have not come yet."""

    steps: list[Armed] = field(default_factory=list)
    writes: list[Armed] = field(default_factory=list)
    met: int = 0

    def at_step(self, step: str) -> Crash | Overtaken | None:
        """What happens at a numbered step of a process."""
        for armed in self.steps:
            if isinstance(armed.what, StoreFault) or armed.what.at != step:
                continue
            if armed.left:
                armed.left -= 1
                continue
            self.steps.remove(armed)
            self.met += 1
            return armed.what
        return None

    def at_write(self) -> str:
        """What happens to a write: "refused", "lost", or nothing."""
        for armed in self.writes:
            if armed.left:
                armed.left -= 1
                continue
            armed.times -= 1
            if not armed.times:
                self.writes.remove(armed)
            self.met += 1
            assert isinstance(armed.what, StoreFault)
            return armed.what.kind
        return ""

    @contextmanager
    def of_the_store(self) -> Iterator[None]:
        """Writes of small files, commits among them, go wrong as it was said."""
        write = local_files.write

        def failing(*arguments: Any, **options: Any) -> bool:
            fault = self.at_write()
            if fault == "refused":
                raise StoreDownError("the store refuses a request")
            written = write(*arguments, **options)
            if fault == "lost":
                raise StoreDownError("the answer of the store is lost")
            return written

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local_files, "write", failing)
            yield


@contextmanager
def here_and_there() -> Iterator[None]:
    """Of 32 increments one goes to one task of Spark, and one over two buckets; the size of its files decides."""

    def draw(slices: Iterable[LogSlice]) -> int:
        return sum(each.bytes for each in slices) % 32

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_fold, "is_for_driver", lambda increment, *_: draw(increment.slices.values()) > 1)
        patch.setattr(spark_fold, "buckets_for", lambda slices, tasks: 1 + draw(slices) % 2)
        yield


@dataclass
class Once:
    """Dies once. In: left  so many steps that are passed before; None: it never does"""

    left: int | None

    def __call__(self, step: str) -> None:
        """Come to a step."""
        if self.left is None:
            return
        if not self.left:
            self.left = None
            raise SimulatedCrashError(step)
        self.left -= 1
