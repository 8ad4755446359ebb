"""Leases: one writer for each log and node, and a second one is told who the first is.

A lease is a file `<epoch>.claim.json`, created only if it does not exist. The process that creates the next epoch holds the
lease. A holder that was overtaken notices before a commit of a log, or before outputs of a node, and stops; it asks at most
five times between two renewals. The fence stops what it commits before that.
A background thread renews the lease every 10 s, also while there is nothing to commit. On one machine a process holds its
lease for as long as it lives, whatever the clock says: nobody overtakes a process that is only slow. The lease of a killed
process is free as soon as its JVM has also ended, because the JVM may still be committing. A lease from another machine is
free when it was not renewed for 60 s, or for the time in its claim. `StreamSettings.lease_seconds` sets that time; a sixth
of it passes between renewals.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lake.clocks import APART_MS, boot_seconds, holder_is_ahead, require_clocks
from headrace.lake.format import require_format
from headrace.settings.streams import StreamSettings
from headrace.spark.jvm import java_class
from headrace.spark.on_demand import is_started
from headrace.writing.leases.processes import born, is_gone, process_space, runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from headrace.log.clock import Clock

logger = structlog.get_logger(__name__)
EXPIRES_MS = 60_000
RENEWED_EVERY_MS = 10_000
ORPHAN_SECONDS = 30.0  # how long the JVM of a killed process may take to end


@dataclass(frozen=True)
class Holder:
    """The holder of a lease, from the lease's files.

    process     the process, as messages name it
    epoch       the epoch of the lease
    taken_ms    when the process took the lease, in ms since 1970
    renewed_ms  when it last renewed the lease; the same as `taken_ms` if it never did
    expires_in_seconds  when others may take the lease unless it is renewed; None: the process lives on this machine
    """

    process: str
    epoch: int
    taken_ms: int
    renewed_ms: int
    expires_in_seconds: float | None


class LeaseTakenError(TerminalError):
    """Another writer holds the lease; `holder` says who, and is None if that was not looked up."""

    def __init__(
        self,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        writer: str = "It",
        holder: Holder | None = None,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.writer = writer
        self.holder = holder


class LeaseNotExpiredError(LeaseTakenError):
    """A process on another machine or in another container holds the lease. If it is dead, the lease expires in 60 s."""


class LeaseLostError(TerminalError):
    """Another writer has taken the lease over."""


@dataclass
class Lease:
    """The right to write one log or node, until released or overtaken."""

    folder: str
    writer: str
    epoch: int
    clock: Clock
    renewed_ms: int
    renewed_every_ms: int = RENEWED_EVERY_MS
    _renewed_at: int = field(init=False)  # by the clock that nobody sets
    _asked_at: float = -math.inf
    _released: threading.Event = field(default_factory=threading.Event)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._renewed_at = self.clock.steady_ms()

    def check_now_and_then(self) -> None:
        """The same for commits, by a look that may be a fifth of the time between renewals old: a lease lives much longer.

        Raises: as `check`
        """
        if self._released.is_set() or boot_seconds() - self._asked_at > self.renewed_every_ms / 5_000:
            self.check()

    def check(self) -> None:
        """Renew the lease when it is time.

        Raises: LeaseLostError when another writer has taken it over, or when it was given back.
        """
        with self._writing:
            # Most checks ask for one file, the claim of the next epoch. Two epochs later that file is deleted again, so each
            # renewal lists the folder. The time is read first: a process that is paused after that lists the folder again.
            asked_at, now_ms, steady_ms = boot_seconds(), self.clock.now_ms(), self.clock.steady_ms()
            # By the wall clock alone a renewal from the future would stand until then, after that clock was set right.
            passed_ms = max(now_ms - self.renewed_ms, steady_ms - self._renewed_at)
            is_due = passed_ms >= self.renewed_every_ms
            newest = _newest_epoch(self.folder) if is_due else self._next_epoch()
            if newest != self.epoch or self._released.is_set():
                lost = f"was taken over (epoch {newest})" if newest != self.epoch else "was given back"
                raise LeaseLostError(
                    f"{self.writer}: this writer's lease (epoch {self.epoch}) {lost}.",
                    hint="Another run may write this asset now; this one stops without committing.",
                )
            if is_due:
                small_files.write_json(_renewal(self.folder, self.epoch), {"renewed_ms": now_ms})
                self.renewed_ms, self._renewed_at = now_ms, steady_ms
            self._asked_at = asked_at

    def _next_epoch(self) -> int:
        """The epoch after this one, if it is taken; else this one."""
        return self.epoch + (small_files.read_bytes(_claim(self.folder, self.epoch + 1)) is not None)

    def release(self) -> None:
        """Give the lease back, so that the next writer need not wait."""
        self._released.set()
        with _HELD_LOCK:
            if _HELD.get(self.folder) is self:
                del _HELD[self.folder]
        with self._writing:
            small_files.write_json(_renewal(self.folder, self.epoch), {"renewed_ms": 0})

    def keep(self) -> Lease:
        """Renew the lease in the background, until it is released or overtaken."""
        threading.Thread(target=self._keep, daemon=True, name=f"lease of {self.writer}").start()
        return self

    def _keep(self) -> None:
        while not self._released.wait(self.renewed_every_ms / 1000):
            try:
                self.check()
            except LeaseLostError:
                return  # the next commit finds out, and stops
            except Exception as error:
                logger.warning("lease not renewed, will be tried again", writer=self.writer, error=str(error))


_HELD: dict[str, Lease] = {}  # of this process, by folder
_HELD_LOCK = threading.Lock()


def take_lease(
    spark: SparkSession, folder: str, writer: str, clock: Clock, *, orphan_seconds: float | None = None
) -> Lease:
    """Become the one writer, and stay it until the lease is released.

    In:     folder          where this writer's leases lie; `writer` names it in messages
            orphan_seconds  how long to wait for the JVM of a killed process to end; None: `ORPHAN_SECONDS`
    Raises: LeaseTakenError when another process holds it and is alive; TerminalError when this version may not write the
            lake (see `headrace.lake.format`); ClocksApartError when this clock, or that of the holder, is wrong
    """
    root, is_of_lake, _ = folder.rpartition("/leases/")
    if is_of_lake:
        require_format(root)
        require_clocks(root)
    epoch = _newest_epoch(folder)
    if epoch:
        _require_free(
            folder, epoch, writer, clock, ORPHAN_SECONDS if orphan_seconds is None else orphan_seconds
        )
    now_ms = clock.now_ms()
    # Without a JVM this process does all the work. One that starts later writes files alone, and never a commit.
    started = is_started(spark)
    spark_pid = java_class(spark, "java.lang.ProcessHandle").current().pid() if started else os.getpid()
    expires_ms, renewed_every_ms = _pace()
    claim = {
        "host": socket.gethostname(),
        "space": process_space(),
        "pid": os.getpid(),
        "born": born(os.getpid()),
        "spark_pid": spark_pid,
        "spark_born": born(spark_pid),
        "taken_ms": now_ms,
        "expires_ms": expires_ms,
    }
    with _HELD_LOCK:
        if not small_files.write_json(_claim(folder, epoch + 1), claim, overwrite=False):
            raise LeaseNotExpiredError(
                f"{writer}: another process took the lease at the same moment.",
                hint="Try again.",
                writer=writer,
            )
        lease = _HELD[folder] = Lease(folder, writer, epoch + 1, clock, now_ms, renewed_every_ms)
    try:
        small_files.delete_files([_claim(folder, epoch - 1), _renewal(folder, epoch - 1)])
    except BaseException:
        lease.release()
        raise
    return lease.keep()


def require_leases(leases: Iterable[Lease]) -> None:
    """Raises: LeaseLostError when one of them was taken over, or given back."""
    for lease in leases:
        lease.check()


def lease_taken_ms(folder: str, clock: Clock) -> int | None:
    """When whoever holds the lease took it, in ms since 1970; None: nobody holds it, or its holder is gone."""
    epoch = _newest_epoch(folder)
    if not epoch:
        return None
    holder, silent_ms = _holder(folder, epoch, clock)
    held = bool(holder) and silent_ms is not None and _alive(holder, silent_ms)
    return int(holder["taken_ms"]) if held else None


def _holder(folder: str, epoch: int, clock: Clock) -> tuple[dict[str, Any], int | None]:
    """The claim of a lease, and for how long it was not renewed, in ms; None: it was given back."""
    holder = small_files.read_json(_claim(folder, epoch)) or {}
    renewal = small_files.read_json(_renewal(folder, epoch)) or {}
    renewed_ms = renewal.get("renewed_ms", holder.get("taken_ms", 0))
    return holder, clock.now_ms() - renewed_ms if renewed_ms else None


def _require_free(folder: str, epoch: int, writer: str, clock: Clock, orphan_seconds: float) -> None:
    holder, silent_ms = _holder(folder, epoch, clock)
    if silent_ms is None or _left_by_this_process(folder, holder):
        return
    visible = _ours_to_see(holder)
    if not visible and silent_ms < -APART_MS:
        raise holder_is_ahead(writer, str(holder.get("host")), -silent_ms)
    if _alive(holder, silent_ms):
        error = LeaseTakenError if visible else LeaseNotExpiredError
        renewed_ms = clock.now_ms() - silent_ms
        raise error(
            f"{writer} is already being written by process {holder.get('pid')} on {holder.get('host')}.",
            detail=f"Its lease (epoch {epoch}) was last renewed {max(0, silent_ms) / 1000:.0f} s ago.",
            hint=f"Stop that run first; a lease left by a lost machine expires after {_expires_ms(holder) // 1000} s.",
            writer=writer,
            holder=_holder_of(
                holder, epoch, renewed_ms, None if visible else (_expires_ms(holder) - silent_ms) / 1000
            ),
        )
    if visible and not _orphan_ends(holder, orphan_seconds):
        raise LeaseTakenError(
            f"{writer} was being written by process {holder.get('pid')} on {holder.get('host')}, which is dead; "
            f"its Spark, process {holder.get('spark_pid')}, is not.",
            hint="Stop that process first: it may still be committing.",
            writer=writer,
            holder=_holder_of(
                {**holder, "pid": holder.get("spark_pid")}, epoch, clock.now_ms() - silent_ms, None
            ),
        )


def _holder_of(
    claim: Mapping[str, Any], epoch: int, renewed_ms: int, expires_in_seconds: float | None
) -> Holder:
    process = f"process {claim.get('pid')} on {claim.get('host')}"
    return Holder(process, epoch, int(claim.get("taken_ms", renewed_ms)), renewed_ms, expires_in_seconds)


def _alive(holder: dict[str, Any], silent_ms: int) -> bool:
    if _ours_to_see(holder):
        return runs(holder["pid"], holder["born"])
    if process_space() is None and holder.get("host") == socket.gethostname() and is_gone(holder["pid"]):
        return False
    return silent_ms <= _expires_ms(holder)


def _expires_ms(holder: Mapping[str, Any]) -> int:
    """After which silence a lease is free, as its holder has claimed it."""
    return int(holder.get("expires_ms", EXPIRES_MS))


def _pace() -> tuple[int, int]:
    """After which silence a lease of this process is free, and how often it is renewed, in ms."""
    settings = StreamSettings()
    if "lease_seconds" not in settings.model_fields_set:
        return EXPIRES_MS, RENEWED_EVERY_MS
    expires_ms = round(settings.lease_seconds * 1000)
    return expires_ms, expires_ms // 6


def _left_by_this_process(folder: str, holder: dict[str, Any]) -> bool:
    """True if this very process took the lease and gave it up, but could not write that (a full disk)."""
    mine = _ours_to_see(holder) and (holder["pid"], holder["born"]) == (os.getpid(), born(os.getpid()))
    with _HELD_LOCK:
        return mine and folder not in _HELD


def _ours_to_see(holder: dict[str, Any]) -> bool:
    """Whether the holder's process ids mean something here: not those of another machine or container."""
    here = process_space()
    return here is not None and (holder.get("host"), holder.get("space")) == (socket.gethostname(), here)


def _orphan_ends(holder: dict[str, Any], patience_seconds: float) -> bool:
    deadline = time.monotonic() + patience_seconds
    while runs(holder["spark_pid"], holder["spark_born"]):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _newest_epoch(folder: str) -> int:
    epochs = [int(name[:-11]) for name in small_files.names(folder) if name.endswith(".claim.json")]
    return max(epochs, default=0)


def _claim(folder: str, epoch: int) -> str:
    return f"{folder}/{epoch}.claim.json"


def _renewal(folder: str, epoch: int) -> str:
    return f"{folder}/{epoch}.renewed.json"
