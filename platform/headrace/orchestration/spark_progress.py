"""How far Spark has come with what it computes, told in a run's log."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

EVERY_SECONDS = 10.0


@contextmanager
def told_progress(
    spark: SparkSession, log: logging.Logger, every_seconds: float = EVERY_SECONDS
) -> Iterator[None]:
    """While entered, say now and then how many tasks of the stages under way are done; nothing is said of short work."""
    ended = threading.Event()

    def tell() -> None:
        told = ""
        while not ended.wait(every_seconds):
            words = under_way(spark)
            if words and words != told:
                log.info(words)
            told = words

    teller = threading.Thread(target=tell, name="progress of Spark", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join(timeout=5)


def under_way(spark: SparkSession) -> str:
    """The tasks of the stages that Spark computes now; empty when it computes nothing."""
    tracker = spark.sparkContext.statusTracker()
    stages = [
        info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None
    ]
    if not stages:
        return ""
    done, tasks = (sum(getattr(info, name) for info in stages) for name in ("numCompletedTasks", "numTasks"))
    return f"Spark has done {done:,} of {tasks:,} tasks of what it computes now."
