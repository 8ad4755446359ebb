"""A supervised loop: a thread that works when it is told to, and looks by itself whether work is due.

Law: after `check_now` returns, a call of `work` begins that has not begun before, unless the loop ends first.
"""

from __future__ import annotations

import math
import threading
import time
from abc import abstractmethod
from typing import TYPE_CHECKING

from headrace.nodes.descriptions.asset_names import asset_name
from headrace.streams.loops.supervised import Supervised

if TYPE_CHECKING:
    from headrace.streams.jvm_process import JvmEndedError
    from headrace.writing.leases.handover import WaitsError


PACE = 0.8  # below 1, so that a loop makes up for a call that came just before its log's commit


class SupervisedLoop(Supervised):
    """Calls `work` after each `check_now`, and when a look finds that work is due.

    On average, calls begin at least `PACE` times `trigger_ms` apart; one call may come up to `trigger_ms` early. So a node
    falls into step with a log that commits once in `trigger_ms`, and folds each commit at once. Looks are `trigger_ms`
    apart. An error ends the loop; `keep_running` opens it again.
    """

    def __init__(self) -> None:
        """Closed at first."""
        super().__init__()
        self._changed = threading.Condition()
        self._woken = False
        # By the monotonic clock: when the last call and the last look began, and when the next call is due at an even pace.
        self._worked_at = self._looked_at = self._due_at = -math.inf
        self._thread = threading.Thread()

    @abstractmethod
    def open(self) -> None:
        """Take the lease, and recover."""

    @abstractmethod
    def due(self) -> bool:
        """Whether there is work although nobody called `check_now`. Called often: it must be cheap."""

    @abstractmethod
    def work(self) -> int:
        """Handle all that is there, or as much as is sensible in one go; returns the rows handled."""

    def rest(self) -> None:
        """Called after each look, while nothing is under way."""

    def hurry(self) -> None:
        """Let the next call of `work` begin as soon as the one under way has ended, whatever `trigger_ms` is."""
        with self._changed:
            self._woken, self._due_at = True, -math.inf

    @property
    def running(self) -> bool:
        """Whether the thread lives."""
        return self._thread.is_alive()

    def begin(self) -> None:
        """Open it, and start the thread; it works once at the beginning, for earlier events woke nobody."""
        self.open()
        self._woken = True
        self._worked_at = self._looked_at = self._due_at = -math.inf
        self._thread = threading.Thread(target=self._run, daemon=True, name=asset_name(self.kind, self.name))
        self._thread.start()

    def check_now(self) -> None:
        """Tell it that there is something new. It works at once, or later if it has worked early just before."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Wait until the thread has ended; it ends once `halt` or `give_up` has told it to."""
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def let_go_soon(self, error: WaitsError) -> None:
        """End what `begin` started after the work under way, without waiting for it; `keep_running` then opens it again."""
        self._end_with(error)
        with self._changed:
            self._changed.notify_all()

    def end_with_jvm(self, error: JvmEndedError) -> None:
        """Wake the thread, too, so that it ends."""
        super().end_with_jvm(error)
        with self._changed:
            self._changed.notify_all()

    def set_trigger(self, trigger_ms: int) -> None:
        """Change the time between two micro-batches, at once; the loop goes on."""
        with self._changed:
            self.trigger_ms, self._due_at = trigger_ms, self._worked_at + trigger_ms / 1000
            self._changed.notify_all()

    def _run(self) -> None:
        while (woken := self._wait()) is not None:
            with self._busy:
                if self._ends:
                    return
                try:
                    if woken or self.due():
                        self._worked_at = time.monotonic()
                        self._due_at = max(self._worked_at, self._due_at) + PACE * self.trigger_ms / 1000
                        self._handle(self.work)
                except BaseException as error:
                    self._end_with(error)
                    return
            self.rest()

    def _wait(self) -> bool | None:
        """Until it is time to work (True) or to look (False); None: the loop ends."""
        with self._changed:
            while not self._ends:
                now, interval = time.monotonic(), self.trigger_ms / 1000
                look_at = max(self._worked_at, self._looked_at) + interval
                wait_seconds = (self._due_at - interval if self._woken else look_at) - now
                if wait_seconds <= 0:
                    woken, self._woken, self._looked_at = self._woken, False, now
                    return woken
                self._changed.wait(wait_seconds)
            return None
