"""What processes use, as Linux counts it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.spark.jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _processes() -> list[Path]:
    """This process and the JVM of Spark that it started; not the broker, which is a child too."""
    me = Path("/proc/self").resolve()
    children = (Path("/proc") / pid for pid in (me / "task" / me.name / "children").read_text().split())
    return [me, *(child for child in children if b"org.apache.spark" in _command(child))]


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""  # it has ended


def cpu_seconds() -> float:
    """Of this process and its JVM, since they began."""
    ticks = 0
    for process in _processes():
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / 100


def peak_mib() -> float:
    """The highest resident sizes of both, added."""
    peaks = [
        line for p in _processes() for line in (p / "status").read_text().splitlines() if "VmHWM" in line
    ]
    return sum(int(line.split()[1]) for line in peaks) / 1024


def jvm_of(spark: SparkSession) -> Path:
    """The driver's JVM, as its folder in `/proc`."""
    return Path(f"/proc/{java_class(spark, 'java.lang.ProcessHandle').current().pid()}")


def resident_mib(process: Path) -> float:
    """The resident size of a process, given as its folder in `/proc`."""
    status = (process / "status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS")), 0.0)
