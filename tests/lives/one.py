"""One life from beginning to end."""

from __future__ import annotations

import gc
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.spark.on_demand import is_started
from tests.lives.at_rest import faults
from tests.lives.lifecycle import LifecycleDriver
from tests.lives.live import LivesDriver
from tests.lives.story import Life

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY = Path("/dev/shm")  # a lake there waits for no disk


@dataclass(frozen=True)
class Lived:
    """How much happened in a life."""

    micro_batches: int
    log_commits: int
    troubles: int


def live(life: Life, spark: SparkSession | None = None) -> Lived:
    """Live through it.

    In:     spark  a session, for a life of the second tier
    Raises: AssertionError naming what is wrong at rest
    """
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        tempfile.tempdir = str(MEMORY)
    gc.set_threshold(50_000, 20, 50)  # a life makes many objects, and few that refer to one another
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    driver = LivesDriver(life) if spark is None else LifecycleDriver(life, spark)
    try:
        driver.live()
        wrong = faults(driver)
        assert spark is not None or not is_started(driver._session), "a life needs no JVM"
    finally:
        driver.close()
    assert not wrong, "\n".join(wrong)
    return Lived(driver.micro_batches, driver.log_commits, driver.troubles.met)
