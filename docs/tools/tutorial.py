"""Do the tutorial word for word in an empty folder: run its commands, put its code in place, and say how each step ended.

Run it with `make tutorial`. It installs Headrace from the wheel twice, as a reader does. So it takes minutes, and needs the
registries of packages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROJECT = "my_streams"
TEST = "def test_"
LAST = "headrace describe"
NEEDS_A_BROKER = "headrace preview"  # of the reader's own topic: it is left out


def steps() -> tuple[list[str], str, str]:
    """The commands of the page in their order, the pipeline's code, and that of its test."""
    text = TUTORIAL.read_text(encoding="utf-8")
    blocks = FENCE.findall(text)
    commands = [
        line.split("  #")[0].strip() for kind, body in blocks if not kind for line in body.splitlines()
    ]
    python = [body for kind, body in blocks if kind == "python"]
    pipeline = [body for body in python if TEST not in body and "try:" not in body]
    (test,) = (body for body in python if TEST in body)
    return [each for each in commands if each], "\n".join(pipeline), test


def run(command: str, folder: Path, shows: str = "") -> None:
    """Run one command as a reader does, with the project's environment in reach; end at the first that fails.

    In: shows  what the page says that it prints
    """
    began = time.monotonic()
    environment = {
        k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH", "HEADRACE_LAKE")
    }
    environment["PATH"] = f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    well = done.returncode == 0 and shows in done.stdout
    print(f"{'ok' if well else 'FAILED':6}  {time.monotonic() - began:5.0f} s  {command}", flush=True)
    if not well:
        sys.exit(
            f"{done.stdout[-3000:]}{done.stderr[-3000:]}\nexit code {done.returncode}; wanted: {shows!r}"
        )
    print("\n".join(f"        {line}" for line in done.stdout.splitlines()[-12:]), flush=True)


def main() -> None:
    """Do every step."""
    commands, pipeline, test = steps()
    with tempfile.TemporaryDirectory(prefix="tutorial-") as place:
        folder = Path(place)
        next(WheelBuilder(str(ROOT)).build(directory=place, versions=["standard"]))
        for command in commands:
            if command.startswith("cd "):
                folder = folder / command.removeprefix("cd ")
            elif not command.startswith((LAST, NEEDS_A_BROKER)):
                run(command, folder)
        (folder / PROJECT / "payments.py").write_text(f'"""The pipeline of the tutorial."""\n\n{pipeline}')
        names = f"from {PROJECT}.payments import alerts, declined_per_minute\n"
        (folder / "tests" / "test_payments.py").write_text(names + test)
        run("make test", folder)
        run("make demo", folder, "alerts: 1 row")
        run(LAST, folder)


if __name__ == "__main__":
    main()
