"""A pipeline whose code fails is named with its file, its line and the error; nobody sees a stack trace."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import app

pytestmark = pytest.mark.fast
FIRST = "import headrace as hr\n"


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("broken_syntax", "readings = (", "SyntaxError: '(' was never closed"),
        ("broken_name", "readings = hr.Topik('readings')", "AttributeError: module 'headrace'"),
        ("broken_import", "import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        (
            "broken_topic",
            "readings = hr.Topic('readings', key='a', value='b')",
            "key: cannot read 'a': expected a type",
        ),
    ],
)
def test_code_that_fails_is_named_with_its_line(
    name: str, line: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{name}.py").write_text(f"{FIRST}{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    refused = CliRunner().invoke(app, ["plan", "--pipeline", name, "--lake", f"file:{tmp_path}/lake"])
    sys.modules.pop(name, None)
    assert refused.exit_code == 1
    shown = str(refused.exception) if refused.exception else refused.output
    assert f"{tmp_path}/{name}.py:2: {line}" in shown
    assert words in shown
