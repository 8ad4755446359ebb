"""`headrace --help` in groups, exit codes, and where logs and nodes stand."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import app, commands
from headrace.cli.groups import GROUPS
from headrace.errors import TerminalError, TransientError

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
    done = CliRunner().invoke(app, ["status", "--json", "--pipeline", "assets", "--lake", lake])
    assert done.exit_code == 0, done.output
    shown = {row["asset"]: row for row in map(json.loads, done.output.splitlines())}
    assert {"log/readings", "stream/reading_counts"} <= shown.keys()
    assert not shown["log/readings"]["running"]
    assert shown["stream/reading_counts"]["commits"] == 0
    assert not os.path.exists(tmp_path / "lake" / "logs")
