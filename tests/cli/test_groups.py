"""`headrace --help` in groups, exit codes, and where logs and nodes stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import GROUPS, app, commands
from headrace.errors import TerminalError, TransientError
from headrace.lake.format import require_format

pytestmark = pytest.mark.fast
HELP = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "160", "TERM": "dumb"}).output


def test_commands_stand_in_groups_in_the_order_of_a_users_work() -> None:
    places = [HELP.index(f" {group} ") for group in GROUPS if f" {group} " in HELP]
    assert places == sorted(places)
    assert len(places) == len(GROUPS)
    assert re.search(r"Look ─.*\n│ describe .*\n│ preview .*\n│ status ", HELP)


def test_help_says_what_the_exit_codes_mean() -> None:
    assert "Exit codes" in HELP
    assert "75" in HELP


@pytest.mark.parametrize(("error", "code"), [(TerminalError("no"), 2), (TransientError("later"), 75)])
def test_the_exit_code_says_whether_a_retry_can_help(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr(commands, "app", fails)
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == code


def test_status_of_a_lake_without_tables_names_logs_and_nodes(tmp_path: Path) -> None:
    lake = f"file:{tmp_path / 'lake'}"
    require_format(lake)
    done = CliRunner().invoke(app, ["status", "--json", "--pipeline", "assets", "--lake", lake])
    assert done.exit_code == 0, done.output
    shown = {row["asset"]: row for row in map(json.loads, done.output.splitlines())}
    assert {"log/readings", "stream/reading_counts_stream"} <= shown.keys()
    assert not shown["log/readings"]["running"]
    assert shown["stream/reading_counts_stream"]["commits"] == 0
    assert not os.path.exists(tmp_path / "lake" / "logs")


@pytest.mark.slow
def test_help_needs_no_pyproject_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.headrace")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
    command = [sys.executable, "-c", "from headrace.cli import main; main()", "--help"]
    helped = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert helped.returncode == 0, helped.stderr
    assert "Usage" in helped.stdout


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("[tool.headrace\npipeline =", "line 1"),
        ("tool = 5", "int"),
        ("[tool.headrace]\npipeline = 5", "tool.headrace.pipeline is 5"),
    ],
)
def test_a_broken_pyproject_fails_the_commands_that_need_it_alone(
    broken: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(broken)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_PIPELINE", raising=False)
    monkeypatch.delenv("HEADRACE_LAKE", raising=False)
    lake = CliRunner().invoke(app, ["erasures"])
    assert (lake.exit_code, lake.output) == (0, "No erasure is pending.\n"), lake.exception
    needs_it = CliRunner().invoke(app, ["describe"]).exception
    assert isinstance(needs_it, TerminalError)
    assert f"{tmp_path / 'pyproject.toml'} cannot be read" in str(needs_it)
    assert said in str(needs_it)
    assert "--pipeline" in str(needs_it)
    assert CliRunner().invoke(app, ["describe", "--pipeline", "assets"]).exit_code == 0


def test_a_wrong_variable_fails_the_commands_that_need_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_STREAM_TRIGGER_MS", "often")
    assert CliRunner().invoke(app, ["run", "--help"]).exit_code == 0
    failed = CliRunner().invoke(app, ["run"])
    assert isinstance(failed.exception, TerminalError)
    assert "HEADRACE_STREAM_TRIGGER_MS" in str(failed.exception)
