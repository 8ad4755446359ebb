"""The Python in README.md and docs/guides runs as it stands.

The blocks of a document run in order in one namespace; then every `test_…` function in them is called with the
fixtures that it names. Blocks marked `python notest` need a broker or a lake: they must compile, and what they import
must exist.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.cloudpickle import register_pickle_by_value, unregister_pickle_by_value

from tests.docs.documents import WITH_CODE, compiled, name, python_blocks


@pytest.fixture
def environment() -> Iterator[None]:
    """Give the environment back as it was, whatever an example sets."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.spark
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("path", WITH_CODE, ids=name)
def test_the_examples_run(
    path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("example")
    monkeypatch.setitem(
        sys.modules, module.__name__, module
    )  # dataclasses look for the module that they stand in
    register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # tasks of Spark cannot import it
    try:
        run(path, vars(module), request)
    finally:
        unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def run(path: Path, namespace: dict[str, Any], request: pytest.FixtureRequest) -> None:
    for block in python_blocks(path):
        if not block.notest:
            exec(compiled(block, path), namespace)
    for test in [value for key, value in namespace.items() if key.startswith("test_")]:
        test(**{fixture: request.getfixturevalue(fixture) for fixture in inspect.signature(test).parameters})


@pytest.mark.fast
@pytest.mark.parametrize("path", WITH_CODE, ids=name)
def test_the_module_of_an_example_has_one_code_location(path: Path) -> None:
    for block in python_blocks(path):  # Dagster refuses a module with two
        calls = [node.value for node in ast.parse(block.code).body if isinstance(node, ast.Assign)]
        made = [ast.unparse(call.func) for call in calls if isinstance(call, ast.Call)]
        assert (
            sum(each.endswith(("build_definitions", "Definitions", "Definitions.merge")) for each in made) < 2
        )


@pytest.mark.fast
@pytest.mark.parametrize("path", WITH_CODE, ids=name)
def test_the_examples_that_do_not_run_import_what_exists(path: Path) -> None:
    for block in python_blocks(path):
        compiled(block, path)
        for node in ast.walk(ast.parse(block.code)) if block.notest else ():
            if isinstance(node, ast.ImportFrom) and node.module:
                module = importlib.import_module(node.module)
                missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert not missing, f"{name(path)}:{block.line}: {node.module} has no {missing}"
