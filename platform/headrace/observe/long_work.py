"""Long work as people follow it: which step is under way, how much of it is done, and how long it takes still."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

LINE_SECONDS = 30.0  # between two lines of one step
FOLDED = "records folded"


class LongWork(Protocol):
    """Work that is under way."""

    def begin(self, step: str) -> None:
        """The next step begins; `step` says in words which."""
        ...

    def reach(self, done: int, total: int | None, what: str = FOLDED) -> None:
        """So many things of the step are done, of so many; `total` None: nobody knows how many."""
        ...


class Lines:
    """A line for each step, and of a long one a line each half minute."""

    def __init__(self, line: Callable[[str], object]) -> None:
        """In: line  takes each."""
        self._line = line
        self._began: tuple[float, int] | None = None  # when a step's things were told first, and how many
        self._line_at = 0.0

    def begin(self, step: str) -> None:
        """See `LongWork`."""
        self._began = None
        self._line(step)

    def reach(self, done: int, total: int | None, what: str = FOLDED) -> None:
        """A line each half minute. See `LongWork`."""
        now = time.monotonic()
        if self._began is None:
            self._began, self._line_at = (now, done), now
        if now - self._line_at < LINE_SECONDS:
            return
        self._line_at = now
        of = "" if total is None else f" of {total:,}"
        self._line(f"{done:,}{of} {what}{self._to_go(now, done, total)}")

    def _to_go(self, now: float, done: int, total: int | None) -> str:
        assert self._began is not None
        began_at, before = self._began
        if total is None or done <= before:
            return ""
        seconds = max(0, total - done) * (now - began_at) / (done - before)
        return f", about {seconds / 60:.0f} min to go" if seconds >= 60 else f", about {seconds:.0f} s to go"
