"""Commands find nodes by their names in one way, and say the same of a name that no node has."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from headrace.cli import app
from headrace.settings import load_pipeline

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    "command",
    [
        ["describe", "loud"],
        ["preview", "loud"],
        ["tail", "loud", "--no-follow"],
        ["get", "loud", "a"],
        ["why", "loud", "key=a"],
        ["what-if", "loud", "grace=1 minute"],
        ["audit", "loud", "--against", "file:/copy"],
        ["verify", "loud"],
        ["pause", "loud"],
        ["failing", "loud"],
    ],
    ids=lambda command: command[0],
)
def test_a_name_that_no_node_has_is_answered_with_those_that_there_are(command: list[str]) -> None:
    refused = CliRunner().invoke(app, [*command, "--pipeline", "assets"], env={"COLUMNS": "4000"})
    names = ", ".join(sorted(node.required_name for node in load_pipeline("assets")))
    assert refused.exit_code == 2
    assert f"no node 'loud' in assets; there are: {names}" in " ".join(refused.output.split())
