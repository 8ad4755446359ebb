"""The lines that the demo prints while it runs.

Law: a line is printed when it has changed. While something is awaited, one more line comes every 30 s with the seconds that
have passed; on a terminal a bar shows them instead.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.nodes.topics import topics_of
from headrace.settings import Settings, load_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from dagster import AssetKey, DagsterInstance, MetadataValue
    from rich.console import Console
    from rich.progress import Progress, TaskID

ELAPSED_EVERY_SECONDS = 30.0
STOPPED = "the stream was stopped: switch the sensor keep_streams_running off and on, and it goes on"
NO_RUN = "no run yet: the sensor starts the stream within half a minute"


@dataclass(frozen=True)
class Standing:
    """Where the demo's stream stands.

    said     the last words of each log and query that has reported, by its asset
    stopped  whether a person stopped the stream
    awaited  what is awaited, in words; None: nothing
    silent   the logs and queries that have not reported yet, if these are awaited
    """

    said: Mapping[str, str] = field(default_factory=dict)
    stopped: bool = False
    awaited: str | None = None
    silent: tuple[str, ...] = ()


def standing(instance: DagsterInstance) -> Standing:
    """Where the stream stands, by what Dagster has recorded."""
    from dagster import DagsterRunStatus, RunsFilter

    from headrace.orchestration.keys import SHUTDOWN_TAG, STREAM_TAG, log_key, stream_key

    newest = instance.get_runs(RunsFilter(tags={STREAM_TAG: "streams"}), limit=1)
    if newest and newest[0].status is DagsterRunStatus.CANCELED and SHUTDOWN_TAG not in newest[0].tags:
        return Standing(stopped=True)
    if not newest or newest[0].is_finished:
        return Standing(awaited=NO_RUN)
    nodes = load_pipeline(Settings().pipeline)
    keys = [*map(log_key, topics_of(nodes).values()), *map(stream_key, nodes)]
    told = {key.to_user_string(): _observed(instance, key) for key in keys}
    silent = tuple(name for name, words in told.items() if words is None)
    said = {name: words for name, words in told.items() if words is not None}
    return Standing(said, awaited=f"starting: {', '.join(silent)}" if silent else None, silent=silent)


class ShownProgress:
    """Prints how a stream stands, each time that it is told."""

    def __init__(
        self, console: Console, bar: Progress | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """In: bar  shows what is awaited, in place of lines; None: there is no terminal."""
        self._console, self._bar, self._clock = console, bar, clock
        self._shown: dict[str, str] = {}
        self._task: TaskID | None = None
        self._since = self._spoke_at = 0.0

    def show(self, now: Standing) -> None:
        """Print what has changed since the last call."""
        for name, words in now.said.items():
            self._print(name, f"{name}: {words}")
        if now.stopped:
            self._print("stopped", STOPPED)
        else:
            self._shown.pop("stopped", None)
        if self._bar is not None:
            self._show_bar(self._bar, now)
        else:
            self._show_awaited(now)

    def _show_awaited(self, now: Standing) -> None:
        at = self._clock()
        if now.awaited is None:
            self._shown.pop("awaited", None)
            return
        if "awaited" not in self._shown:
            self._since = at
        if self._print("awaited", now.awaited):
            self._spoke_at = at
        elif at - self._spoke_at >= ELAPSED_EVERY_SECONDS:
            self._spoke_at = at
            left = (
                f"{len(now.silent)} of {len(now.silent) + len(now.said)} have not reported"
                if now.silent
                else "no run"
            )
            self._line(f"after {at - self._since:.0f} s: {left} yet")

    def _show_bar(self, bar: Progress, now: Standing) -> None:
        if self._task is not None and now.awaited is None:
            bar.remove_task(self._task)
            self._task = None
        if now.awaited is None:
            return
        if self._task is None:
            self._task = bar.add_task(now.awaited)
        total = len(now.said) + len(now.silent) or None
        bar.update(self._task, description=now.awaited, completed=len(now.said), total=total)

    def _print(self, name: str, line: str) -> bool:
        """Print a line that differs from the one before of this name; True if it does."""
        if self._shown.get(name) == line:
            return False
        self._shown[name] = line
        self._line(line)
        return True

    def _line(self, line: str) -> None:
        self._console.print(f"{time.strftime('%H:%M:%S')}  {line}", soft_wrap=True)


def _observed(instance: DagsterInstance, key: AssetKey) -> str | None:
    """The last words of the asset; None: nothing yet."""
    records = instance.fetch_observations(key, limit=1).records
    if not records or records[0].asset_observation is None:
        return None
    metadata = records[0].asset_observation.metadata
    shown = ("state", "rows_per_second", "lag_records", "stream_time", "late", "replays", "dead_letters")
    return "  ".join(f"{n} {_plain(metadata[n])}" for n in shown if n in metadata)


def _plain(value: MetadataValue[Any]) -> str:
    """A time as people read it, everything else as it is."""
    from dagster import TimestampMetadataValue

    if isinstance(value, TimestampMetadataValue):
        return f"{dt.datetime.fromtimestamp(value.value, dt.UTC):%H:%M:%S}"
    return str(value.value)
