"""Progress of the queries as events of their assets.

Law: one observation per asset and interval, whatever the number of micro-batches; a change of state may come
a little sooner, at most four times an interval.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dagster import AssetKey, AssetMaterialization, AssetObservation, MetadataValue

from headrace.orchestration.carry import materialize
from headrace.orchestration.keys import DATA_VERSION_TAG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagster import AssetCheckKey, AssetExecutionContext

    from headrace.runtime.stream import StreamStatus

FATES = {
    "late": "late",
    "replay": "replays",
    "dead_letter": "dead_letters",
    "filtered": "filtered",
    "tombstone": "tombstones",
}


@dataclass
class Throttle:
    """When each asset may speak again. `interval` in seconds; `now` from a monotonic clock."""

    interval: float
    _last: dict[str, tuple[float, str]] = field(default_factory=dict)

    def due(self, asset: str, state: str, now: float) -> bool:
        """Whether to speak now; taken as spoken when true."""
        spoken_at, spoken_state = self._last.get(asset, (None, None))
        if spoken_at is not None:
            wait = self.interval if state == spoken_state else self.interval / 4
            if now - spoken_at < wait:
                return False
        self._last[asset] = (now, state)
        return True


class ProgressReporter:
    """Turns what `poll` says into log lines, observations and, more rarely, materializations."""

    def __init__(
        self,
        context: AssetExecutionContext,
        versions: Mapping[AssetKey, str],
        checks: Mapping[AssetKey, Sequence[AssetCheckKey]],
        *,
        observe_seconds: float,
        materialize_seconds: float,
    ) -> None:
        """Say nothing yet.

        In: versions  data versions by asset: they change with the description, not with new rows
            checks    by asset, those whose verdicts outlive a materialization
        """
        self._context, self._versions, self._checks = context, versions, checks
        self._observe, self._materialize = Throttle(observe_seconds), Throttle(materialize_seconds)
        self._states: dict[str, tuple[str, int]] = {}

    def report(self, statuses: Sequence[StreamStatus], *, now: float, wall: float) -> None:
        """Say what is due.

        In: now   monotonic seconds
            wall  seconds since 1970
        """
        for status in statuses:
            self._log_change(status)
            if self._observe.due(status.asset, status.state, now):
                self._observe_now(status, wall)
            if status.state == "running" and self._materialize.due(status.asset, "running", now):
                self._materialize_now(status)

    def farewell(self, statuses: Sequence[StreamStatus], *, wall: float) -> None:
        """One last observation of each asset, so that its page does not call an ended stream running."""
        for status in statuses:
            self._log_change(status)
            self._observe_now(status, wall)

    def _observe_now(self, status: StreamStatus, wall: float) -> None:
        key = AssetKey.from_user_string(status.asset)
        self._context.log_event(AssetObservation(key, metadata=figures(status, wall)))

    def _materialize_now(self, status: StreamStatus) -> None:
        key = AssetKey.from_user_string(status.asset)
        tags = {DATA_VERSION_TAG: self._versions[key]}
        metadata = {"rows in this run": status.rows_total, "commits": status.batches}
        event = AssetMaterialization(key, metadata=metadata, tags=tags)
        materialize(self._context, event, self._checks.get(key, ()))

    def _log_change(self, status: StreamStatus) -> None:
        before, seen = self._states.get(status.asset), (status.state, status.failures)
        if seen == before:
            return
        self._states[status.asset] = seen
        log = self._context.log
        if status.state == "failed":
            log.error(f"{status.asset} has failed and stays stopped; the others go on. {status.error}")
        elif status.error and status.state == "restarting":
            log.warning(f"{status.asset} restarts after failure {status.failures}: {status.error}")
        else:
            log.info(f"{status.asset} is {status.state}.")


def _lag_seconds(status: StreamStatus) -> float | None:
    unknown = status.lag_seconds is None or status.batches == 0  # before its first commit nothing is behind
    return None if unknown else round(float(status.lag_seconds or 0), 1)


def figures(status: StreamStatus, wall: float) -> dict[str, Any]:
    """What the asset's page shows and plots; what is not known is left out."""
    shown: dict[str, Any] = {
        "state": status.state,
        "rows_per_second": round(float(status.rows_per_second), 1),
        "rows_total": status.rows_total,
        "lag_records": status.lag_records,
        "lag_seconds": _lag_seconds(status),
        **{name: status.fates.get(fate) for fate, name in FATES.items()},
        "failures": status.failures,
        "error": status.error,
    }
    if status.stream_time_ms is not None:
        shown["stream_time"] = MetadataValue.timestamp(status.stream_time_ms / 1000)
        shown["stream_time_behind_seconds"] = round(wall - status.stream_time_ms / 1000, 1)
    return {name: value for name, value in shown.items() if value is not None}
