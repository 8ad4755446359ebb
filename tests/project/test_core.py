"""Headrace's core alone, from a wheel in an empty environment: it describes, tests and reads.

`make test` refuses the imports of extras instead (`tests/tidy/test_extras.py`), and imports from a wheel (`test_new_project.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.tidy.test_extras import DRIVEN

ROOT = Path(__file__).resolve().parents[2]
OURS = ("VIRTUAL_ENV", "PYTHONPATH", "HEADRACE_LAKE", "HEADRACE_PIPELINE", "MAKEFLAGS", "MAKELEVEL")


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    environment["UV_LINK_MODE"] = "symlink"  # the cache may lie on another disk: nothing is copied
    if "PIP_INDEX_URL" in environment:
        environment.setdefault("UV_DEFAULT_INDEX", environment["PIP_INDEX_URL"])
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_the_core_works_from_a_wheel_in_an_empty_environment(tmp_path: Path) -> None:
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path / "dist"), versions=["standard"]))
    python, lock = "own/bin/python", str(ROOT / "requirements.lock")
    made = run(tmp_path, sys.executable, "-m", "uv", "venv", "--quiet", "--python", sys.executable, "own")
    assert made.returncode == 0, made.stderr
    pinned = ("--constraints", lock, "--build-constraints", lock)
    installed = run(
        tmp_path, sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python, *pinned, wheel
    )
    assert installed.returncode == 0, installed.stderr

    created = run(tmp_path, "own/bin/headrace", "new", "my_streams")
    assert created.returncode == 0, created.stderr
    described = run(
        tmp_path / "my_streams", "../own/bin/headrace", "describe", "--pipeline", "my_streams.payments"
    )
    assert "declined_per_minute" in described.stdout, described.stderr
    driven = run(tmp_path, python, "-c", DRIVEN)
    assert driven.returncode == 0, driven.stderr
    refused = run(tmp_path, python, "-c", "import headrace.orchestration")
    assert "pip install 'headrace[dagster]'" in refused.stderr
