"""The common part of logs and nodes: each is opened, watched, and opened again with back-off after a failure.

`supervised_loop` makes a loop of it.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING

import structlog

from headrace.errors import HeadraceError, TerminalError
from headrace.streams.jvm_process import JvmEndedError
from headrace.writing.leases.handover import WaitsError
from headrace.writing.leases.lease import LeaseTakenError
from headrace.writing.leases.lease_waits import LeaseWait

if TYPE_CHECKING:
    from collections.abc import Callable

logger = structlog.get_logger(__name__)
BACKOFF_SECONDS_MAX = 60.0
FAILURES_MAX = (
    10  # in a row, about five minutes: from then on the state is `failed`, and it is still opened again
)
RATE_SECONDS = 30.0
LEASE_RETRY_SECONDS = 2.0
STANDBY_RETRY_SECONDS = 0.5  # of a stream that stands by: it is to take over soon
LEASE_ORPHAN_SECONDS = 1.0  # for the JVM of a killed process to end; others are polled in the same thread


class Supervised(ABC):
    """Runs micro-batches until it is drained or fails with a terminal error. Its truth lies in our own commits."""

    kind: str
    name: str
    trigger_ms: int  # between the beginnings of two micro-batches, at least; a loop may begin one early
    stands_by = (
        False  # whether it waits for a lease for as long as another process holds it, and then takes over
    )

    def __init__(self) -> None:
        """Closed at first; `keep_running` opens it."""
        self.error: BaseException | None = None
        self.failures = 0
        self.finished = False
        self.batch_seconds: float | None = None  # of a micro-batch, in the last trigger with records
        self.micro_batches = 1  # in that trigger
        self._begun = False
        self._cause: BaseException | None = None  # why it ends by itself: no micro-batch begins any more
        self._closing = threading.Event()  # a person or the runtime ends it
        self._busy = threading.Lock()  # held while a micro-batch is under way
        self._retry_at = 0.0
        self._lease_wait: LeaseWait | None = None
        self._waits_for: WaitsError | None = None
        self._counted: deque[tuple[float, int]] = deque(maxlen=200)

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether micro-batches can begin, or one is under way."""

    @abstractmethod
    def begin(self) -> None:
        """Take the lease, recover, and start."""

    @abstractmethod
    def stop(self) -> None:
        """End what `begin` started, after the micro-batch under way."""

    @abstractmethod
    def close(self) -> None:
        """Release what `begin` took."""

    @abstractmethod
    def set_trigger(self, trigger_ms: int) -> None:
        """Change the time between two micro-batches; the counters are kept. Call it again until `trigger_ms` shows it."""

    @property
    def busy(self) -> bool:
        """Whether work of an earlier start is still under way, although it runs no more."""
        return self._busy.locked()

    def mended(self) -> bool:
        """Whether a person has changed what made it fail for good."""
        return False

    @property
    def state(self) -> str:
        """One of `running`, `waiting`, `restarting`, `failed`, `stopped`, `ended`, as `StreamStatus` explains them.

        A failure that may pass is followed by another try for ever, once a minute at last, for it may pass at night. After
        `FAILURES_MAX` failures in a row the state is `failed` all the same, so that somebody looks. A lease that a living
        process keeps for a minute is such a failure, too; the stream goes on as soon as the lease is free.
        """
        if self.finished and isinstance(self.error, JvmEndedError):
            return "ended"
        if self.finished:
            return "failed" if isinstance(self.error, TerminalError) else "stopped"
        if self.running:
            return "running"
        if self._waits_for is not None:
            return "waiting"
        if self._lease_wait is not None:
            return "failed" if isinstance(self.error, LeaseTakenError) else "waiting"
        return "failed" if self.failures >= FAILURES_MAX else "restarting"

    def keep_running(self) -> None:
        """Open it if it does not run and its back-off has passed. Never raises.

        While a micro-batch of its own is still under way, or upkeep, nothing happens: a second writer beside it would read
        and write the same rows again.
        """
        if self.state == "failed" and not self._closing.is_set() and self.mended():
            self.finished, self.error, self.failures, self._retry_at = False, None, 0, 0.0
        if self.finished or self.running or self.busy:
            return
        if self._begun:
            self._failed(self._cause or RuntimeError("the stream stopped by itself"))
        if self.finished or time.monotonic() < self._retry_at:
            return
        self._cause = None
        try:
            self.begin()
            self._begun = True
            if self._lease_wait is not None or self._waits_for is not None:
                self._lease_wait = self._waits_for = self.error = None
            logger.info("stream started", kind=self.kind, name=self.name)
        except Exception as error:
            self._failed(error)

    def halt(self) -> None:
        """Let the micro-batch under way finish, and begin no other; what `begin` took is kept until `drain`."""
        self._closing.set()
        with self._busy:
            pass  # the micro-batch under way is done, and none begins any more
        self.stop()  # not under the lock: it waits for a thread that may wait for the lock

    def drain(self) -> None:
        """Let the micro-batch under way finish, then stop and release everything."""
        self.halt()
        if not self.finished:
            self.finished = True
            self._release()

    def give_up(self, error: HeadraceError) -> None:
        """End it because of an error found outside its micro-batches; `keep_running` then sees why."""
        self._end_with(error)
        self.stop()

    def end_with_jvm(self, error: JvmEndedError) -> None:
        """End it for good in this process, at once: nothing is waited for, and `let_go` gives back what it holds."""
        if not self.finished:
            self._cause = self.error = error
            self.finished = True

    def let_go(self, deadline: float) -> None:
        """Give back what `begin` took, after the micro-batch under way has failed, too; by a monotonic deadline.

        A lease that is kept is free once this process has ended.
        """
        self._closing.set()
        if self._busy.acquire(timeout=max(0.0, deadline - time.monotonic())):
            self._busy.release()
            self._release()

    def rows_per_second(self) -> float:
        """Rows handled, averaged over the last half minute."""
        now = time.monotonic()
        counted = tuple(self._counted)  # a copy: the thread of the micro-batches goes on counting
        return sum(rows for at, rows in counted if now - at <= RATE_SECONDS) / RATE_SECONDS

    def went_well(self) -> None:
        """Forget earlier failures, for something was committed; an error that ends it now is kept."""
        if self._cause is None:
            self.failures, self.error = 0, None

    @property
    def _ends(self) -> bool:
        return self._closing.is_set() or self._cause is not None

    def _end_with(self, error: BaseException) -> None:
        """Only the first error counts: later ones come from its being stopped."""
        if self._cause is None:
            self._cause = self.error = error

    def _handle(self, work: Callable[[], int]) -> None:
        """One trigger; the caller holds `_busy`. A failure ends what runs."""
        began = time.monotonic()
        try:
            rows = work()
        except BaseException as error:
            self._end_with(error)
            raise
        self._counted.append((time.monotonic(), rows))
        if rows:
            self.batch_seconds = (time.monotonic() - began) / max(self.micro_batches, 1)
        self.went_well()

    def _failed(self, error: BaseException) -> None:
        self._waits_for = error if isinstance(error, WaitsError) else None
        if self._waits_for is not None:
            self._wait_for(self._waits_for)
            return
        if isinstance(error, LeaseTakenError):
            self._wait_for_lease(error)
            return
        self._lease_wait = None
        self.error, self.failures = error, self.failures + 1
        self._release()
        self.finished = isinstance(error, TerminalError)
        self._retry_at = time.monotonic() + min(2.0**self.failures, BACKOFF_SECONDS_MAX)
        logger.error(
            "stream failed", kind=self.kind, name=self.name, failures=self.failures, error=str(error)[:2000]
        )

    def _wait_for(self, error: WaitsError) -> None:
        """Try again soon: somebody else is at work. No failure is counted."""
        if str(error) != str(self.error) or self._begun:
            logger.info("stream waits", kind=self.kind, name=self.name, why=str(error))
        self._lease_wait = None
        self._release()
        self.error, self._retry_at = error, time.monotonic() + LEASE_RETRY_SECONDS

    def _wait_for_lease(self, refused: LeaseTakenError) -> None:
        """Try again soon: the holder may be dead, or about to end. No failure is counted."""
        if self._lease_wait is None:
            logger.info("stream waits for a lease", kind=self.kind, name=self.name, held=str(refused))
        self._lease_wait = LeaseWait.after(self._lease_wait, refused, stands_by=self.stands_by)
        self._release()
        self.error = self._lease_wait.as_error()
        self._retry_at = time.monotonic() + (STANDBY_RETRY_SECONDS if self.stands_by else LEASE_RETRY_SECONDS)

    def _release(self) -> None:
        self._begun = False
        try:
            self.close()
        except Exception as error:
            logger.warning("could not release", kind=self.kind, name=self.name, error=str(error))
