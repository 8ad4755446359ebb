"""What processes use, as Linux counts it."""

from __future__ import annotations

import threading
import time
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from headrace.spark.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

METER_SECONDS = 0.25  # a look takes some milliseconds of the process that is measured


def _processes() -> list[Path]:
    """This process, the JVM of Spark that it started, and Spark's Python workers; not the broker, which is a child too."""
    me = Path("/proc/self").resolve()
    jvms = [child for child in _children(me) if b"org.apache.spark" in _command(child)]
    daemons = [daemon for jvm in jvms for daemon in _daemons(jvm, int(time.monotonic() * 2))]
    return [me, *jvms, *daemons, *(worker for daemon in daemons for worker in _children(daemon))]


@lru_cache(maxsize=1)
def _daemons(jvm: Path, moment: int) -> list[Path]:
    """Who forks the Python workers of a JVM: children of some of its many threads, which are looked at twice a second."""
    threads = [thread.name for thread in (jvm / "task").iterdir()]
    return [daemon for thread in threads for daemon in _children(jvm, thread)]


def _children(process: Path, thread: str = "") -> list[Path]:
    try:
        numbers = (process / "task" / (thread or process.name) / "children").read_text().split()
    except OSError:
        return []  # it has ended
    return [Path("/proc") / number for number in numbers]


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""  # it has ended


def cpu_seconds() -> float:
    """Of this process, its JVM and their Python workers, since they began."""
    return _cpu_seconds(_processes())


def _cpu_seconds(processes: Sequence[Path]) -> float:
    ticks = 0
    for number, process in enumerate(processes):
        # Its own; and those of workers that ended, but not of what this process has begun beside Spark.
        ticks += sum(int(field) for field in _stat(process)[11 : 15 if number else 13])
    return ticks / 100


def _stat(process: Path) -> list[str]:
    """What Linux says of a process, from its state on; nothing when it has ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


@dataclass(frozen=True)
class Resident:
    """Resident sizes in MiB: of this process, of its JVM, of all Python workers, and of all of them at one moment.

    Pages that forked workers share count once for each, pages of mapped files for each that has mapped them.
    """

    driver: float = 0.0
    jvm: float = 0.0
    workers: float = 0.0
    all: float = 0.0

    def highest(self, other: Resident) -> Resident:
        """The higher of each."""
        return Resident(*map(max, astuple(self), astuple(other)))


def _resident(processes: Sequence[Path]) -> Resident:
    me, *others = processes
    jvms = [each for each in others if b"org.apache.spark" in _command(each)]
    workers = [each for each in others if each not in jvms]
    driver, jvm, every = (sum(resident_mib(each) for each in some) for some in ([me], jvms, workers))
    return Resident(driver, jvm, every, driver + jvm + every)


class Meter:
    """CPU seconds as of any moment while the context lasts, and the highest resident sizes."""

    def __init__(self) -> None:
        """Nothing is measured yet."""
        self._used: dict[tuple[str, str], int] = {}
        self._samples = [(time.time(), self._cpu_seconds(_processes()))]
        self.highest = Resident()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True, name="meter")

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ended.set()
        self._thread.join()
        self._samples.append((time.time(), self._cpu_seconds(_processes())))

    @property
    def used(self) -> tuple[float, float]:
        """Seconds and CPU seconds from the beginning to the end, when the context has ended."""
        began, ended = self._samples[0][0], self._samples[-1][0]
        return ended - began, self.cpu_between(began, ended)

    def cpu_between(self, began: float, ended: float) -> float:
        """CPU seconds between two moments, in seconds since 1970."""
        moments, used = zip(*self._samples, strict=True)
        first, last = np.interp([began, ended], moments, used)
        return float(last - first)

    def _sample(self) -> None:
        while not self._ended.wait(METER_SECONDS):
            processes = _processes()
            self._samples.append((time.time(), self._cpu_seconds(processes)))
            self.highest = self.highest.highest(_resident(processes))

    def _cpu_seconds(self, processes: Sequence[Path]) -> float:
        """The same, of all processes seen so far: one that has ended still counts."""
        for process in processes:
            if fields := _stat(process):
                self._used[process.name, fields[19]] = int(fields[11]) + int(fields[12])
        return sum(self._used.values()) / 100


def jvm_of(spark: SparkSession) -> Path:
    """The driver's JVM, as its folder in `/proc`."""
    return Path(f"/proc/{java_class(spark, 'java.lang.ProcessHandle').current().pid()}")


def resident_mib(process: Path) -> float:
    """The resident size of a process, given as its folder in `/proc`."""
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return 0.0  # it has ended
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def heap_mib(spark: SparkSession) -> float:
    """What the JVM's heap holds, after a collection."""
    runtime = java_class(spark, "java.lang.Runtime").getRuntime()
    runtime.gc()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20
