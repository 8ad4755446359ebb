"""How commands show long work: a bar on a terminal, a line for each step elsewhere, nothing for programs.

Both go to stderr: stdout holds what the command has found, and nothing else.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from headrace.cli.console.telling import for_programs
from headrace.observe.long_work import FOLDED, Lines
from headrace.observe.progress_bar import progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress, TaskID

    from headrace.observe.long_work import LongWork


class _Silent:
    def begin(self, step: str) -> None:
        """See `LongWork`."""

    def reach(self, done: int, total: int | None, what: str = FOLDED) -> None:
        """See `LongWork`."""


class _Bar:
    """A bar: of steps where their number is known; of a step's things as soon as it tells them."""

    def __init__(self, bar: Progress, task: TaskID, steps: int | None) -> None:
        self._bar, self._task, self._steps, self._begun = bar, task, steps, 0

    def begin(self, step: str) -> None:
        """See `LongWork`."""
        self._bar.update(self._task, description=step, completed=self._begun, total=self._steps)
        self._begun += 1

    def reach(self, done: int, total: int | None, what: str = FOLDED) -> None:
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
        yield Lines(partial(typer.echo, err=True))
        return
    with progress_bar(shown) as bar:
        yield _Bar(bar, bar.add_task(what, total=steps), steps)
