"""The lines that the demo's terminal shows while it runs; a stand-in for each state that a stream's run can be in."""

from __future__ import annotations

import io
import re

import dagster as dg
import pytest
from rich.console import Console

import headrace as hr
from headrace.local.demos.demo_progress import (
    NO_RUN,
    STOPPED,
    ShownProgress,
    Standing,
    _state,
    _summary,
    standing,
)
from headrace.observe.progress_bar import progress_bar
from headrace.orchestration.keys import SHUTDOWN_TAG, STREAM_TAG

pytestmark = [pytest.mark.fast, pytest.mark.dagster]


def found(status: dg.DagsterRunStatus | None, **tags: str) -> Standing:
    """How the stream stands when its newest run is in this state; None: there was none."""
    with dg.DagsterInstance.ephemeral() as instance:
        if status is not None:
            run = dg.DagsterRun("streams", status=status, tags={STREAM_TAG: "streams", **tags})
            instance.add_run(run)
        return standing(instance)


def test_a_stream_that_a_person_stopped_is_not_said_to_start_by_itself() -> None:
    assert found(dg.DagsterRunStatus.CANCELED) == Standing(stopped=True)


@pytest.mark.parametrize("status", [None, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS])
def test_one_that_the_sensor_starts_is_announced(status: dg.DagsterRunStatus | None) -> None:
    assert found(status) == Standing(awaited=NO_RUN)


def test_one_that_went_down_with_the_demo_is_announced_too() -> None:
    assert found(dg.DagsterRunStatus.CANCELED, **{SHUTDOWN_TAG: "demo"}) == Standing(awaited=NO_RUN)


def test_what_has_not_spoken_yet_is_named_on_one_line() -> None:
    now = found(dg.DagsterRunStatus.STARTED)
    assert (now.awaited or "").startswith("starting: log/")
    assert (now.awaited or "").count("stream/") == 4
    assert len(set(now.silent)) == len(now.silent) > 4


class Screen:
    """A console and a clock that moves ten seconds with each look."""

    def __init__(self, *, terminal: bool = False) -> None:
        self.file, self.now = io.StringIO(), 0.0
        self.console = Console(file=self.file, width=200, force_terminal=terminal)
        self.shown = ShownProgress(
            self.console, progress_bar(self.console) if terminal else None, clock=lambda: self.now
        )

    def looks(self, *standings: Standing) -> list[str]:
        """The lines that are printed, without colours and the time of day."""
        begun = len(self.file.getvalue())
        for each in standings:
            self.shown.show(each)
            self.now += 10
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.file.getvalue()[begun:])
        return re.findall(r"\d\d:\d\d:\d\d  (.*)", plain)


BOTH = Standing(awaited="starting: log/a, stream/b", silent=("log/a", "stream/b"))
ONE = Standing({"log/a": "state running"}, awaited="starting: stream/b", silent=("stream/b",))


def test_a_line_is_printed_when_something_has_changed_and_every_thirty_seconds() -> None:
    screen = Screen()
    assert screen.looks(Standing(awaited=NO_RUN), Standing(awaited=NO_RUN)) == [NO_RUN]
    assert screen.looks(BOTH, BOTH, BOTH) == ["starting: log/a, stream/b"]
    assert screen.looks(BOTH, BOTH, BOTH) == ["after 50 s: 2 of 2 have not reported yet"]
    assert screen.looks(ONE, ONE, ONE) == ["log/a: state running", "starting: stream/b"]
    assert screen.looks(ONE, ONE, ONE, ONE) == [
        "after 110 s: 1 of 2 have not reported yet",
        "after 140 s: 1 of 2 have not reported yet",
    ]
    runs = Standing({"log/a": "state running", "stream/b": "state running"})
    assert screen.looks(*[runs] * 9) == ["stream/b: state running"]
    assert screen.looks(*[Standing(stopped=True)] * 9) == [STOPPED]
    assert screen.looks(Standing(awaited=NO_RUN), *[Standing(stopped=True)] * 2) == [NO_RUN, STOPPED]
    assert screen.looks(*[Standing(awaited=NO_RUN)] * 4) == [NO_RUN, "after 30 s: no run yet"]


def test_figures_that_change_are_one_line_a_minute() -> None:
    screen = Screen()
    states = {"log/a": "running", "stream/b": "running"}
    looks = [Standing(states, summary=f"2 of 2 run, {rate} records a second") for rate in range(18)]
    assert screen.looks(*looks) == [  # before: a line for each asset whenever a figure changed
        "log/a: running",
        "stream/b: running",
        "2 of 2 run, 0 records a second",
        "2 of 2 run, 6 records a second",
        "2 of 2 run, 12 records a second",
    ]
    failed = Standing(states | {"stream/b": "failed"}, summary="1 of 2 run, 0 records a second")
    assert screen.looks(failed) == ["stream/b: failed", "1 of 2 run, 0 records a second"]


