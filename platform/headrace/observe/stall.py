"""Stalled queries: behind, and without a commit for longer than they may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.streams.supervised import FAILURES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.streams.stream_runtime import StreamStatus

PATIENCE_SECONDS = 40.0  # without a commit although there is work; told within a minute
FIRST_PATIENCE_SECONDS = 600.0  # the first micro-batch of a node reads its logs from the beginning


@dataclass
class _Seen:
    status: StreamStatus
    moved_at: float


class StallWatch:
    """What each query has achieved, and since when it has achieved no more. Times in seconds of one clock."""

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS, *, began: float | None = None) -> None:
        """Nothing is known before the first statuses.

        In: began  when the run began: how long it takes to come to its first look says how busy the machine is
        """
        self._patience_seconds = patience_seconds
        self._seen: Mapping[str, _Seen] = {}
        self._looked_at = began
        self._look_seconds = 0.0  # between the last two looks

    def see(self, statuses: Sequence[StreamStatus], now: float) -> None:
        """Take in what a poll said."""
        known = self._seen
        self._look_seconds = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        self._seen = {
            s.asset: _Seen(s, now if _moves(s, known.get(s.asset)) else known[s.asset].moved_at)
            for s in statuses
        }

    def verdicts(self, now: float) -> dict[str, str | None]:
        """For each asset what is wrong and what to do, in one or two sentences; None: it advances."""
        unseen = 0.0 if self._looked_at is None else now - self._looked_at
        if unseen > max(self._patience_seconds, min(2 * self._look_seconds, FIRST_PATIENCE_SECONDS)):
            hung = (
                f"The run has not looked at its queries for {unseen:.0f} s: it hangs, or the machine is far too busy. "
                "If it stays so, terminate the run; nothing is lost, and the sensor starts another when it is switched off "
                "and on."
            )
            return dict.fromkeys(self._seen, hung)
        looked_at = min(now, self._looked_at or now)  # what has happened since is not known
        return {asset: self._verdict(seen, looked_at - seen.moved_at) for asset, seen in self._seen.items()}

    def _verdict(self, seen: _Seen, still: float) -> str | None:
        status, error = seen.status, f" {seen.status.error}" if seen.status.error else ""
        if status.state == "failed" and status.failures >= FAILURES_MAX:
            times = f"{status.failures} times in a row and is tried once a minute"
            return f"It has failed {times}; the others go on.{error} Mend the cause."
        if status.state == "failed":
            return f"It has failed and stays stopped; the others go on.{error} Mend that, then start the run anew."
        if status.state == "stopped" or still <= self._patience(status):
            return None
        if status.state == "restarting":
            return f"It has failed {status.failures} times in a row and starts again by itself; mend the cause.{error}"
        waiting = f" {status.lag_records:,} records wait." if status.lag_records else ""
        return (
            f"It has not committed for {still:.0f} s although there is work.{waiting}{error} Look at Spark's memory and "
            "cores and at Kafka; when a micro-batch hangs, terminate the run: nothing is lost."
        )

    def _patience(self, status: StreamStatus) -> float:
        """Longer for what is slow by itself: a throttle, a micro-batch like the one before, the first of a node."""
        if status.kind == "stream" and status.batches == 0:
            return FIRST_PATIENCE_SECONDS
        return max(self._patience_seconds, 2 * (status.batch_seconds or 0.0)) + status.throttle_seconds


def _moves(status: StreamStatus, before: _Seen | None) -> bool:
    """Whether it has done something since, or has nothing to do."""
    if before is None or _done(status) != _done(before.status):
        return True
    if status.state != "running" or status.error:
        return False
    return not (status.lag_records if status.kind == "log" else status.lag_seconds)


def _done(status: StreamStatus) -> tuple[int, ...]:
    """What it has achieved; a log's ticks are commits, but no progress in Kafka."""
    return (status.rows_total,) if status.kind == "log" else (status.rows_total, status.batches)
