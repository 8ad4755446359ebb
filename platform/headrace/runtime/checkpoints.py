"""Delta's checkpoints of a session's tables, written beside the commits to them.

Delta itself writes one in a commit, which then takes a second or two instead of a tenth: what the slowest hundredth of all
records waits for. Here a thread looks now and then which table has had enough commits since its last.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog

from headrace.runtime.background import BackgroundTask
from headrace.spark import tables, upkeep
from headrace.spark.session import pipeline_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

    from headrace.runtime.scheduling import Turns

logger = structlog.get_logger(__name__)
EVERY = 400  # commits
LOOK_SECONDS = 10.0  # between two looks at the tables, of which one at most has its checkpoint written
# A few hundred rows of many columns: half the CPU of two tasks for which Java is generated.
IN_ONE_TASK = {"spark.databricks.delta.snapshotPartitions": "1", "spark.sql.shuffle.partitions": "1"}


class Checkpoints:
    """Writes those that are due, one at a time."""

    def __init__(self, spark: SparkSession, paths: Callable[[], Iterable[str]], turns: Turns) -> None:
        """Nothing is looked at yet.

        In: paths  of the tables
            turns  at upkeep, of all that the session hosts
        """
        self._spark, self._paths = pipeline_session(spark, interpreted=True), paths
        for key, value in IN_ONE_TASK.items():
            self._spark.conf.set(key, value)
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
        """One that is due."""
        for path in self._paths():
            try:
                if tables.commits_since_checkpoint(self._spark, path) >= EVERY:
                    upkeep.checkpoint(self._spark, path)
                    return
            except Exception as error:
                logger.warning("no checkpoint, will be tried again", path=path, error=str(error))
