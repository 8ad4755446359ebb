"""`make setup` and `make test` of a project that `headrace new` has made, with Headrace from a wheel, as a stranger does."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from headrace.spark.jars import jars_dir

ROOT = Path(__file__).resolve().parents[2]
OURS = ("VIRTUAL_ENV", "PYTHONPATH", "HEADRACE_LAKE", "HEADRACE_PIPELINE", "MAKEFLAGS", "MAKELEVEL")


def run(folder: Path, *command: str) -> str:
    """Run a command as a reader does; its output."""
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    environment["HEADRACE_JARS"] = str(jars_dir().absolute())  # fetched already
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.spark
def test_the_commands_that_headrace_new_names_next_work(tmp_path: Path) -> None:
    """Before: "No matching distribution found for headrace==0.1.0"."""
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path / "dist"), versions=["standard"]))
    run(tmp_path, sys.executable, "-m", "venv", "own")
    (others,) = (tmp_path / "own" / "lib").glob("python*/site-packages")
    (others / "others.pth").write_text(sysconfig.get_path("purelib"))  # what Headrace needs is installed here
    run(tmp_path, "own/bin/python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    shown = run(tmp_path, "own/bin/headrace", "new", "my_streams")
    assert "Next: cd my_streams && make test" in shown
    project = tmp_path / "my_streams"
    assert wheel in (project / "local.mk").read_text(encoding="utf-8")
    progress = run(project, "make", "setup")
    assert [line[:10] for line in progress.splitlines() if line.startswith("setup ")] == [
        f"setup {number}/3:" for number in (1, 2, 3)
    ]
    assert "2 passed" in run(project, "make", "test")
