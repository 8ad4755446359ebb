"""One life from beginning to end."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace.lake import forget
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


@cache
def let_modules_stay() -> None:
    """No collection looks at what is there now."""
    gc.freeze()


@contextmanager
def quick() -> Iterator[None]:
    """A lake in memory, and few threads: a handful of rows is read sooner by one."""
    threads, in_memory = (
        (pa.cpu_count(), pa.io_thread_count()),
        MEMORY.is_dir() and os.access(MEMORY, os.W_OK),
    )
    # A life makes many objects, and few that refer to one another; modules stay.
    let_modules_stay()
    gc.set_threshold(200_000, 20, 1_000)
    with pytest.MonkeyPatch.context() as patch:
        if in_memory:
            patch.setattr(tempfile, "tempdir", str(MEMORY))
        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
        try:
            yield
        finally:
            pa.set_cpu_count(threads[0])
            pa.set_io_thread_count(threads[1])


def live(life: Life, spark: SparkSession | None = None) -> Lived:
    """Live through it.

    In:     spark  a session, for a life of the second tier
    Raises: AssertionError naming what is wrong at rest
    """
    with quick():
        driver = LivesDriver(life) if spark is None else LifecycleDriver(life, spark)
        try:
            driver.live()
            wrong = faults(driver)
            assert spark is not None or not is_started(driver._session), "a life needs no JVM"
        finally:
            driver.close()
            forget()  # its lake is gone
    assert not wrong, "\n".join(wrong)
    return Lived(driver.micro_batches, driver.log_commits, driver.troubles.met)
