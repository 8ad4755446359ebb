"""Report the progress of queries as events of their assets.

Law: one observation per asset and interval, whatever the number of micro-batches. A change of state is reported sooner, at
most four times per interval. Dagster's page shows the figures of the newest materialization in a table, and those of
observations as plots. So a materialization comes with an observation and, once a run has settled, each observation with a
materialization: table and plots show one moment, and the page says when the stream was last seen running. An event costs
SQLite 4 to 9 kB (see `benchmarks/RESULTS.md`), so the interval is short only while a run is young and someone is likely to
watch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from dagster import AssetMaterialization, AssetObservation, MetadataValue

from headrace.fold.fates import DEAD_LETTER
from headrace.nodes.descriptions.asset_names import LOG
from headrace.nodes.standing.emptiness import command_for
from headrace.observe.figures import FATES, numbers
from headrace.orchestration.events.carry import materialize
from headrace.orchestration.events.completed import Tries
from headrace.orchestration.keys import DATA_VERSION_TAG, key_of
from headrace.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dagster import AssetCheckKey, AssetExecutionContext, AssetKey

    from headrace.streams.status.stream_status import StreamStatus


@dataclass(frozen=True)
class Cadence:
    """The time between two events of an asset, in seconds: at first, and once the run has settled."""

    first: float
    settled: float
    settles_after: float = 0.0

    def interval(self, age: float) -> float:
        """The time between two events of one asset in a run of this age."""
        return self.first if age < self.settles_after else self.settled


@dataclass
class Throttle:
    """Decides when the next event of each asset is due; `now` is in seconds since the run began.

    Law: only what Dagster has taken counts as reported.
    """

    cadence: Cadence
    _last: dict[str, tuple[float, str]] = field(default_factory=dict)

    def due(self, asset: str, state: str, now: float) -> bool:
        """True if an event is due now."""
        spoken_at, spoken_state = self._last.get(asset, (None, None))
        if spoken_at is not None:
            interval = self.cadence.interval(now)
            if now - spoken_at < (interval if state == spoken_state else interval / 4):
                return False
        return True

    def note(self, asset: str, state: str, now: float) -> None:
        """Note that an event was reported."""
        self._last[asset] = (now, state)


class ProgressReporter:
    """Turns the statuses of a poll into log lines, observations and, more rarely, materializations."""

    def __init__(
        self,
        context: AssetExecutionContext,
        versions: Mapping[AssetKey, str],
        checks: Mapping[AssetKey, Sequence[AssetCheckKey]],
        *,
        observe: Cadence,
        materialize: Cadence,
    ) -> None:
        """Report nothing yet.

        In: versions  data versions by asset; they change with the description, not with new rows
            checks    by asset, the checks whose verdicts a materialization keeps
        """
        self._context, self._versions, self._checks = context, versions, checks
        self._observe, self._materialize = Throttle(observe), Throttle(materialize)
        self._settles_after = observe.settles_after
        self._tries: dict[str, Tries] = {}
        self._states: dict[str, tuple[str, int, tuple[str, ...]]] = {}
        self._price_per_hour = Settings().price_per_hour

    def report(self, statuses: Sequence[StreamStatus], *, now: float, wall: float) -> None:
        """Report the events that are due. Never raises.

        In: now   seconds since the run began
            wall  seconds since 1970
        """
        for status in statuses:
            self._log_change(status)
            tries = self._tries.setdefault(status.asset, self._new_tries(status))
            tries.report(partial(self._report_due, status, now, wall))

    def farewell(self, statuses: Sequence[StreamStatus], *, wall: float) -> None:
        """Report the last state of each asset, so that its page does not show a stopped stream as running. Never raises."""
        for status in statuses:
            self._log_change(status)
            self._new_tries(status).report(partial(self._report_last, status, wall))

    def _new_tries(self, status: StreamStatus) -> Tries:
        return Tries(self._context, f"{status.asset}: its figures")

    def _report_due(self, status: StreamStatus, now: float, wall: float) -> None:
        asset = status.asset
        is_due = self._observe.due(asset, status.state, now)
        runs, settled = status.state == "running" and status.batches > 0, now >= self._settles_after
        has_grown = runs and self._materialize.due(asset, "running", now)
        grows = has_grown or (runs and is_due and settled)
        if is_due or grows:
            self._observe_now(status, wall)
        if is_due:
            self._observe.note(asset, status.state, now)
        if grows:
            self._materialize_now(status, wall)
        if has_grown:
            self._materialize.note(asset, "running", now)

    def _report_last(self, status: StreamStatus, wall: float) -> None:
        self._observe_now(status, wall)
        if status.state == "stopped" and status.batches:
            self._materialize_now(status, wall)

    def _observe_now(self, status: StreamStatus, wall: float) -> None:
        key = key_of(status.asset)
        self._context.log_event(AssetObservation(key, metadata=figures(status, wall, self._price_per_hour)))

    def _materialize_now(self, status: StreamStatus, wall: float) -> None:
        key = key_of(status.asset)
        tags = {DATA_VERSION_TAG: self._versions[key]}
        event = AssetMaterialization(key, metadata=figures(status, wall, self._price_per_hour), tags=tags)
        materialize(self._context, event, self._checks.get(key, ()))

    def _log_change(self, status: StreamStatus) -> None:
        before, seen = self._states.get(status.asset), (status.state, status.failures, status.incomplete)
        if seen == before:
            return
        self._states[status.asset] = seen
        log = self._context.log
        if status.state == "failed":
            then = "is tried again automatically" if status.tried_again else "stays stopped"
            log.error(f"{status.asset} has failed and {then}; the other queries run on. {status.error}")
        elif status.error and status.state == "restarting":
            log.warning(f"{status.asset} restarts after failure {status.failures}: {status.error}")
        elif status.state == "ended":
            log.error(f"{status.asset} has ended. {status.error}")
        elif status.state == "waiting":
            log.warning(f"{status.asset}: {status.error}")
        else:
            waits = (
                f", and waits until {', '.join(status.incomplete)} is complete" if status.incomplete else ""
            )
            log.info(f"{status.asset} is {status.state}{waits}.")


def _commands(status: StreamStatus) -> Iterator[str]:
    """The commands that show the records behind the counts of a query; of a log those of its dead letters."""
    for fate in (fate for fate in FATES if status.fates.get(fate)):
        if status.kind != LOG:
            yield command_for(status.name, fate)
        elif fate == DEAD_LETTER:
            yield f"headrace dead-letters {status.asset}"


def figures(status: StreamStatus, wall: float, price_per_hour: float | None = None) -> dict[str, Any]:
    """The metadata that the asset's page shows and plots; unknown figures are left out."""
    shown: dict[str, Any] = {
        "state": status.state,
        **numbers(status, wall, price_per_hour),
        "error": status.error or status.last_error,
        "waits_for": "\n".join(map(str, status.waits)) or None,
        "records_shown_by": "\n".join(_commands(status)) or None,
    }
    if "stream_time_seconds" in shown:
        shown["stream_time"] = MetadataValue.timestamp(shown.pop("stream_time_seconds"))
    return {name: value for name, value in shown.items() if value is not None}
