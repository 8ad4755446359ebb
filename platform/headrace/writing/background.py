"""Work in the background of micro-batches: one piece at a time, in turn with the background work of others."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.writing.scheduling import Turns


class BackgroundTask:
    """A thread for the upkeep of one node or of the whole session."""

    def __init__(self, name: str, turns: Turns, cancelled: Callable[[], bool]) -> None:
        """Nothing is done yet.

        In: turns     at background work, shared by all that the session hosts
            cancelled  True once work that still waits for its turn is no longer wanted
        """
        self._name, self._turns, self._cancelled = name, turns, cancelled
        self._thread = threading.Thread()
        self.error: Exception | None = None  # of the last piece of work that failed

    @property
    def under_way(self) -> bool:
        """Whether work is being done, or waits for its turn."""
        return self._thread.is_alive()

    def begin(self, work: Callable[[], None]) -> None:
        """Do this work, unless other work is under way."""
        if not self.under_way:
            self._thread = threading.Thread(target=self._do, args=[work], daemon=True, name=self._name)
            self._thread.start()

    def end(self) -> None:
        """Wait for the work under way."""
        if self.under_way:
            self._thread.join()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            with self._turns.taken(self._cancelled) as mine:
                if mine:
                    work()
        except Exception as error:
            self.error = error
