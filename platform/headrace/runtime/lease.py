"""Leases: one writer for each log and node, and a second one is told who the first is.

A lease is a file `<epoch>.json`, created only if it does not exist. Whoever creates the next epoch holds the lease; a
holder that was overtaken notices before its next commit and stops.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.errors import TerminalError
from headrace.spark import files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.log.clock import Clock

EXPIRES_MS = 60_000
RENEWED_EVERY_MS = 10_000


class LeaseHeldError(TerminalError):
    """Another writer holds the lease."""


class LeaseLostError(TerminalError):
    """Another writer has taken the lease over."""


@dataclass
class Lease:
    """The right to write one log or node, until released or overtaken."""

    spark: SparkSession
    folder: str
    writer: str
    epoch: int
    clock: Clock
    renewed_ms: int

    def check(self) -> None:
        """Renew the lease when it is time.

        Raises: LeaseLostError when another writer has taken it over.
        """
        newest = _newest_epoch(self.spark, self.folder)
        if newest != self.epoch:
            raise LeaseLostError(
                f"{self.writer}: this writer's lease (epoch {self.epoch}) was taken over (epoch {newest}).",
                hint="Another run writes this asset now; this one stops without committing.",
            )
        now_ms = self.clock.now_ms()
        if now_ms - self.renewed_ms >= RENEWED_EVERY_MS:
            files.write_json(self.spark, _renewal(self.folder, self.epoch), {"renewed_ms": now_ms})
            self.renewed_ms = now_ms

    def release(self) -> None:
        """Give the lease back, so that the next writer need not wait."""
        files.write_json(self.spark, _renewal(self.folder, self.epoch), {"renewed_ms": 0})


def take_lease(spark: SparkSession, folder: str, writer: str, clock: Clock) -> Lease:
    """Become the one writer.

    In:     folder  where this writer's leases lie; `writer` names it in messages
    Raises: LeaseHeldError when another process holds it and is alive.
    """
    now_ms = clock.now_ms()
    epoch = _newest_epoch(spark, folder)
    if epoch:
        holder = files.read_json(spark, _claim(folder, epoch)) or {}
        renewal = files.read_json(spark, _renewal(folder, epoch)) or {}
        renewed_ms = renewal.get("renewed_ms", holder.get("taken_ms", 0))
        if _alive(holder, renewed_ms, now_ms):
            raise LeaseHeldError(
                f"{writer} is already being written by process {holder.get('pid')} on {holder.get('host')}.",
                detail=f"Its lease (epoch {epoch}) was last renewed {max(0, now_ms - renewed_ms) / 1000:.0f} s ago.",
                hint=f"Stop that run first; a lease left by a lost machine expires after {EXPIRES_MS // 1000} s.",
            )
    claim = {"host": socket.gethostname(), "pid": os.getpid(), "born": _born(os.getpid()), "taken_ms": now_ms}
    if not files.write_json(spark, _claim(folder, epoch + 1), claim, overwrite=False):
        raise LeaseHeldError(
            f"{writer}: another process took the lease at the same moment.", hint="Try again."
        )
    files.delete(spark, _claim(folder, epoch - 1))
    files.delete(spark, _renewal(folder, epoch - 1))
    return Lease(spark, folder, writer, epoch + 1, clock, now_ms)


def _alive(holder: dict[str, Any], renewed_ms: int, now_ms: int) -> bool:
    if renewed_ms == 0 or now_ms - renewed_ms > EXPIRES_MS:
        return False
    if holder.get("host") != socket.gethostname():
        return True
    # On one machine a dead holder is known at once: no waiting after a crash.
    return bool(_born(holder.get("pid", -1)) == holder.get("born") is not None)


def _born(pid: int) -> str | None:
    """When a process of this machine began, in its kernel's ticks; None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except OSError:
        return None if os.path.isdir("/proc/self") else _born_without_proc(pid)


def _born_without_proc(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return "alive"


def _newest_epoch(spark: SparkSession, folder: str) -> int:
    epochs = [int(name[:-11]) for name in files.names(spark, folder) if name.endswith(".claim.json")]
    return max(epochs, default=0)


def _claim(folder: str, epoch: int) -> str:
    return f"{folder}/{epoch}.claim.json"


def _renewal(folder: str, epoch: int) -> str:
    return f"{folder}/{epoch}.renewed.json"
