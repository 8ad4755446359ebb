"""Delta's checkpoints of a session's tables, written beside the commits to them.

A commit that also writes a checkpoint takes several times as long. Here a thread looks every few seconds which tables have
had enough commits since their last checkpoint.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog

from headrace import lake as lakes
from headrace.runtime.background import BackgroundTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.runtime.scheduling import Turns

logger = structlog.get_logger(__name__)
LOOK_SECONDS = 5.0  # between two looks at the tables


class Checkpoints:
    """Writes those that are due, one at a time."""

    def __init__(self, paths: Callable[[], Iterable[str]], turns: Turns) -> None:
        """Nothing is looked at yet.

        In: paths  of the tables
            turns  at upkeep, of all that the session hosts
        """
        self._paths = paths
        self._look_at, self._ending = 0.0, threading.Event()
        self._task = BackgroundTask("checkpoints", turns, self._ending.is_set)

    def keep(self) -> None:
        """Look, if it is time to, and write what is due in a thread; called with each poll."""
        if time.monotonic() >= self._look_at and not self._task.under_way:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self._ending.clear()
            self._task.begin(self._write)

    def end(self) -> None:
        """Wait for the one that is being written, and write no more."""
        self._ending.set()
        self._task.end()

    def _write(self) -> None:
        """Those that are due."""
        for path in self._paths():
            if self._ending.is_set():
                return
            try:
                table = lakes.open_table(path)
                if table.exists and table.wants_checkpoint:
                    table.checkpoint()
            except Exception as error:
                logger.warning("no checkpoint, will be tried again", path=path, error=str(error))
