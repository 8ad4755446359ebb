"""Hand a node over: a running stream lets go of a node, somebody else works on its tables, and the stream goes on.

Law: a stream hands a node over between two micro-batches. So progress, results and sinks agree, and whoever takes the node's
lease finds them at rest. The lease, and behind it the fence, keep the law; a request only asks.

1. The taker writes a request, a small file, and tries the lease once a second.
2. The stream looks at requests with each look at pauses. It ends the node's micro-batch and upkeep, gives the lease back,
   and waits. Its other nodes and its logs go on.
3. The taker works, gives the lease back, and deletes the request.
4. The stream opens the node as after a restart: it reads description, progress and tables anew.

If the taker dies, its lease is free as any dead process's is. A request that nobody has followed up for
`FORSAKEN_SECONDS` is deleted by the stream that waits.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from headrace.errors import TransientError
from headrace.lake import small_files
from headrace.writing.leases.lease import (
    EXPIRES_MS,
    LeaseNotExpiredError,
    LeaseTakenError,
    lease_taken_ms,
    take_lease,
)
from headrace.writing.leases.lease_waits import RETRY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock
    from headrace.writing.leases.lease import Lease

PATIENCE_SECONDS = 300.0  # for the micro-batches and the upkeep under way to end
FORSAKEN_SECONDS = 60.0


class WaitsError(TransientError):
    """A node waits until somebody else is done, or a person has acted. It has not failed."""


@contextmanager
def handed_over(
    spark: SparkSession,
    lake: Lake,
    names: Sequence[str],
    clock: Clock,
    *,
    what: str | None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[dict[str, Lease]]:
    """Hold the leases of some nodes while entered; streams that hold them are asked to let go.

    In:     what  who asks, for messages: "headrace apply"; None: no stream is asked, so a stream that runs keeps its nodes
    Out:    the leases, by node
    Raises: LeaseTakenError when somebody who lives still holds one after the patience; then none is held
    """
    with ExitStack() as stack:
        held: dict[str, Lease] = {}
        began = time.monotonic()
        while left := [name for name in names if name not in held]:
            for name in left:
                try:
                    held[name] = take_lease(spark, lake.lease(f"node/{name}"), f"Node '{name}'", clock)
                    stack.callback(held[name].release)
                except LeaseTakenError as refused:
                    if time.monotonic() - began >= _patience(refused, patience_seconds):
                        raise
                    if what is not None and not small_files.exists(lake.handover(name)):
                        _ask(lake, name, what, clock)
                        stack.callback(small_files.delete, lake.handover(name))
            if len(held) < len(names):
                time.sleep(RETRY_SECONDS)
        yield held


def _patience(refused: LeaseTakenError, patience_seconds: float) -> float:
    """How long to wait: the lease of a process that may be dead is waited for until it expires."""
    may_be_dead = isinstance(refused, LeaseNotExpiredError)
    return max(patience_seconds, EXPIRES_MS / 1000 + 2 * RETRY_SECONDS) if may_be_dead else patience_seconds


def _ask(lake: Lake, name: str, what: str, clock: Clock) -> None:
    who = f"{what} (process {os.getpid()} on {socket.gethostname()})"
    small_files.write_json(lake.handover(name), {"who": who, "at_ms": clock.now_ms()})


class HandoverWait:
    """A stream's wait for one node that it has handed over."""

    def __init__(self, lake: Lake, name: str, clock: Clock) -> None:
        """Nothing is waited for yet."""
        self._lake, self._name, self._clock = lake, name, clock
        self._request: dict[str, Any] | None = None
        self._since = 0.0

    @property
    def is_asked(self) -> bool:
        """Whether somebody asks for the node now."""
        return small_files.exists(self._lake.handover(self._name))

    def check(self) -> None:
        """Called before the stream takes the node's lease.

        Raises: WaitsError while somebody has asked for the node, and lives
        """
        request = small_files.read_json(self._lake.handover(self._name))
        if request != self._request:
            self._request, self._since = request, time.monotonic()
        if request is None:
            return
        lease = self._lake.lease(f"node/{self._name}")
        if (
            time.monotonic() - self._since < FORSAKEN_SECONDS
            or lease_taken_ms(lease, self._clock) is not None
        ):
            raise WaitsError(
                f"Node '{self._name}' is handed over to {request['who']}, and goes on afterwards."
            )

    def over(self) -> None:
        """Called once the stream holds the lease: a request that is still there was forsaken."""
        if self._request is not None:
            small_files.delete(self._lake.handover(self._name))
            self._request = None
