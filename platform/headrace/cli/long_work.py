"""How commands show long work: a bar on a terminal, a line for each step elsewhere, nothing for programs.

Both go to stderr: stdout holds what the command has found, and nothing else.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import typer
from rich.console import Console

from headrace.cli.telling import for_programs
from headrace.observe.progress_bar import progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress, TaskID


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


class _Lines(_Silent):
    def begin(self, step: str) -> None:
        """See `LongWork`."""
        typer.echo(step, err=True)


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
