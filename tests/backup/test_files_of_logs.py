"""Files that lie below a log's table and belong to none of its versions go along in a backup."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import headrace as hr
from headrace.lake import small_files
from headrace.lake import tables as lakes
from headrace.lake.paths import Lake
from headrace.lifecycle.backup import back_up, restore
from headrace.log.decisions import guard
from headrace.log.decisions.promise import read_promise
from headrace.testing import TestDriver

pytestmark = pytest.mark.fast
SCREWS = hr.Topic("screws", key="screw STRING", value="n INT", replay_guard=hr.ReplayGuard())
TURNS = hr.Topic("turns", key="screw STRING", value="n INT")
COUNTS = SCREWS.group_by().aggregate(n=hr.count(), total=hr.sum("n")).named("counts")
BATCHES = SCREWS.merge(TURNS).group_by("screw").batch(collect=["n"], every="1 hour").named("batches")


class Restored(TestDriver):
    """A driver that can go on in a copy of its lake."""

    __test__ = False

    @property
    def lake(self) -> Lake:
        return self._lake

    def send(self, offset: int) -> None:
        chain = json.dumps([["orders", 0, offset]])
        self.pipe("screws", key="s", value={"n": 1}, headers={"source-chain": chain})

    def move(self, copies: Path) -> None:
        """Back up, restore, and go on in the restored lake alone."""
        copy = f"file:{copies}"
        back_up(self._lake, [COUNTS, BATCHES], copy, lambda *_: None)
        shutil.rmtree(self._folder / self._place)
        place = f"{self._place}-restored"
        restore(copy, Lake(self._root(place)), lambda *_: None)
        lakes.forget()
        self._begin(place)


def test_a_guard_whose_state_is_a_file_of_its_own_refuses_replays_after_a_restore(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(guard, "INLINE_CHARACTERS_MAX", 10)
    driver = Restored([COUNTS, BATCHES])
    for offset in (0, 1, 1, 2):
        driver.send(offset)
    driver.cut()
    assert [row["n"] for row in driver.rows("counts")] == [3]
    driver.move(tmp_path / "copy")
    for offset in (1, 2, 3):
        driver.send(offset)
    driver.cut()
    assert [row["n"] for row in driver.rows("counts")] == [4]
    driver.check("counts")
    driver.close()


def test_promises_and_schemas_of_a_log_go_along(tmp_path: Path) -> None:
    driver = Restored([COUNTS, BATCHES])
    driver.send(0)
    driver.cut()
    driver.advance_wall_clock("1 second")
    driver.pipe("turns", key="s", value={"n": 1})
    driver.cut()
    log = driver.lake.log("screws")
    promised, schema = read_promise(log), {"type": "INT"}
    small_files.write_json(f"{log}/_schemas/registry/1.json", schema)
    driver.move(tmp_path / "copy")
    log = driver.lake.log("screws")
    assert promised
    assert read_promise(log) >= promised
    assert small_files.read_json(f"{log}/_schemas/registry/1.json") == schema
    driver.close()
