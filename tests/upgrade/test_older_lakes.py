"""This version goes on with the lake of each released version, or refuses it before it writes anything."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from headrace.errors import TerminalError
from headrace.lake.format import FORMAT, NAME, require_format
from tests.upgrade.lakes import LAKES, NODES, ROOT, ROWS, LakeDriver

pytestmark = pytest.mark.fast
ARCHIVES = sorted(LAKES.glob("*.tar.gz"))


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder


def written_format(folder: Path) -> int:
    return int(json.loads((folder / NAME).read_text(encoding="utf-8"))["format"])


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.gz"))
@pytest.mark.slow
def test_a_lake_of_a_released_version_goes_on_or_is_refused(archive: Path, tmp_path: Path) -> None:
    lake = unpacked(archive, tmp_path / "lake")
    if written_format(lake) != FORMAT:
        with pytest.raises(TerminalError, match="older version of Headrace has written it"):
            require_format(f"file:{lake}")
        return
    driver = LakeDriver(archive)
    assert driver.all_rows() == json.loads((lake / ROWS).read_text(encoding="utf-8"))
    driver.send(20, 40)
    for node in NODES:
        assert driver.rows(node.required_name)
        driver.check(node.required_name)
    driver.close()


def test_a_lake_of_another_format_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    lake = unpacked(ARCHIVES[-1], tmp_path / "lake")
    (lake / NAME).write_text(json.dumps({"format": FORMAT - 1}), encoding="utf-8")
    before = sorted((path, path.stat().st_mtime_ns) for path in lake.rglob("*"))
    with pytest.raises(TerminalError, match=f"older version of Headrace has written it .format {FORMAT - 1}"):
        require_format(f"file:{lake}")
    assert sorted((path, path.stat().st_mtime_ns) for path in lake.rglob("*")) == before


def test_each_tag_has_its_lake() -> None:
    tags = subprocess.run(
        ["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    lakes = {f"v{path.name.removesuffix('.tar.gz')}" for path in ARCHIVES}
    assert lakes
    assert not {*tags.stdout.split()} - lakes, "run `python -m tests.upgrade.lakes` at the tag"
