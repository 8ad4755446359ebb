"""A pipeline of several modules: what one module imports from another is one node."""

from __future__ import annotations

from importlib.metadata import version
from types import ModuleType

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli import app
from headrace.errors import TerminalError
from headrace.nodes.descriptions.topics import topics_of
from headrace.settings.pipeline import nodes_in

pytestmark = pytest.mark.fast
NODE = hr.Topic("payments", value="amount DOUBLE").where("amount > 1").named("large")


def test_a_node_that_three_modules_import_is_one_node() -> None:
    modules = [ModuleType(name) for name in ("payments", "definitions", "demo")]
    for module in modules:
        module.large = NODE  # type: ignore[attr-defined]
    nodes = nodes_in(modules, "my_streams")
    assert nodes == [NODE]
    assert [*topics_of(nodes)] == ["payments"]


def test_a_pipeline_without_a_named_node_is_refused() -> None:
    with pytest.raises(TerminalError, match="'my_streams' defines no named node"):
        nodes_in([ModuleType("empty")], "my_streams")


def test_the_version_is_that_of_the_package() -> None:
    answer = CliRunner().invoke(app, ["--version"])
    assert (answer.exit_code, answer.stdout) == (0, f"headrace {hr.__version__}\n")
    assert hr.__version__ == version("headrace")
