"""SIGINT, while Spark runs.

Spark puts its own handler in the place of the one that is there. It asks the JVM to cancel all jobs through the connection
on which the program waits for one of them. Both fail then, as if the data were at fault, and the program goes on.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from pyspark import SparkContext

AGAIN_SECONDS = 0.5


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Keep the handler of SIGINT, whose place Spark takes in the body."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def cancel_jobs_on_interrupt(context: SparkContext) -> None:
    """Let SIGINT also cancel all jobs. Its handler raises, and PySpark waits for a job while it unwinds."""
    if threading.current_thread() is threading.main_thread():
        before = signal.getsignal(signal.SIGINT)
        if callable(before) and not isinstance(before, _Cancel):
            signal.signal(signal.SIGINT, _Cancel(context, before))


def is_interrupted() -> bool:
    """Whether that has happened. A run of Dagster goes on with steps that do not depend on the one that ended."""
    return _Cancel.interrupted


class _Cancel:
    interrupted = False

    def __init__(self, context: SparkContext, before: Callable[[int, FrameType | None], Any]) -> None:
        self._context, self._before = context, before

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Cancel from a thread, which has a connection of its own to the JVM. It ends with the process."""
        _Cancel.interrupted = True
        threading.Thread(target=self._cancel, name="cancel jobs", daemon=True).start()
        self._before(signum, frame)

    def _cancel(self) -> None:
        with suppress(Exception):  # the JVM ends, too
            while True:  # a job may have been asked for that has not begun
                self._context.cancelAllJobs()
                time.sleep(AGAIN_SECONDS)