def test_a_query_that_does_not_run_says_why() -> None:
    unset = "PostgresSink 't': the environment variable HEADRACE_POSTGRES_DSN[x] is not set."
    assert _state({"state": "restarting", "error": unset}) == f"restarting: {unset}"  # before: restarting
    assert _state({"state": "running", "error": unset}) == "running"
    assert Screen().looks(Standing({"stream/b": f"failed: {unset}"})) == [f"stream/b: failed: {unset}"]


def test_the_summary_adds_the_figures_of_all_assets() -> None:
    a = hr.Topic("a", key="id STRING", value="n INT")
    b = a.group_by("id").aggregate(n=hr.count()).named("b")
    reports = {
        "log/a": {"state": "running", "rows_per_second": 12.4, "lag_records": 3, "dead_letters": 1},
        "stream/b_stream": {"state": "failed", "rows_per_second": 30.0, "late": 2, "lag_records": None},
    }
    assert _summary([b], reports) == (  # before: without the commands
        "1 of 2 run, 42 records a second; 3 wait (headrace status); 2 late (headrace records b late); "
        "1 dead letters (headrace dead-letters log/a)"
    )
    assert _summary([b], {}) is None


def test_the_summary_counts_a_dead_letter_of_a_log_once_and_those_of_nodes_besides() -> None:
    a, b = (hr.Topic(name, key="id STRING", value="n INT") for name in "ab")
    counts = a.group_by("id").aggregate(n=hr.count()).named("counts")
    latest = a.table().named("latest")
    behind = counts.changes().where("n > 1").named("behind")
    merged = a.merge(b).group_by("id").aggregate(n=hr.count()).named("merged")
    nodes = [counts, latest, behind, merged]

    def dead(**numbers: int) -> str | None:
        return _summary(
            nodes, {name.replace("_", "/", 1): {"dead_letters": n} for name, n in numbers.items()}
        )

    names = {f"stream_{node.name}_stream": n for node, n in zip(nodes, (3, 3, 0, 5), strict=True)}
    both = "headrace dead-letters log/a, headrace dead-letters log/b"
    assert dead(log_a=3, log_b=2, **names) == f"0 of 6 run, 0 records a second; 5 dead letters ({both})"
    own = names | {"stream_latest_stream": 4, "stream_merged_stream": 7, "stream_behind_stream": 1}
    three = f"{both}, headrace dead-letters stream/merged_stream, …"
    assert dead(log_a=3, log_b=2, **own) == f"0 of 6 run, 0 records a second; 9 dead letters ({three})"
    # After a restart the logs count from zero, and nodes go on.
    assert dead(log_a=0, log_b=2, **names) == f"0 of 6 run, 0 records a second; 5 dead letters ({both})"


def test_many_assets_that_change_alike_are_one_line() -> None:
    states = {f"log/t{number}": "running" for number in range(9)}
    stopped = {**dict.fromkeys(states, "stopped"), "log/t0": "failed: no disk"}
    assert Screen().looks(Standing(states), Standing(states), Standing(stopped)) == [
        "9 of 9 logs and queries: running",  # before: nine lines, and nine more
        "log/t0: failed: no disk",
        "8 of 9 logs and queries: stopped",
    ]


def test_replays_of_a_log_are_shown_by_a_node_that_people_see() -> None:
    a = hr.Topic("a", key="id STRING", value="n INT")
    names = hr.Topic("names", key="id STRING", value="label STRING")
    node = a.lookup(names.table(), on="id").group_by("id").aggregate(k=hr.count()).named("k")
    reports = {"log/a": {"state": "running", "replays": 2}}
    assert (_summary([node], reports) or "").endswith("; 2 replays (headrace records k replay)")


def test_on_a_terminal_a_bar_shows_what_is_awaited_and_ends_with_it() -> None:
    screen = Screen(terminal=True)
    bar = screen.shown._bar
    assert bar is not None
    with bar:
        assert screen.looks(BOTH, BOTH, BOTH, BOTH, ONE) == ["log/a: state running"]
        (task,) = bar.tasks
        assert (task.description, task.completed, task.total) == ("starting: stream/b", 1, 2)
        assert screen.looks(Standing({"log/a": "state running", "stream/b": "x"})) == ["stream/b: x"]
        assert not bar.tasks
