"""Detect stalled queries: there is work, and no commit came for longer than the query may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.streams.status.stream_status import StreamStatus

PATIENCE_SECONDS = 40.0  # without a commit although there is work; so a stall is reported within a minute
LEASE_PATIENCE_SECONDS = 90.0  # a lease that a lost machine has left expires after 60 s
FIRST_PATIENCE_SECONDS = 600.0  # the first micro-batch of a node reads its logs from the beginning


@dataclass
class _Seen:
    status: StreamStatus
    moved_at: float


class StallWatch:
    """Watches the progress of each query, and when it last changed. Times in seconds of one clock."""

    def __init__(self, *, began: float | None = None) -> None:
        """Nothing is known before the first statuses.

        In: began  when the run began; the time until its first poll shows how busy the machine is
        """
        self._seen: Mapping[str, _Seen] = {}
        self._looked_at = began
        self._look_seconds = 0.0  # between the last two looks

    def see(self, statuses: Sequence[StreamStatus], now: float) -> None:
        """Note the statuses of a poll."""
        known = self._seen
        self._look_seconds = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        self._seen = {
            s.asset: _Seen(s, now if _moves(s, known.get(s.asset)) else known[s.asset].moved_at)
            for s in statuses
        }

    def verdicts(self, now: float) -> dict[str, str | None]:
        """Judge each asset: what is wrong and what to do, in a few sentences; None: it advances."""
        unseen = 0.0 if self._looked_at is None else now - self._looked_at
        if unseen > max(PATIENCE_SECONDS, min(2 * self._look_seconds, FIRST_PATIENCE_SECONDS)):
            hung = (
                f"The run has not checked its queries for {unseen:.0f} s: it hangs, or the machine is overloaded. If this "
                "lasts, terminate the run: nothing is lost. To start a new run, switch the sensor off and on."
            )
            return dict.fromkeys(self._seen, hung)
        looked_at = min(now, self._looked_at or now)  # nothing is known about the time since
        return {asset: self._verdict(seen, looked_at - seen.moved_at) for asset, seen in self._seen.items()}

    def _verdict(self, seen: _Seen, still: float) -> str | None:
        status, error = seen.status, f" {seen.status.error}" if seen.status.error else ""
        times = f" {status.failures} times in a row" if status.failures > 1 else ""
        if status.state == "failed" and status.tried_again:
            then = "It is tried again automatically; the other queries run on."
            return f"The query has failed{times}. {then}{error} Fix the cause."
        if status.state == "failed":
            then = "stays stopped; the other queries run on."
            return f"The query has failed and {then}{error} Fix the cause, then start the run again."
        if status.state == "ended":
            return f"The query has ended.{error}"
        if status.state in ("stopped", "paused") or still <= self._patience(status):
            return None
        if status.state == "waiting":
            return f"The query has not started for {still:.0f} s.{error}"
        if status.state == "restarting":
            return f"The query has failed{times} and restarts automatically.{error} Fix the cause."
        waiting = f" {status.lag_records:,} records wait." if status.lag_records else ""
        return (
            f"The query has not committed for {still:.0f} s although there is work.{waiting}{error} Check Spark's memory "
            "and cores, and Kafka. If a micro-batch hangs, terminate the run: nothing is lost."
        )

    def _patience(self, status: StreamStatus) -> float:
        """Longer for a throttled node, after a slow micro-batch, and for the first micro-batch of a node."""
        if status.state == "waiting":
            return LEASE_PATIENCE_SECONDS
        if status.kind == "stream" and status.batches == 0:
            return FIRST_PATIENCE_SECONDS
        return max(PATIENCE_SECONDS, 2 * (status.batch_seconds or 0.0)) + status.throttle_seconds


def _moves(status: StreamStatus, before: _Seen | None) -> bool:
    """True if the query made progress since, or has nothing to do."""
    if before is None or _done(status) != _done(before.status):
        return True
    if status.state != "running" or status.error:
        return False
    return not (status.lag_records if status.kind == "log" else status.lag_seconds)


def _done(status: StreamStatus) -> tuple[int, ...]:
    """The counters that show progress; a log's ticks are commits, but no progress in Kafka."""
    return (status.rows_total,) if status.kind == "log" else (status.rows_total, status.batches)
