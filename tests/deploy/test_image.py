"""The image's recipe has all that it copies and builds from."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast
ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "deploy" / "image"
DOCKERFILE = (IMAGE / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (IMAGE / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()


def copied(recipe: str) -> Iterator[tuple[str, str]]:
    """Each path that the recipe copies from the project's folder, and its destination."""
    for line in recipe.splitlines():
        command, *words = line.split() or [""]
        if command == "COPY" and not words[0].startswith("--"):
            yield from ((source, words[-1]) for source in words[:-1])


def is_sent(path: str) -> bool:
    """Whether the ignore file lets Docker have it. All is ignored but for what `!` names, and what lies below."""
    let_through = [each[1:] for each in IGNORED if each.startswith("!")]
    return any(path == each or path.startswith(f"{each}/") for each in let_through)


def test_docker_is_sent_what_the_recipe_copies() -> None:
    assert IGNORED[0] == "*"
    sources = [source for source, _ in copied(DOCKERFILE)]
    assert [each for each in sources if not ((ROOT / each).exists() and is_sent(each))] == []


def test_the_wheel_is_built_from_what_was_copied_before(tmp_path: Path) -> None:
    """A folder that `pyproject.toml` put into the wheel was not there: no image could be built."""
    before, built, _ = DOCKERFILE.partition("RUN uv build")
    assert built
    for source, to in copied(before):
        goal = tmp_path / to / Path(source).name if to.endswith("/") else tmp_path / to
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, goal, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, goal)
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(tmp_path / "dist"),
    ]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = zipfile.ZipFile(next((tmp_path / "dist").glob("*.whl"))).namelist()
    assert {"headrace/deploy/monitoring/alerts.yaml", "headrace/deploy/jars/ivy.xml"} <= {*names}
