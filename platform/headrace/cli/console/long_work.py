"""How commands show long work: a bar on a terminal, a line for each step elsewhere, nothing for programs.

Both go to stderr: stdout holds what the command has found, and nothing else.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import typer
from rich.console import Console

from headrace.cli.console.telling import for_programs
from headrace.observe.progress_bar import progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress, TaskID


LINE_SECONDS = 30.0  # between two lines of one step, where there is no terminal


class LongWork(Protocol):
    """Work that is under way."""

    def begin(self, step: str) -> None:
        """The next step begins; `step` says in words which."""
        ...

    def reach(self, done: int, total: int | None, what: str) -> None:
        """So many things of the step are done, of so many; `total` None: nobody knows how many."""
        ...


class _Silent:
    def begin(self, step: str) -> None:
        """See `LongWork`."""

    def reach(self, done: int, total: int | None, what: str) -> None:
        """See `LongWork`."""


class _Lines:
    def __init__(self) -> None:
        self._began: tuple[float, int] | None = None  # when a step's things were told first, and how many
        self._line_at = 0.0

    def begin(self, step: str) -> None:
        """See `LongWork`."""
        self._began = None
        typer.echo(step, err=True)

    def reach(self, done: int, total: int | None, what: str) -> None:
        """A line each half minute. See `LongWork`."""
        now = time.monotonic()
        if self._began is None:
            self._began, self._line_at = (now, done), now
        if now - self._line_at < LINE_SECONDS:
            return
        self._line_at = now
        of = "" if total is None else f" of {total:,}"
        typer.echo(f"{done:,}{of} {what}{self._to_go(now, done, total)}", err=True)

    def _to_go(self, now: float, done: int, total: int | None) -> str:
        assert self._began is not None
        began_at, before = self._began
        if total is None or done <= before:
            return ""
        seconds = max(0, total - done) * (now - began_at) / (done - before)
        return f", about {seconds / 60:.0f} min to go" if seconds >= 60 else f", about {seconds:.0f} s to go"


class _Bar:
    """A bar: of steps where their number is known; of a step's things as soon as it tells them."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar, self._task, self._begun = bar, task, 0

    def begin(self, step: str) -> None:
        """See `LongWork`."""
        self._bar.update(self._task, description=step, completed=self._begun)
        self._begun += 1

    def reach(self, done: int, total: int | None, what: str) -> None:
        """See `LongWork`."""
        of = "" if total is None else f" of {total:,}"
        self._bar.update(self._task, description=f"{done:,}{of} {what}", completed=done, total=total)


@contextmanager
def long_work(what: str, steps: int | None = None) -> Iterator[LongWork]:
    """Show work while it goes on.

    In: what   in words, until a step tells what it does
        steps  how many times `begin` is called; None: not known
    """
    if for_programs():
        yield _Silent()
        return
    shown = Console(stderr=True)
    if not (shown.is_terminal and sys.stdout.isatty()):
        yield _Lines()
        return
    with progress_bar(shown) as bar:
        yield _Bar(bar, bar.add_task(what, total=steps))
