"""A request to stop, as a flag that a loop looks at.

Dagster's handler of SIGINT raises wherever the program is; a stream run must not be torn out of a commit, so it holds its
own handler from before Spark starts until it has drained.
"""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SLICE_SECONDS = 0.2


class StopRequest:
    """Set by SIGINT, by SIGTERM or by `ask`; a plain attribute, because a handler must take no lock."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {signum: signal.getsignal(signum) for signum in SIGNALS}
            for signum in SIGNALS:
                signal.signal(signum, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def ask(self, reason: str) -> None:
        """Ask for a stop; the first reason stays."""
        self.reason = self.reason or reason

    def wait(self, seconds: float) -> None:
        """Sleep, but no longer than until a stop is asked for."""
        until = time.monotonic() + seconds
        while self.reason is None and (left := until - time.monotonic()) > 0:
            time.sleep(min(SLICE_SECONDS, left))

    def _handle(self, signum: int, _: FrameType | None) -> None:
        self.ask(f"interrupted ({signal.Signals(signum).name})")
