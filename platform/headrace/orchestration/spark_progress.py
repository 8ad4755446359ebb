"""Report in a run's log how many tasks of the current stages Spark has finished."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

EVERY_SECONDS = 10.0


@contextmanager
def logged_progress(
    spark: SparkSession, log: logging.Logger, every_seconds: float = EVERY_SECONDS
) -> Iterator[None]:
    """While entered, log every few seconds how many tasks of the current stages are done; short work is not logged."""
    ended = threading.Event()

    def log_stages() -> None:
        told = ""
        while not ended.wait(every_seconds):
            words = under_way(spark)
            if words and words != told:
                log.info(words)
            told = words

    teller = threading.Thread(target=log_stages, name="progress of Spark", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join(timeout=5)


def under_way(spark: SparkSession) -> str:
    """The finished tasks of the current stages in words; empty when Spark runs no stage."""
    tracker = spark.sparkContext.statusTracker()
    stages = [
        info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None
    ]
    if not stages:
        return ""
    done, tasks = (sum(getattr(info, name) for info in stages) for name in ("numCompletedTasks", "numTasks"))
    return f"Spark has finished {done:,} of {tasks:,} tasks of the current stages."
