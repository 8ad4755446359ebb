"""An error that nobody foresaw ends a command with sentences and a file, and a stack trace only for those who ask."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from headrace.cli import commands
from headrace.cli.console.unexpected import DEBUG

pytestmark = pytest.mark.fast


def ended(monkeypatch: pytest.MonkeyPatch, error: Exception, *words: str) -> int:
    """The exit code of a command that raises. In: words  of the command line."""
    monkeypatch.setattr(
        commands, "app", partial(exec, "raise error", {"error": error})
    )  # in no file of a pipeline
    monkeypatch.setattr("sys.argv", ["headrace", "status", *words])
    with pytest.raises(SystemExit) as end:
        commands.main()
    assert isinstance(end.value.code, int)
    return end.value.code


def test_an_unexpected_error_is_a_sentence_with_what_to_do_and_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(DEBUG, raising=False)
    assert (
        ended(monkeypatch, ValueError(f"no such bucket\n{'at org.apache.spark' * 99}")) == 70
    )  # before: a traceback
    shown = capsys.readouterr().err
    assert shown.startswith("An error that Headrace did not expect: ValueError: no such bucket\n")
    assert len(shown.splitlines()) == 3
    assert "Traceback" not in shown
    (trace,) = re.findall(r"Its stack trace is in (\S+)\.\n", shown)
    assert "ValueError: no such bucket" in Path(trace).read_text()
    assert Path(trace).stat().st_mode & 0o077 == 0
    assert "HEADRACE_DEBUG=1 prints the trace" in shown
    Path(trace).unlink()


def test_the_trace_is_printed_to_those_who_ask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DEBUG, "1")
    assert ended(monkeypatch, KeyError("x")) == 70
    assert "Traceback" in capsys.readouterr().err


def test_an_error_that_a_line_of_the_pipeline_leads_to_names_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(DEBUG, raising=False)
    code = tmp_path / "payments.py"
    code.write_text("def check(row):\n    return row['amuont']\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import payments  # type: ignore[import-not-found]

    with pytest.raises(KeyError) as raised:
        payments.check({})
    assert ended(monkeypatch, raised.value) == 70
    del sys.modules["payments"]
    shown = capsys.readouterr().err
    assert f"{code}:2: return row['amuont']" in shown
    assert "Correct this line of the pipeline." in shown


def test_programs_get_an_unexpected_error_as_an_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(DEBUG, raising=False)
    assert ended(monkeypatch, OSError("disk is full"), "--json") == 70
    told = json.loads(capsys.readouterr().err)
    assert told["error"] == "An error that Headrace did not expect: OSError: disk is full"
    assert (told["retry"], "stack trace" in told["detail"]) == (False, True)
