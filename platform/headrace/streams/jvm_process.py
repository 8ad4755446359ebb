"""The process of Spark's JVM, and a thread that notices its end.

Law: `ended` is set within two seconds of the end of the JVM. Nothing waits for an answer of the JVM meanwhile, unless its
process cannot be seen from here: then the JVM is asked, and one that hangs is waited for.

Queries of a JVM that has ended cannot be opened again in this process: PySpark starts one JVM for each Python process.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.errors import TransientError
from headrace.spark.jvm import java_class
from headrace.writing.leases.processes import born, runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.25  # between two looks at the process table
PING_SECONDS = 2.0  # between two questions to a JVM whose process cannot be seen from here
STARTED_BY_OTHERS = "PYSPARK_GATEWAY_PORT"  # PySpark's own variable: the JVM may run in another container


class JvmEndedError(TransientError):
    """The JVM of this process's Spark session has ended. A new process can go on."""


class JvmProcess:
    """Watches the JVM of a Spark session."""

    def __init__(self, spark: SparkSession, on_end: Callable[[], None] = lambda: None) -> None:
        """Look up the process; nothing is watched before `watch`. In: on_end  called once, in the thread that watches."""
        self.pid: int = java_class(spark, "java.lang.ProcessHandle").current().pid()
        self._born = None if STARTED_BY_OTHERS in os.environ else born(self.pid)
        self._system = java_class(spark, "java.lang.System")
        self._on_end = on_end
        self._ended = threading.Event()
        self._noted = threading.Lock()
        self._let_go = threading.Event()
        self._noticed_at: datetime | None = None

    @property
    def ended(self) -> bool:
        """True once the end of the JVM was noticed; asks nobody."""
        return self._ended.is_set()

    def has_ended(self) -> bool:
        """Look now."""
        if not self.ended and not self._lives():
            self._note()
        return self.ended

    def ends_within(self, seconds: float) -> bool:
        """Look for so long: a connection breaks some milliseconds before the process is gone."""
        until = time.monotonic() + seconds
        while not self.has_ended() and time.monotonic() < until:
            time.sleep(0.02)
        return self.ended

    def watch(self) -> None:
        """Look in the background, until the JVM ends or `let_go` is called; call it once."""
        threading.Thread(target=self._watch, daemon=True, name=f"JVM {self.pid}").start()

    def let_go(self) -> None:
        """Watch no longer: whoever ends the JVM from here on may do so."""
        self._let_go.set()

    def error(self) -> JvmEndedError:
        """The error with which queries of this JVM end."""
        at = self._noticed_at or datetime.now(UTC)
        return JvmEndedError(
            f"Spark's JVM (process {self.pid}) has ended.",
            detail=f"Noticed at {at:%Y-%m-%d %H:%M:%S} UTC; since then no query of this process runs.",
            hint="Nothing that was committed is lost. Start the run again; the sensor of a stream run does so by itself.",
        )

    def _lives(self) -> bool:
        if self._born is not None:
            return runs(self.pid, self._born)
        try:
            self._system.nanoTime()
        except Exception:  # of several kinds, when nobody answers; a JVM that lives always answers this
            return False
        return True

    def _watch(self) -> None:
        every_seconds = PING_SECONDS if self._born is None else LOOK_SECONDS
        while not self._let_go.wait(every_seconds):
            if self.has_ended():
                return

    def _note(self) -> None:
        with self._noted:
            if self.ended:
                return
            self._noticed_at = datetime.now(UTC)
            self._on_end()
            self._ended.set()
