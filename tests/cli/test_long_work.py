"""Long work: a bar on a terminal, a line for each step elsewhere, and nothing for programs; stdout is never touched."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.progress import Progress

from headrace.cli.console import long_work as shown
from headrace.cli.console import telling

pytestmark = pytest.mark.fast


def work() -> None:
    with shown.long_work("Begins.", 2) as work:
        work.begin("Reads the log.")
        work.begin("Compares.")
        work.reach(3, 12, "records folded")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_each_step_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    work()
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "Reads the log.\nCompares.\n")


def test_without_a_terminal_a_long_step_says_each_half_minute_how_far_it_is_and_how_long_it_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter([100.0, 110.0, 130.0, 140.0, 220.0])
    monkeypatch.setattr("headrace.observe.long_work.time.monotonic", lambda: next(seconds))
    with shown.long_work("Folds the log.") as work:
        for done in (1_000_000, 2_000_000, 4_000_000, 5_000_000, 13_000_000):
            work.reach(done, 50_000_000, "records folded")
    assert capsys.readouterr().err.splitlines() == [
        "4,000,000 of 50,000,000 records folded, about 8 min to go",
        "13,000,000 of 50,000,000 records folded, about 6 min to go",
    ]


def test_programs_are_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    token = telling._JSON.set(True)
    try:
        work()
    finally:
        telling._JSON.reset(token)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_a_bar_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    updates: list[dict[str, Any]] = []
    update = Progress.update

    def noted(self: Any, task: Any, **given: Any) -> None:
        updates.append(given)
        update(self, task, **given)

    monkeypatch.setattr(Progress, "update", noted)
    work()
    assert "3 of 12 records folded" in terminal.getvalue()
    assert "25%" in terminal.getvalue()
    assert [each["completed"] for each in updates] == [0, 1, 3]
