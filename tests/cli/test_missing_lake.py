"""`headrace status` of a lake that is not there is an error; a project without a lake yet is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import app
from headrace.errors import TerminalError
from headrace.local.settings_file import read_settings_file, second_terminal, write_settings

pytestmark = pytest.mark.fast
STATUS = ["status", "--pipeline", "assets"]


def test_a_lake_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, [*STATUS, "--lake", f"file:{tmp_path}/gone"])
    assert answer.exit_code != 0  # before: 0, and an empty table
    assert isinstance(answer.exception, TerminalError)
    assert f"There is no lake at file:{tmp_path}/gone." in str(answer.exception)
    assert not (tmp_path / "gone").exists()


def test_a_project_whose_stream_never_ran_has_a_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_LAKE", raising=False)
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, STATUS)
    assert (answer.exit_code, "log/readings" in answer.stdout) == (0, True)


def test_settings_that_one_terminal_prints_another_reads(tmp_path: Path) -> None:
    settings = {"HEADRACE_LAKE": f"file:{tmp_path}/a lake", "DSN": "postgresql://u:it's@h/d", "EMPTY": ""}
    path = write_settings(tmp_path, settings)
    assert path.stat().st_mode & 0o077 == 0
    assert read_settings_file(path) == settings
    assert f". {path};" in second_terminal(path)


@pytest.mark.parametrize("line", ["no settings", "= 5", "a-b=c"])
def test_a_file_that_holds_no_settings_is_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.env"
    path.write_text(f"# a comment\n\nexport A=b\n{line}\n")
    with pytest.raises(TerminalError, match="line 4 is no NAME=value"):
        read_settings_file(path)
    with pytest.raises(TerminalError, match="cannot be read"):
        read_settings_file(tmp_path / "gone")
