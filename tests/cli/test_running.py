"""`headrace run` hosts the streams until it is told to stop, and always drains them."""

from __future__ import annotations

import json
import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from headrace.cli import app, running
from headrace.errors import TerminalError, TransientError
from headrace.local.demos import demo
from headrace.local.development import dev
from headrace.streams.status.stream_status import StreamStatus

pytestmark = pytest.mark.fast
STATUS = StreamStatus("log", "readings", "running", None, 0, 1_234, 5.0, 0, 0.0, 1, 3, {})


class Runtime:
    """A runtime that is polled twice, and then ends as it is told."""

    jvm_ended = False

    def __init__(self, end: BaseException) -> None:
        self.end, self.polls, self.drained = end, 0, 0
        self.triggers: list[int] = []
        self.drained_within: list[float] = []

    def set_trigger(self, trigger_ms: int) -> None:
        self.triggers.append(trigger_ms)

    def poll(self) -> list[StreamStatus]:
        self.polls += 1
        if self.polls > 2:
            raise self.end
        return [STATUS]

    def run_until_caught_up(self, timeout_seconds: float) -> list[StreamStatus]:
        return [STATUS]

    def drain(self, timeout_seconds: float) -> None:
        self.drained += 1
        self.drained_within.append(timeout_seconds)


def run(monkeypatch: pytest.MonkeyPatch, end: BaseException, *options: str) -> tuple[Runtime, Any]:
    runtime = Runtime(end)
    monkeypatch.setattr(running, "open_runtime", lambda *asked: runtime)
    monkeypatch.setattr(running, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return runtime, CliRunner().invoke(app, ["run", *options], env={"COLUMNS": "160"})


def test_ctrl_c_drains_and_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, done = run(monkeypatch, KeyboardInterrupt())
    assert (runtime.polls, runtime.drained, done.exit_code) == (3, 1, 0)
    assert "finish their micro-batches" in done.output


def test_a_failure_drains_too_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, done = run(monkeypatch, TransientError("no broker"))
    assert runtime.drained == 1
    assert isinstance(done.exception, TransientError)


def test_until_caught_up_shows_the_queries_once_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, done = run(monkeypatch, AssertionError("not polled"), "--until-caught-up")
    assert (runtime.polls, runtime.drained, done.exit_code) == (0, 1, 0)
    assert "log/readings" in done.output
    assert "1,234" in done.output


def test_it_follows_the_trigger_that_is_set_and_its_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`headrace set-trigger` said that it was done, and such a run took no notice."""
    overrides = {"nights": {"trigger_ms": 700, "drain_timeout_seconds": 5}}
    monkeypatch.setenv("HEADRACE_STREAM_OVERRIDES", json.dumps(overrides))
    here = ("--lake", str(tmp_path), "--stream", "nights")
    runtime, _ = run(monkeypatch, KeyboardInterrupt(), *here)
    assert (runtime.triggers, runtime.drained_within) == ([700] * 3, [5])
    runtime, _ = run(monkeypatch, KeyboardInterrupt(), *here, "--trigger-ms", "800")
    assert runtime.triggers == [800] * 3
    CliRunner().invoke(app, ["set-trigger", "2500", *here[2:], *here[:2]])
    runtime, _ = run(monkeypatch, KeyboardInterrupt(), *here)
    assert runtime.triggers == [2_500] * 3


def test_it_serves_figures_to_prometheus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only runs of Dagster did."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("HEADRACE_METRICS_PORT", str(port))
    runtime = Runtime(KeyboardInterrupt())
    seen = list[str]()

    def scrape(_: float) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            seen.append(answer.read().decode())

    monkeypatch.setattr(running, "open_runtime", lambda *_: runtime)
    monkeypatch.setattr("time.sleep", scrape)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    CliRunner().invoke(app, ["run"])
    assert 'headrace_rows_total{asset="log/readings"} 1234.0' in seen[0]


@pytest.mark.parametrize("command", ["demo", "demo-once"])
def test_the_demo_of_an_installed_package_says_where_it_runs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with "unexpected error" for want of a file."""
    monkeypatch.setattr("headrace.spark.jars.project_root", lambda: tmp_path)
    error = CliRunner().invoke(app, [command]).exception
    assert isinstance(error, TerminalError)
    assert "headrace dev" in str(error)


@pytest.fixture
def _ignored() -> Iterator[None]:
    """SIGINT is ignored, as a shell without a terminal ignores it in what a script puts into the background."""
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def ctrl_c(*_: object, **__: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGINT)
    raise AssertionError("Ctrl-C was not heard")


@pytest.mark.usefixtures("_ignored")
@pytest.mark.parametrize(
    ("command", "module", "first"),
    [
        (["run"], running, "_show"),
        (["dev", "--no-ui"], dev, "private_settings"),
        (["demo", "--port", "0"], demo, "Broker"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_in_the_background_of_a_script_ctrl_c_is_heard(
    command: list[str], module: Any, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, `dev` and `demo` went on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "project_root", lambda: tmp_path)
    monkeypatch.setattr(running, "open_runtime", lambda *_: Runtime(KeyboardInterrupt()))
    monkeypatch.setattr(module, first, ctrl_c)
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, done.exception) == (0, None), done.output
