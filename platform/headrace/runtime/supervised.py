"""One supervised streaming query: opened, watched, opened again with back-off after a transient failure."""

from __future__ import annotations

import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING

import structlog

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

logger = structlog.get_logger(__name__)
BACKOFF_SECONDS_MAX = 60.0
FAILURES_MAX = 10  # in a row: about five minutes; beyond it counts as failed, and is tried on
RATE_SECONDS = 30.0


class SupervisedQuery(ABC):
    """A streaming query whose truth lies in our own commits; Spark's checkpoint is scratch and new at each start."""

    kind: str
    name: str
    trigger_ms: int

    def __init__(self) -> None:
        """Closed at first; `keep_running` opens it."""
        self.query: StreamingQuery | None = None
        self.error: BaseException | None = None
        self.failures = 0
        self.finished = False
        self._ended_by: BaseException | None = (
            None  # why the query ends, or is stopped: nothing begins any more
        )
        self._closing = threading.Event()
        self._busy = threading.Lock()
        self._retry_at = 0.0
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._counted: deque[tuple[float, int]] = deque(maxlen=200)
        self.batch_seconds: float | None = None  # of a micro-batch, in the last trigger with records
        self.micro_batches = 1  # in that trigger
        self.passed_by = False  # whether Spark holds a trigger for done that nothing was done in

    @abstractmethod
    def open(self) -> DataStreamWriter:
        """Take the lease, recover, and describe the query to start."""

    @abstractmethod
    def work(self, batch: DataFrame) -> int:
        """Handle one trigger; returns the rows handled."""

    @abstractmethod
    def close(self) -> None:
        """Release what `open` took."""

    def mended(self) -> bool:
        """Whether what it failed for, and a person had to change, has been changed since."""
        return False

    @property
    def state(self) -> str:
        """`running`, `restarting`, `failed` (a person must act) or `stopped`.

        What may pass is tried once a minute for ever, for it may pass at night; after so many failures in a row it is
        called failed all the same, so that somebody looks.
        """
        if self.finished:
            return "failed" if isinstance(self.error, TerminalError) else "stopped"
        if self.query is not None and self.query.isActive:
            return "running"
        return "failed" if self.failures >= FAILURES_MAX else "restarting"

    def keep_running(self) -> None:
        """Open the query if it is not running and its back-off has passed. Never raises."""
        if self.state == "failed" and not self._closing.is_set() and self.mended():
            self.finished, self.error, self.failures, self._retry_at = False, None, 0, 0.0
        if self.finished or (self.query is not None and self.query.isActive):
            return
        if self.query is not None:
            self._failed(self.error or self.query.exception() or RuntimeError("the query stopped by itself"))
            self.query = None
        if self.finished or time.monotonic() < self._retry_at:
            return
        self.passed_by = False
        try:
            writer = self.open()
            self._ended_by = None
            self._scratch = tempfile.TemporaryDirectory(
                prefix=f"headrace-{self.name}-", ignore_cleanup_errors=True
            )
            writer = writer.foreachBatch(self._trigger).option(
                "checkpointLocation", f"file:{self._scratch.name}"
            )
            self.query = writer.queryName(f"{self.kind}/{self.name}").start()
            logger.info("stream started", kind=self.kind, name=self.name)
        except Exception as error:
            self._failed(error)

    def halt(self) -> None:
        """Let the micro-batch under way finish, and begin no other; what `open` took is kept until `drain`."""
        self._closing.set()
        with self._busy:
            pass  # the micro-batch under way is done; one that begins now returns at once
        # Not under the lock: `stop` waits for Spark's thread, which may be waiting for the lock in `_trigger`.
        if self.query is not None:
            self.query.stop()

    def drain(self) -> None:
        """Let the micro-batch under way finish, then stop."""
        self.halt()
        if not self.finished:
            self.finished = True
            self._release()

    def set_trigger(self, trigger_ms: int) -> None:
        """Begin anew with another time between micro-batches: a query of Spark keeps the one with which it began.

        What was counted stays. While a micro-batch is under way nothing happens: call it again.
        """
        if trigger_ms == self.trigger_ms or self.finished or self._busy.locked():
            return
        self.drain()
        self.trigger_ms = trigger_ms
        self.query, self.finished = None, False
        self._closing.clear()

    def give_up(self, error: TerminalError) -> None:
        """End the query because of something found outside its micro-batches; `keep_running` then sees why."""
        self.error = self._ended_by = error
        if self.query is not None:
            self.query.stop()

    def rows_per_second(self) -> float:
        """Rows handled, averaged over the last half minute."""
        now = time.monotonic()
        recent = [(at, rows) for at, rows in self._counted if now - at <= RATE_SECONDS]
        return sum(rows for _, rows in recent) / RATE_SECONDS

    def do(self, work: Callable[[], int]) -> None:
        """Work beside the query's own triggers, after one that is under way; a failure ends the query as its own would."""
        if self.state != "running":
            return
        with self._busy:
            try:
                self._work(work)
            except Exception as error:
                self._ended_by = self.error
                logger.warning(
                    "work beside the triggers failed", kind=self.kind, name=self.name, error=str(error)
                )
        if self._ended_by is not None and self.query is not None:
            self.query.stop()

    def _trigger(self, batch: DataFrame, batch_id: int) -> None:
        with self._busy:
            try:
                self._work(lambda: self.work(batch))
            except BaseException as error:
                self._ended_by = (
                    self._ended_by or error
                )  # Spark ends the query a moment later: nothing begins meanwhile
                raise

    @property
    def _ends(self) -> bool:
        """Whether the query is being stopped, by a person or for an error."""
        return self._closing.is_set() or self._ended_by is not None

    def _work(self, work: Callable[[], int]) -> None:
        if self._closing.is_set():
            self.passed_by = True  # nothing is lost: the next start reads on from our own last commit
            return
        if self._ended_by is not None:
            raise self._ended_by  # while this one waited
        began = time.monotonic()
        try:
            rows = work()
        except BaseException as error:
            if self._ended_by is None:  # else it is only that the query is stopped for it
                self.error = error
            raise
        self._counted.append((time.monotonic(), rows))
        if rows:
            self.batch_seconds = (time.monotonic() - began) / max(self.micro_batches, 1)
        self.went_well()

    def went_well(self) -> None:
        """Something was committed: failures before it are forgiven, unless the query ends for one found meanwhile."""
        if self._ended_by is None:
            self.failures, self.error = 0, None

    def _failed(self, error: BaseException) -> None:
        self.error, self.failures = error, self.failures + 1
        self._release()
        self.finished = isinstance(error, TerminalError)
        self._retry_at = time.monotonic() + min(2.0**self.failures, BACKOFF_SECONDS_MAX)
        logger.error(
            "stream failed", kind=self.kind, name=self.name, failures=self.failures, error=str(error)[:2000]
        )

    def _release(self) -> None:
        try:
            self.close()
        except Exception as error:
            logger.warning("could not release", kind=self.kind, name=self.name, error=str(error))
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None
