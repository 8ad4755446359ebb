"""SIGINT, while Spark runs.

Spark puts its own handler in the place of the one that is there. It asks the JVM to cancel all jobs through the connection
on which the program waits for one of them. Both fail then, as if the data were at fault, and the program goes on.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from pyspark import SparkContext

CANCEL_SECONDS_MAX = 5.0


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
    """Let SIGINT cancel all jobs before its handler acts, which raises: PySpark waits for a job also while it unwinds."""
    if threading.current_thread() is threading.main_thread():
        before = signal.getsignal(signal.SIGINT)
        if callable(before) and not isinstance(before, _Cancel):
            signal.signal(signal.SIGINT, _Cancel(context, before))


def is_interrupted() -> bool:
    """Whether jobs were cancelled so. A run of Dagster goes on with steps that do not depend on the one that ended."""
    return _Cancel.interrupted


class _Cancel:
    interrupted = False

    def __init__(self, context: SparkContext, before: Callable[[int, FrameType | None], Any]) -> None:
        self._context, self._before = context, before

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Cancel from a thread, which has a connection of its own to the JVM."""
        _Cancel.interrupted = True
        cancel = threading.Thread(target=self._context.cancelAllJobs, name="cancel jobs", daemon=True)
        cancel.start()
        cancel.join(CANCEL_SECONDS_MAX)
        self._before(signum, frame)
