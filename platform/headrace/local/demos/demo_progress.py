"""The lines that the demo prints while it runs.

Law: a line is printed when the state of a log or query changes; one for all that change alike, if they are more than three.
A line of figures for all of them comes every minute. While something
is awaited, one more line comes every 30 s with the seconds that have passed; on a terminal a bar shows them instead.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.description import is_of_kafka, is_unnamed
from headrace.fold.fates import DEAD_LETTER, LATE, REPLAY
from headrace.nodes.descriptions.asset_names import STREAM, name_in, stream_name
from headrace.nodes.descriptions.topics import nodes_below, topics_of
from headrace.nodes.standing.emptiness import command_for
from headrace.settings import Settings, load_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dagster import AssetKey, DagsterInstance
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from headrace.description import Node

ELAPSED_EVERY_SECONDS = 30.0
SUMMARY_EVERY_SECONDS = 60.0
COUNTS = {"lag_records": "wait", "late": "late", "replays": "replays", "dead_letters": "dead letters"}
FATES_OF = {"late": LATE, "replays": REPLAY, "dead_letters": DEAD_LETTER}
EACH_MAX = 3  # assets of one look that have a line each
COMMANDS_MAX = 3  # of one figure in a line
OF_LOGS = ("replays", "dead_letters")  # a log counts these, and each of its readers does so, too
STOPPED = "the stream was stopped: switch the sensor keep_streams_running off and on, and it goes on"
NO_RUN = "no run yet: the sensor starts the stream within half a minute"


@dataclass(frozen=True)
class Standing:
    """Where the demo's stream stands.

    states   the state of each log and query that has reported, by its asset
    stopped  whether a person stopped the stream
    awaited  what is awaited, in words; None: nothing
    silent   the logs and queries that have not reported yet, if these are awaited
    summary  the figures of all of them, in one line; None: none has reported
    """

    states: Mapping[str, str] = field(default_factory=dict)
    stopped: bool = False
    awaited: str | None = None
    silent: tuple[str, ...] = ()
    summary: str | None = None


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
    reports = {key.to_user_string(): _observed(instance, key, newest[0].run_id) for key in keys}
    silent = tuple(name for name, figures in reports.items() if figures is None)
    figures = {name: each for name, each in reports.items() if each is not None}
    states = {name: _state(each) for name, each in figures.items()}
    awaited = f"starting: {', '.join(silent)}" if silent else None
    return Standing(states, awaited=awaited, silent=silent, summary=_summary(nodes, figures))


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
        self._summed_at = -SUMMARY_EVERY_SECONDS

    def show(self, now: Standing) -> None:
        """Print what has changed since the last call."""
        self._show_states(now.states)
        is_due = self._clock() - self._summed_at >= SUMMARY_EVERY_SECONDS
        if now.summary is not None and is_due and self._print("summary", now.summary):
            self._summed_at = self._clock()
        if now.stopped:
            self._print("stopped", STOPPED)
        else:
            self._shown.pop("stopped", None)
        if self._bar is not None:
            self._show_bar(self._bar, now)
        else:
            self._show_awaited(now)

    def _show_states(self, states: Mapping[str, str]) -> None:
        """Print the states that have changed; one line for all that have the same one now, if they are many."""
        changed: dict[str, list[str]] = defaultdict(list)
        for name, words in states.items():
            if self._shown.get(name) != words:
                changed[words].append(name)
                self._shown[name] = words
        for words, names in changed.items():
            many = f"{len(names)} of {len(states)} logs and queries: {words}"
            for line in [many] if len(names) > EACH_MAX else [f"{name}: {words}" for name in names]:
                self._line(line)

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
                f"{len(now.silent)} of {len(now.silent) + len(now.states)} have not reported"
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
        total = len(now.states) + len(now.silent) or None
        bar.update(self._task, description=now.awaited, completed=len(now.states), total=total)

    def _print(self, name: str, line: str) -> bool:
        """Print a line that differs from the one before of this name; True if it does."""
        if self._shown.get(name) == line:
            return False
        self._shown[name] = line
        self._line(line)
        return True

    def _line(self, line: str) -> None:
        self._console.print(f"{time.strftime('%H:%M:%S')}  {line}", soft_wrap=True, markup=False)


def _observed(instance: DagsterInstance, key: AssetKey, run_id: str) -> Mapping[str, Any] | None:
    """The figures that a run reported last of an asset; None: nothing yet."""
    records = instance.fetch_observations(key, limit=1).records
    if not records or records[0].run_id != run_id or records[0].asset_observation is None:
        return None
    return {name: each.value for name, each in records[0].asset_observation.metadata.items()}


def _state(figures: Mapping[str, Any]) -> str:
    """The state of a log or query; if it does not run, with its error."""
    state, error = str(figures.get("state", "reports")), figures.get("error")
    return f"{state}: {error}" if error and state != "running" else state


def _summary(nodes: Sequence[Node], reports: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The figures of all logs and queries in one line, with the commands that show the records. In: reports  by asset."""
    if not reports:
        return None
    running = sum(each.get("state") == "running" for each in reports.values())
    rate = sum(float(each.get("rows_per_second") or 0) for each in reports.values())
    counts = {figure: _counts(figure, nodes, reports) for figure in COUNTS}
    shown = [_counted(figure, by_asset, nodes) for figure, by_asset in counts.items() if by_asset]
    assets = len(topics_of(nodes)) + len(nodes)
    return f"{running} of {assets} run, {rate:,.0f} records a second" + "".join(f"; {each}" for each in shown)


