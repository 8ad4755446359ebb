"""Commands find nodes by their names in one way, load them once, and say the same of a name that no node has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from headrace.cli import app
from headrace.cli.console import deployment
from headrace.cli.console.deployment import Deployment
from headrace.settings import load_pipeline

if TYPE_CHECKING:
    from headrace.description import Node

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


def test_a_command_loads_its_pipeline_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def load(module: str) -> list[Node]:
        loaded.append(module)
        return load_pipeline(module)

    monkeypatch.setattr(deployment, "load_pipeline", load)
    asked = Deployment("assets", "file:/lake")
    node = asked.nodes[0]
    topic = node.topics[0]
    assert asked.node(node.required_name) is node
    assert asked.topic_or_node(node.required_name) is node
    assert asked.topic(topic.name) == topic
    assert loaded == ["assets"]
    assert Deployment("assets", "file:/lake").nodes == asked.nodes, "another command loads it again"
    assert loaded == ["assets"] * 2
