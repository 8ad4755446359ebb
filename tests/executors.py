"""The executors of Spark that run below a process of the tests."""

from __future__ import annotations

from pathlib import Path

from headrace.local.servers.lifeline import descendants

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def executors_of(parent: int) -> list[int]:
    """Their processes. A driver has other children, which end at any moment: Hadoop sets permissions by a program."""
    return [pid for pid in descendants(parent) if EXECUTOR in _read(Path(f"/proc/{pid}/cmdline"))]


def _read(path: Path) -> str:
    """A file of /proc; nothing when its process has ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
