"""Spark's JVM starts without the lines that it prints each time, which tell a person nothing.

Law: every other line of the JVM reaches stderr, in its order, for as long as the JVM lives.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark import SparkContext

if TYPE_CHECKING:
    from collections.abc import Iterator

STDERR = 2
NOISE = (
    b"NOTE: Picked up JDK_JAVA_OPTIONS",
    b"WARNING: Using incubator modules",
    b"Using Spark's default log4j profile",
    b"Setting default log level to",
    b"To adjust logging level use",
    b"Setting Spark log level to",
    b" WARN Utils: Your hostname",
    b" WARN Utils: Set SPARK_LOCAL_IP",
    b" WARN NativeCodeLoader: Unable to load native-hadoop library",
)


@contextmanager
def quiet_start() -> Iterator[None]:
    """Filter what the JVM writes to stderr, if the body starts it; a JVM that runs already is left alone."""
    if SparkContext._gateway is not None:
        yield
        return
    try:
        stderr = os.dup(STDERR)
    except OSError:  # a process without stderr
        yield
        return
    reading, writing = os.pipe()
    threading.Thread(target=_forward, args=(reading, stderr), name="stderr of Spark", daemon=True).start()
    os.dup2(writing, STDERR)
    os.close(writing)
    try:
        yield
    finally:
        os.dup2(stderr, STDERR)  # the JVM keeps the pipe


def _forward(reading: int, stderr: int) -> None:
    with os.fdopen(reading, "rb") as lines, os.fdopen(stderr, "wb", buffering=0) as to:
        for line in lines:
            if not any(noise in line for noise in NOISE):
                to.write(line)
