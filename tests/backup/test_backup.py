"""A backup is a lake whose processes were killed: a restored one goes on, and makes the same tables."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.errors import TerminalError, TransientError
from headrace.lake import small_files
from headrace.lake import tables as lakes
from headrace.lake.format import is_known, require_format
from headrace.lake.paths import Lake
from headrace.lifecycle import backup
from headrace.lifecycle.backup import Backup, back_up, restore
from headrace.nodes.balances.cuts import note_cut
from headrace.testing import TestDriver

pytestmark = pytest.mark.fast
VIEWS = hr.Topic("views", key="user STRING", value="page STRING, n INT")
PAGES = hr.Topic("pages", key="page STRING", value="title STRING")
TOTALS = VIEWS.group_by("page").aggregate(n=hr.sum("n"), views=hr.count()).named("totals")
MINUTES = (
    VIEWS.group_by("page")
    .window(hr.tumbling("1 minute"), grace="10 seconds")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("minutes")
)
HOURS = MINUTES.as_stream().group_by("page").aggregate(n=hr.sum("n")).named("hours")
TITLED = VIEWS.lookup(PAGES.table(), on="page", how="left").select("page", "n", "title").named("titled")
NODES = [TOTALS, HOURS, MINUTES, TITLED]
NAMES = [each.required_name for each in NODES]
RECORDS = 18


def not_shown(done: int, total: int, what: str) -> None:
    """Nobody looks."""


class Copied(TestDriver):
    """A driver whose lake is backed up at each numbered step of its micro-batches."""

    __test__ = False
    copies: Path | None = None
    count = 0

    @property
    def lake(self) -> Lake:
        return self._lake

    def _on_step(self, node: str, step: str) -> None:
        super()._on_step(node, step)
        if self.copies is not None:
            back_up(self._lake, NODES, f"file:{self.copies / str(self.count)}", not_shown)
            self.count += 1

    def go_on_from(self, copy: str) -> Backup:
        """Go on from a backup in place of the empty lake."""
        shutil.rmtree(self._folder / self._place)
        place = f"{self._place}-restored"
        done = restore(copy, Lake(self._root(place)), not_shown)
        lakes.forget()
        self._begin(place)
        return done

    def pipe_through(self, last: int = RECORDS) -> None:
        """Pipe the records that the logs have not, and cut after each sixth."""
        next_page, next_view = (
            self._sequencers[name].state.next_offsets.get(0, 0) for name in ("pages", "views")
        )
        for number in range(min(next_view, 4 * next_page), last):
            page = f"p{number % 3}"
            at = 1_000_000 + number * 13_000
            if number % 4 == 0 and number // 4 >= next_page:
                self.pipe("pages", key=page, value={"title": f"t{number}"}, timestamp_ms=at)
            if number >= next_view:
                self.pipe("views", key="u", value={"page": page, "n": number}, timestamp_ms=at)
            if number % 6 == 5:
                self.cut()
        self.cut()

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        self.check("hours")
        return {name: self.rows(name) for name in NAMES}


@pytest.fixture
def driver() -> Iterator[Copied]:
    one = Copied(NODES)
    yield one
    one.close()


@pytest.mark.slow
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
def test_a_lake_backed_up_at_any_step_of_a_commit_goes_on_after_a_restore(
    driver: Copied, tmp_path: Path, every: int
) -> None:
    driver.pipe_through(6)
    driver.copies = tmp_path
    driver.pipe_through(12)
    driver.copies = None
    driver.pipe_through()
    wanted = driver.tables()
    assert driver.count >= 12, "each node has several steps"
    for number in range(0, driver.count, every):
        copy = f"file:{tmp_path / str(number)}"
        follower = Copied(NODES)
        try:
            done = follower.go_on_from(copy)
            assert {"logs/views", "tables/totals", "state/hours/partials"} <= done.tables.keys()
            follower.cut()
            follower.pipe_through()
            assert follower.tables() == wanted
        finally:
            follower.close()


@pytest.mark.slow
def test_a_lake_is_backed_up_while_its_streams_commit(driver: Copied, tmp_path: Path) -> None:
    writing = threading.Thread(target=driver.pipe_through, args=(60,))
    writing.start()
    numbers = 0
    while writing.is_alive() or not numbers:
        if small_files.exists(driver.lake.table("totals")):
            back_up(driver.lake, NODES, f"file:{tmp_path / str(numbers)}", not_shown)
            numbers += 1
            time.sleep(0.3)
    writing.join()
    wanted = driver.tables()
    for number in {0, numbers - 1}:
        follower = Copied(NODES)
        try:
            follower.go_on_from(f"file:{tmp_path / str(number)}")
            follower.cut()
            follower.pipe_through(60)
            tables = follower.tables()
            # The order between topics may be another one (docs/guides/backups.md), and a lookup's rows with it.
            follower.check("titled")
            assert len(tables.pop("titled")) == 60
            assert tables == {name: rows for name, rows in wanted.items() if name != "titled"}
        finally:
            follower.close()


@pytest.mark.parametrize(
    "spelling",
    ["file:{}/copy", "file://{}/copy", "{}/copy", "file:{}/x/../copy", "file:{}", "file:{}/../linked/copy"],
)
def test_a_backup_into_the_lake_is_refused_however_the_place_is_written(
    tmp_path: Path, spelling: str
) -> None:
    """Before, it was copied into the lake if `file:` was written in another way."""
    root = tmp_path / "lake"
    small_files.write_json(f"file:{root}/logs/readings", {})
    (tmp_path / "linked").symlink_to(root)
    with pytest.raises(TerminalError, match="would lie in the lake"):
        back_up(Lake(f"file:{root}"), [], spelling.format(root), not_shown)
    assert small_files.names_below(f"file:{root}") == ["logs/readings"]


def test_a_backup_goes_to_an_empty_place_and_a_restore_into_one(driver: Copied, tmp_path: Path) -> None:
    driver.pipe_through()
    copy = f"file:{tmp_path / 'copy'}"
    done = back_up(driver.lake, NODES, copy, not_shown)
    assert done.files == len(small_files.names_below(copy)) - 1
    with pytest.raises(TerminalError, match="Something lies at"):
        back_up(driver.lake, NODES, copy, not_shown)
    with pytest.raises(TerminalError, match="would lie in the lake"):
        back_up(driver.lake, NODES, f"{driver.lake.root}/copy", not_shown)
    with pytest.raises(TerminalError, match="is not empty"):
        restore(copy, driver.lake, not_shown)
    with pytest.raises(TerminalError, match="no lake"):
        back_up(Lake(f"file:{tmp_path / 'none'}"), NODES, f"file:{tmp_path / 'other'}", not_shown)
    small_files.delete(f"{copy}/backup.json")
    with pytest.raises(TerminalError, match="no whole backup"):
        restore(copy, Lake(f"file:{tmp_path / 'restored'}"), not_shown)


def test_an_interrupted_restore_goes_on(driver: Copied, tmp_path: Path) -> None:
    require_format(driver.lake.root)
    driver.pipe_through()
    copy, place = f"file:{tmp_path / 'copy'}", Lake(f"file:{tmp_path / 'restored'}")
    back_up(driver.lake, NODES, copy, not_shown)

    def broken_off(done: int, total: int, what: str) -> None:
        if done == total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(copy, place, broken_off)
    for act in (
        lambda: require_format(place.root),
        lambda: back_up(place, NODES, f"file:{tmp_path / 'other'}", not_shown),
    ):
        with pytest.raises(TerminalError, match=r"a restore of the backup .* has not ended"):
            act()
    restore(copy, place, not_shown)
    assert is_known(place.root)
    assert {*small_files.names_below(place.root)} == {*small_files.names_below(copy)} - {"backup.json"}


@pytest.mark.parametrize("busy", ["repairs/views.json", "state/totals/standing.json", "erasing/views/x"])
def test_a_lake_in_which_an_act_is_under_way_is_not_backed_up(
    busy: str, driver: Copied, tmp_path: Path
) -> None:
    driver.pipe_through(6)
    small_files.write_json(f"{driver.lake.root}/{busy}", [])
    with pytest.raises(TerminalError, match=f"under way .*{busy}"):
        back_up(driver.lake, NODES, f"file:{tmp_path / 'copy'}", not_shown)


def test_a_log_that_is_cut_while_a_lake_is_backed_up_makes_no_backup(
    driver: Copied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.pipe_through(6)
    moment = backup._moment

    def cut_before(root: str, group: str, paths: list[str]) -> object:
        if group == "log 'views'":
            note_cut(driver.lake, VIEWS, 1, None)
        return moment(root, group, paths)

    monkeypatch.setattr(backup, "_moment", cut_before)
    with pytest.raises(TransientError, match=r"cuts/views\.json"):
        back_up(driver.lake, NODES, f"file:{tmp_path / 'copy'}", not_shown)
