"""Waits for leases: of jobs, which block until they have one, and of streams, which try again at each poll.

Law: nobody gives up on a lease before the holder has shown that it lives.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_fixed

from headrace.errors import TransientError
from headrace.writing.leases.lease import (
    EXPIRES_MS,
    Holder,
    Lease,
    LeaseNotExpiredError,
    LeaseTakenError,
    take_lease,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Topic
    from headrace.errors import HeadraceError
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock

logger = structlog.get_logger(__name__)
RETRY_SECONDS = 1.0  # between two attempts to take a lease that is held
# How long a stream waits for a holder that lives before it calls this a failure.
WAIT_SECONDS = EXPIRES_MS / 1000


@dataclass(frozen=True)
class LeaseWait:
    """A stream's wait for one lease.

    refused     the newest refusal
    began_at    of the wait for this epoch, by the monotonic clock
    renewed_ms  when the holder had renewed the lease as of the first refusal
    stands_by   whether the stream waits for as long as the holder lives, to take over when it ends
    """

    refused: LeaseTakenError
    began_at: float
    renewed_ms: int | None
    stands_by: bool = False

    @staticmethod
    def after(before: LeaseWait | None, refused: LeaseTakenError, *, stands_by: bool = False) -> LeaseWait:
        """The wait after one more refusal; it begins anew when another writer has taken the lease meanwhile."""
        epoch = None if refused.holder is None else refused.holder.epoch
        if before is not None and before._epoch == epoch:
            return LeaseWait(refused, before.began_at, before.renewed_ms, stands_by)
        renewed_ms = None if refused.holder is None else refused.holder.renewed_ms
        return LeaseWait(refused, time.monotonic(), renewed_ms, stands_by)

    @property
    def over(self) -> bool:
        """True if the holder lives, and the wait has lasted for `WAIT_SECONDS`; never of a stream that stands by."""
        return not self.stands_by and self._holder_lives and self._left_seconds <= 0

    def as_error(self) -> HeadraceError:
        """The refusal once the wait is over; before, who holds the lease, since when, and when the wait ends."""
        holder = self.refused.holder
        if self.over:
            return self.refused
        return TransientError(str(self.refused) if holder is None else self._words(holder))

    def _words(self, holder: Holder) -> str:
        since = datetime.fromtimestamp(holder.taken_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        waits = f"{self.refused.writer} is waiting for the lease held by {holder.process} since {since}"
        if holder.expires_in_seconds is not None and not self._holder_lives:
            return f"{waits}; it expires in {max(0.0, holder.expires_in_seconds):.0f} s unless that process renews it."
        if self.stands_by:
            return f"{waits}. That process is alive: this stream stands by, and takes over when it ends."
        left = f"{max(0.0, self._left_seconds):.0f} s"
        return f"{waits}. That process is alive: if it still holds the lease in {left}, the stream fails."

    @property
    def _epoch(self) -> int | None:
        return None if self.refused.holder is None else self.refused.holder.epoch

    @property
    def _holder_lives(self) -> bool:
        holder = self.refused.holder
        return holder is None or holder.expires_in_seconds is None or holder.renewed_ms != self.renewed_ms

    @property
    def _left_seconds(self) -> float:
        return self.began_at + WAIT_SECONDS - time.monotonic()


def take_lease_patiently(
    spark: SparkSession, folder: str, writer: str, clock: Clock, patience_seconds: float = 0.0
) -> Lease:
    """Take a lease as soon as it is free; tries once a second.

    In:     patience_seconds  how long to wait for a process that lives
    Law:    A lease whose holder may be dead is waited for until it expires, whatever the patience.
    Raises: LeaseTakenError when a process that lives still holds it after the patience, or renews it meanwhile.
    """
    expires: list[float] = []  # when the lease of a holder that may be dead is free, as of the first refusal

    def has_waited(attempt: RetryCallState) -> bool:
        refused = attempt.outcome.exception() if attempt.outcome is not None else None
        waited_seconds = attempt.seconds_since_start or 0.0
        if not isinstance(refused, LeaseNotExpiredError):
            return waited_seconds >= patience_seconds
        if not expires:
            expires.append(waited_seconds + _expires_in_seconds(refused.holder) + 2 * RETRY_SECONDS)
        return waited_seconds >= max(patience_seconds, *expires)

    for attempt in Retrying(
        retry=retry_if_exception_type(LeaseTakenError),
        stop=has_waited,
        wait=wait_fixed(RETRY_SECONDS),
        before_sleep=lambda attempt: _log_waiting(writer, attempt),
        reraise=True,
    ):
        with attempt:
            return take_lease(spark, folder, writer, clock)
    raise AssertionError("unreachable: the last attempt raises")


def _expires_in_seconds(holder: Holder | None) -> float:
    """In how many seconds a lease is free at the latest, unless its holder lives."""
    known = None if holder is None else holder.expires_in_seconds
    return max(EXPIRES_MS / 1000, known or 0.0)


def _log_waiting(writer: str, attempt: RetryCallState) -> None:
    if attempt.attempt_number == 1 and attempt.outcome is not None:
        logger.info("waiting for a lease", writer=writer, held=str(attempt.outcome.exception()))


@contextmanager
def nothing_writes(
    spark: SparkSession, lake: Lake, topic: Topic, names: Sequence[str], clock: Clock
) -> Iterator[dict[str, Lease]]:
    """Hold the leases of a topic's log, of nodes that read it, of their backfills and rebuilds while entered.

    Out:    the leases: of the backfills by node, of the log and of the nodes as `log/<topic>` and `node/<node>`
    Raises: LeaseTakenError while a stream, backfill, rebuild or maintenance of these tables runs; then none is held.
    """
    with ExitStack() as stack:
        held: dict[str, Lease] = {}
        writers = [(f"log/{topic.name}", f"Log '{topic.name}'")]
        writers += [(f"node/{name}", f"Node '{name}'") for name in names]
        for of, writer in writers:
            held[of] = take_lease_patiently(spark, lake.lease(of), writer, clock)
            stack.callback(held[of].release)
        yield held | stack.enter_context(nothing_rebuilds(spark, lake, names, clock))


@contextmanager
def nothing_rebuilds(
    spark: SparkSession, lake: Lake, names: Sequence[str], clock: Clock, patience_seconds: float = 0.0
) -> Iterator[dict[str, Lease]]:
    """Hold the leases of the backfills and rebuilds of some nodes while entered; their streams may run.

    In:     patience_seconds  for a fold of current results to end, which a stream does under the lease of backfills
    Out:    the leases of the backfills, by node
    Raises: LeaseTakenError while a backfill, rebuild or maintenance of these tables runs; then none is held.
    """
    with ExitStack() as stack:

        def take(kind: str, name: str, patience: float) -> Lease:
            folder, writer = lake.lease(f"{kind}/{name}"), f"{kind.capitalize()} of '{name}'"
            lease = take_lease_patiently(spark, folder, writer, clock, patience)
            stack.callback(lease.release)
            return lease

        backfills = {}
        for name in names:
            take("rebuild", name, 0.0)
            backfills[name] = take("backfill", name, patience_seconds)
        yield backfills
