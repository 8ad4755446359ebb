"""`import headrace as hr` gives the public names, and stays light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import headrace as hr

pytestmark = pytest.mark.fast


PROGRAM = """
import sys
import {module}
print([name for name in ("pyspark", "dagster", "pandas", "delta", "jinja2") if name in sys.modules])
"""


@pytest.mark.parametrize("module", ["headrace", "headrace.cli"])
def test_importing_headrace_or_its_command_line_starts_neither_spark_nor_dagster(module: str) -> None:
    environment = {"PYTHONPATH": hr.__file__.removesuffix("/headrace/__init__.py")}
    command = [sys.executable, "-c", PROGRAM.format(module=module)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_name_exists_and_has_a_sentence() -> None:
    for name in hr.__all__:
        assert getattr(hr, name).__doc__, name


def test_the_law_is_the_first_thing_said() -> None:
    assert "function of the log alone" in str(hr.__doc__)
