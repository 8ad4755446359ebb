"""A node whose process is killed while it makes local copies, or has no room for them, has the rows of its log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engine.state_copies import TEMPORARY
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KILLS = 4


def begun(folder: Path, life: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.engine.life_with_copies", life, f"file:{folder}/lake"]
    return subprocess.Popen([*command, f"{folder}/copies"], stdout=subprocess.PIPE, text=True, cwd=ROOT)


def said(folder: Path, life: str) -> str:
    process = begun(folder, life)
    told, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    return told.splitlines()[-1]


def written_ns(path: Path) -> int:
    """When a file was written last; 0: it is not there."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def kill_while_a_copy_is_made(folder: Path, making: Path) -> None:
    before, process = written_ns(making), begun(folder, "live_on")

    def goes_on() -> bool:
        assert process.poll() is None
        return written_ns(making) > before

    until(goes_on, every_s=0.001)
    process.kill()
    process.communicate()


@pytest.mark.long
def test_a_node_that_is_killed_while_copies_are_made_has_the_rows_of_its_log(tmp_path: Path) -> None:
    making = tmp_path / "copies" / TEMPORARY
    for _ in range(KILLS):
        kill_while_a_copy_is_made(tmp_path, making)
    word, records = said(tmp_path, "live_and_look").split()
    assert word == "right"
    assert int(records) >= 8_000 + 3 * 400
    assert not making.exists()


def test_a_disk_that_has_no_room_for_a_copy_harms_nothing(tmp_path: Path) -> None:
    """The system refuses each byte beyond a file's limit, as a full disk does."""
    assert said(tmp_path, "live_on_a_full_disk") == "right"
