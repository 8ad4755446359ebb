"""The layout that everything else relies on: folders, sizes, banned words, what the wheel holds."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any, cast

import pytest
from dagster._core.instance.ref import InstanceRef
from hatchling.builders.wheel import WheelBuilder

pytestmark = pytest.mark.fast

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES_MAX = 350
# Put together from parts, so that this file does not hold what it bans.
BANNED_IN_ENGINE = {
    "with" + "Watermark": "drops rows by micro-batch; lateness is judged by stream time in the log",
    "current_" + "timestamp(": "a second run would read another clock; time is recorded in the log",
}
BANNED_EVERYWHERE = {
    "pypi" + ".org": "a registry's host",
    "python" + "hosted.org": "a registry's host",
    "maven" + ".org": "a registry's host",
    "maven" + ".apache.org": "a registry's host",
    "/home" + "/": "somebody's folder",
    "/root" + "/": "somebody's folder",
    "/Us" + "ers/": "somebody's folder",
}


def project_files(*suffixes: str) -> list[Path]:
    """List the files that are tracked, or would be on the next `git add`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [ROOT / name for name in names if not suffixes or name.endswith(suffixes)]
    return [path for path in found if path.is_file()]


def uses(banned: dict[str, str], paths: list[Path]) -> list[str]:
    """Say where a banned text stands, and why it is banned."""
    return [
        f"{path.relative_to(ROOT)}:{number}: '{text}': {why}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="ignore").splitlines(), start=1)
        for text, why in banned.items()
        if text in line
    ]


def test_platform_is_a_source_root_with_one_package() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists(), "it shadows the standard library's platform"
    entries = {path.relative_to(ROOT / "platform").parts[0] for path in project_files() if in_engine(path)}
    assert entries == {"headrace"}


@pytest.mark.parametrize("folder", ["assets", "jobs"])
def test_a_code_location_is_a_regular_package(folder: str) -> None:
    if (ROOT / folder).exists():
        assert (ROOT / folder / "__init__.py").is_file(), f"another distribution's '{folder}' would win"


def test_no_file_hides_a_missing_concept_behind_its_length() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in project_files(".py")}
    long = [
        f"{path.relative_to(ROOT)} has {lines}" for path, lines in lengths.items() if lines > FILE_LINES_MAX
    ]
    assert not long, f"more than {FILE_LINES_MAX} lines: {long}"


def test_the_engine_uses_no_clock_and_no_watermark_of_sparks() -> None:
    assert not uses(BANNED_IN_ENGINE, [path for path in project_files(".py") if in_engine(path)])


def test_a_library_whose_runtime_a_fork_would_break_is_imported_where_it_is_used() -> None:
    """PySpark's workers are forked; in them, too, the first use has to come after the fork."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in project_files(".py")
        if in_engine(path)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Import | ast.ImportFrom) and imported(node) & {"deltalake", "obstore"}
    ]
    assert not found


def test_no_file_names_a_registry_or_somebodys_folder() -> None:
    assert not uses(BANNED_EVERYWHERE, project_files())


def test_the_image_installs_a_part_of_the_developers_lock() -> None:
    developers, image = locked(ROOT / "requirements.lock"), locked(ROOT / "deploy/image/requirements.lock")
    assert image
    assert image <= developers, "run `make lock`"


@pytest.mark.parametrize("config", ["deploy/dagster.yaml", "deploy/local/dagster.yaml"])
def test_dagster_accepts_its_configuration(
    config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", "postgresql://nobody@127.0.0.1/none")
    shutil.copy(ROOT / config, tmp_path / "dagster.yaml")
    settings = cast("dict[str, Any]", InstanceRef.from_dir(str(tmp_path)).settings)
    assert settings["telemetry"] == settings["nux"] == {"enabled": False}
    assert settings["run_monitoring"]["enabled"]
    limits = settings["concurrency"]["runs"]["tag_concurrency_limits"]
    assert limits == [{"key": "headrace/stream", "value": {"applyLimitPerUniqueValue": True}, "limit": 1}]


def test_the_wheel_holds_the_engine_alone(tmp_path: Path) -> None:
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"headrace"}


def in_engine(path: Path) -> bool:
    return path.is_relative_to(ROOT / "platform")


def imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    """The packages that a statement imports."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return {name.partition(".")[0] for name in names}


def locked(path: Path) -> set[str]:
    return set(re.findall(r"^[\w.-]+==\S+", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
