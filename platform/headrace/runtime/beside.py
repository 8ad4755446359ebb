"""Work beside the micro-batches of a session, in a thread: one piece at a time, and in turn with that of others."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.runtime.pace import Turns


class Beside:
    """What one query, or the session itself, does beside micro-batches."""

    def __init__(self, name: str, turns: Turns, given_up: Callable[[], bool]) -> None:
        """Nothing is done yet.

        In: turns     at such work, of all that the session hosts
            given_up  whether what has not had its turn yet is not wanted any more
        """
        self._name, self._turns, self._given_up = name, turns, given_up
        self._thread = threading.Thread()
        self.error: Exception | None = None  # of the last that failed

    @property
    def under_way(self) -> bool:
        """Whether something is being done, or waits for its turn."""
        return self._thread.is_alive()

    def begin(self, work: Callable[[], None]) -> None:
        """Do this, unless something is under way."""
        if not self.under_way:
            self._thread = threading.Thread(target=self._do, args=[work], daemon=True, name=self._name)
            self._thread.start()

    def end(self) -> None:
        """Wait for what is under way."""
        if self.under_way:
            self._thread.join()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            with self._turns.taken(self._given_up) as mine:
                if mine:
                    work()
        except Exception as error:
            self.error = error