def _counted(figure: str, by_asset: Mapping[str, int], nodes: Sequence[Node]) -> str:
    """A figure with the commands for the assets that count most of it, as `3 late (headrace records totals late)`."""
    most = sorted(by_asset, key=lambda asset: (-by_asset[asset], asset))
    commands = list(dict.fromkeys(_command(figure, asset, nodes) for asset in most))
    more = ", …" if len(commands) > COMMANDS_MAX else ""
    return f"{sum(by_asset.values()):,} {COUNTS[figure]} ({', '.join(commands[:COMMANDS_MAX])}{more})"


def _command(figure: str, asset: str, nodes: Sequence[Node]) -> str:
    """The command that shows the records that an asset counts; of those that wait, the place where they wait."""
    if figure not in FATES_OF:
        return "headrace status"
    if asset.startswith(f"{STREAM}/"):
        return command_for(name_in(asset), FATES_OF[figure])
    if FATES_OF[figure] == DEAD_LETTER:
        return f"headrace dead-letters {asset}"
    readers = nodes_below(topics_of(nodes)[name_in(asset)], nodes)
    reader = next(node.required_name for node in readers if not is_unnamed(node.required_name))
    return command_for(reader, FATES_OF[figure])


def _counts(figure: str, nodes: Sequence[Node], reports: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """A figure of each asset that has some. A record that a log and its readers count is the log's. A node adds its own.

    A log counts since its run began, and a node since its beginning. So a log has at least as many as each node that
    reads it alone.
    """
    numbers = {asset: int(each.get(figure) or 0) for asset, each in reports.items()}
    if figure not in OF_LOGS:
        return {asset: n for asset, n in numbers.items() if n}
    readers = {
        stream_name(node.required_name): _read_by(node)
        for node in nodes
        if stream_name(node.required_name) in numbers
    }
    of_logs = {topic: numbers.get(f"log/{topic}", 0) for topic in topics_of(nodes)}
    for topic, n in of_logs.items():
        least = min((numbers[asset] for asset, read in readers.items() if read == {topic}), default=0)
        of_logs[topic] = max(n, least)
    own = {asset: numbers[asset] - sum(of_logs[topic] for topic in read) for asset, read in readers.items()}
    counts = {**{f"log/{topic}": n for topic, n in of_logs.items()}, **own}
    return {asset: n for asset, n in counts.items() if n > 0}


def _read_by(node: Node) -> set[str]:
    """The topics of Kafka whose logs a node reads itself; a report does not count what its steps without a name refuse."""
    return {topic.name for topic in node.topics if is_of_kafka(topic)}
