"""Commands that read a lake that is not there end with an error, which names the settings that are near."""

from __future__ import annotations

import io
import os
import subprocess
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from rich.console import Console
from typer.testing import CliRunner

from headrace.cli import app
from headrace.errors import TerminalError
from headrace.lake.format import require_format
from headrace.local.demos import demo
from headrace.local.servers.settings_file import read_settings_file, second_terminal, write_settings

pytestmark = pytest.mark.fast
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "words",
    [
        *(
            ["status"],
            ["sql", "show tables"],
            ["get", "reading_counts", "a"],
            ["why", "reading_counts", "sensor_id=a"],
            ["why-not", "readings", "0", "7"],
            ["what-if", "reading_counts", "grace=1 minute"],
            ["audit", "reading_counts", "--against", "file:/copy"],
            ["tail", "reading_counts", "--no-follow"],
        ),
        *(
            ["dead-letters", "readings"],
            ["records", "reading_counts", "late"],
            ["refused", "reading_counts"],
            ["failing", "reading_counts"],
        ),
    ],
)
def test_a_lake_that_is_not_there_is_an_error(words: list[str], tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, [*words, "--pipeline", "assets", "--lake", f"file:{tmp_path}/gone"])
    assert answer.exit_code != 0  # before: 0, and an empty table
    assert isinstance(answer.exception, TerminalError)
    assert f"There is no lake at file:{tmp_path}/gone" in str(answer.exception)
    assert "headrace dev" in str(answer.exception)
    assert not (tmp_path / "gone").exists()


def test_beside_a_demo_whose_settings_are_missing_status_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_LAKE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".headrace" / "demo").mkdir(parents=True)
    path = write_settings(tmp_path / ".headrace" / "demo", {"HEADRACE_LAKE": "file:/elsewhere"})
    answer = CliRunner().invoke(app, ["status", "--pipeline", "assets"])
    assert answer.exit_code != 0  # before: 0, with a table in which nothing has ever run
    assert second_terminal(path) in str(answer.exception)
    (tmp_path / ".headrace" / "lake").mkdir()
    (tmp_path / ".headrace" / "lake" / "logs").mkdir()
    assert CliRunner().invoke(app, ["status", "--pipeline", "assets"]).exit_code == 0


def test_settings_that_one_terminal_prints_another_reads(tmp_path: Path) -> None:
    settings = {"HEADRACE_LAKE": f"file:{tmp_path}/a lake", "DSN": "postgresql://u:it's@h/d", "EMPTY": ""}
    path = write_settings(tmp_path, settings)
    assert path.stat().st_mode & 0o077 == 0
    assert read_settings_file(path) == settings
    assert f". {path};" in second_terminal(path)


@pytest.mark.slow
def test_the_line_that_a_demo_prints_reaches_its_lake_from_another_shell(tmp_path: Path) -> None:
    ours = demo._settings(
        tmp_path, "localhost:1", "http://localhost:2", "postgresql://u:p@h/d", "http://localhost:3"
    )
    require_format(ours["HEADRACE_LAKE"])
    lead, _, line = second_terminal(write_settings(tmp_path, ours)).partition(": ")
    assert lead == "In a second terminal"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    done = subprocess.run(
        ["sh", "-c", line], env=plain, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "log/readings" in done.stdout) == (0, True), done.stderr


def test_the_demo_prints_that_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = MagicMock(
        **{"__enter__.return_value": MagicMock(bootstrap_servers="localhost:1", dsn="postgresql://h")}
    )
    for name in ("Broker", "SchemaRegistry", "Postgres"):
        monkeypatch.setattr(demo, name, lambda *_: server)
    for name in ("_fill", "require_free", "wait_for_ui", "_show_progress", "_stop"):
        monkeypatch.setattr(demo, name, lambda *_, **__: None)
    monkeypatch.setattr("headrace.local.demos.scenes.live", lambda *_: nullcontext())
    monkeypatch.setattr(demo, "served_report", lambda *_: nullcontext("http://localhost:3"))
    monkeypatch.setattr("headrace.local.servers.lifeline.spawn", lambda *_, **__: None)
    monkeypatch.setattr(demo, "project_root", lambda: tmp_path)
    monkeypatch.setattr(demo, "_settings", lambda *_: {"HEADRACE_LAKE": f"file:{tmp_path}/lake"})
    monkeypatch.setattr(demo, "_invitation", lambda *_: "ready")
    monkeypatch.setattr("os.environ", dict(os.environ))
    shown = io.StringIO()
    demo.run_demo(port=3000, rate=1.0, fresh=False, console=Console(file=shown, width=200))
    path = tmp_path / ".headrace" / "demo" / "settings.env"
    assert second_terminal(path) in shown.getvalue().splitlines()
    assert read_settings_file(path) == {"HEADRACE_LAKE": f"file:{tmp_path}/lake"}


@pytest.mark.parametrize("line", ["no settings", "= 5", "a-b=c"])
def test_a_file_that_holds_no_settings_is_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.env"
    path.write_text(f"# a comment\n\nexport A=b\n{line}\n")
    with pytest.raises(TerminalError, match="line 4 is no NAME=value"):
        read_settings_file(path)
    with pytest.raises(TerminalError, match="cannot be read"):
        read_settings_file(tmp_path / "gone")
