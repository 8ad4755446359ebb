"""A fold aside that was killed goes on after its last increment; if anything that it follows from has changed, it begins anew."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.engine.state_files import StateSource
from headrace.lake import small_files
from headrace.lake.care.alter import name_past, rewritable
from headrace.lifecycle.rebuilds.meeting_point import standing
from headrace.nodes.balances.opening import Opening
from headrace.nodes.node_tables import read_progress
from headrace.nodes.standing import next_increment
from headrace.writing import fold_aside
from headrace.writing.fold_aside import FoldedAside, kept_fold
from tests.changing.living import Living
from tests.lake import other_hands
from tests.no_spark import no_session
from tests.rows import file_rows
from tests.runtime.folds import BY_SENSOR, FINAL, PIECE, READINGS, SENSORS, TOTALS, feed, one_commit
from tests.runtime.line import Line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

pytestmark = pytest.mark.fast

COMMITS = 6
ALL = COMMITS * PIECE
CHANGED = BY_SENSOR.aggregate(n=hr.count(), highest=hr.max("value")).named("totals")


class Killed(BaseException):
    """Stands for a kill: nothing is cleaned up on the way out, as a test with a real one shows."""


@pytest.fixture(autouse=True)
def small_increments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_increment, "reach", one_commit)


def fed(spark: SparkSession, lake: Lake, node: Node) -> Line:
    line = Line(spark, lake, node)
    feed(line, range(COMMITS))
    return line


def place(lake: Lake) -> str:
    return f"{lake.root}/aside"


def fold(line: Line, *, kills_at: int | None = None, upto_ms: int | None = None, **more: Any) -> list[int]:
    """How many records are folded, each time that it is told. In: more  of the fold, in place of the line's."""
    node = more.pop("node", line.node)
    stands_ms = read_progress(line.lake, line.node).upto_ms["readings"]
    marks = {"readings": stands_ms if upto_ms is None else upto_ms}
    told: list[int] = []

    def folded(_: Node, records: int) -> None:
        told.append(records)
        if records == kills_at:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        if code := more.pop("code", None):
            patch.setattr(fold_aside, "code_digest", lambda: code)
        aside = kept_fold(line.spark, line.lake, [node], place(line.lake), lambda _: marks, **more)
    try:
        aside.advance(folded)
    except Killed:
        return told
    assert aside.folded(node).progress.upto_ms == marks
    return told


def rows_aside(line: Line) -> dict[str, Any]:
    """The rows of results and state of the fold, in their order."""
    note: Any = small_files.read_json(f"{place(line.lake)}/{fold_aside.NOTE}")
    return _rows(replace(line.lake, nodes=f"{place(line.lake)}/{note['folder']}"), line.node)


def _rows(lake: Lake, node: Node) -> dict[str, Any]:
    uris = {"results": lake.table(node.required_name), "state": lake.state(node.required_name)}
    return {what: sorted(map(repr, file_rows(uri))) for what, uri in uris.items()}


@pytest.mark.parametrize("node", [FINAL, TOTALS], ids=lambda node: node.required_name)
def test_a_fold_goes_on_after_its_last_increment(lake: Lake, node: Node) -> None:
    line = fed(no_session(), lake, node)
    assert fold(line, kills_at=4) == [0, 2, 4]
    assert fold(line, kills_at=6) == [4, 6]
    feed(line, range(COMMITS, COMMITS + 1))  # the stream goes on meanwhile
    assert fold(line) == [6, 8, 10, 12, 14]
    assert rows_aside(line) == _rows(lake, node)
    assert fold(line) == [14], "nothing is left"


def test_a_fold_from_a_balance_goes_on_after_its_last_increment(lake: Lake) -> None:
    line = fed(no_session(), lake, TOTALS)
    cut_ms = {"readings": read_progress(lake, TOTALS).upto_ms["readings"] - 3 * 60_000}
    cut = FoldedAside(line.spark, lake, [TOTALS], f"{lake.root}/cut", lambda _: cut_ms)
    cut.advance()
    balance = Opening(cut.folded(TOTALS).progress, cut.folded(TOTALS).source)
    assert fold(line, kills_at=8, opening=balance) == [6, 8]
    assert fold(line, opening=balance) == [8, 10, 12]
    assert rows_aside(line)["state"] == _rows(lake, TOTALS)["state"]


def test_a_fold_reaches_where_the_tables_stand_though_the_log_has_lost_its_end(lake: Lake) -> None:
    line = fed(no_session(), lake, TOTALS)
    stands_ms = read_progress(lake, TOTALS).upto_ms["readings"]
    assert fold(line, upto_ms=stands_ms + 1_000, opening=Opening())[-1] == ALL


def test_an_increment_whose_results_are_there_and_whose_state_is_not_is_repeated(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = fed(no_session(), lake, FINAL)
    append, commits = lakes.TableWriter.append, list[str]()

    def dies(writer: lakes.TableWriter, added: Any, record: Any) -> int:
        if writer.uri.startswith(place(lake)) and "/state/" in writer.uri:
            commits.append(writer.uri)
            if len(commits) == 5:  # its increment closes a window
                raise Killed
        return append(writer, added, record)

    monkeypatch.setattr(lakes.TableWriter, "append", dies)
    assert fold(line) == [0, 2, 4, 6, 8]
    monkeypatch.undo()
    monkeypatch.setattr(next_increment, "reach", lambda lake, done_ms, upto_ms: max(upto_ms.values()))
    assert fold(line) == [8, 10, 12], "it goes as far as before, though the next one would go further"
    assert rows_aside(line)["results"] == _rows(lake, FINAL)["results"]


def test_nodes_that_read_each_other_go_on_together(tmp_path: Path) -> None:
    chain = [FINAL, FINAL.as_stream().group_by("sensor_id").aggregate(windows=hr.count()).named("second")]
    living = Living(no_session(), tmp_path / "lake", READINGS)
    for minute in range(COMMITS):
        living.commit(*((minute, sensor, minute + 0.5) for sensor in SENSORS))
    living.fold(chain)

    def folded_aside(kills_at: tuple[str, int] | None = None) -> tuple[FoldedAside, list[tuple[str, int]]]:
        told: list[tuple[str, int]] = []

        def folded(node: Node, records: int) -> None:
            told.append((node.required_name, records))
            if told[-1] == kills_at:
                raise Killed

        aside = kept_fold(
            living.spark,
            living.lake,
            chain,
            place(living.lake),
            lambda node: standing(living.lake, node) or {},
        )
        with suppress(Killed):
            aside.advance(folded)
        return aside, told

    assert folded_aside(("final", 6))[1] == [("final", done) for done in (0, 2, 4, 6)]
    assert folded_aside(("second", 2))[1][-2:] == [("second", 0), ("second", 2)]
    aside, told = folded_aside()
    assert told[:2] == [("final", ALL), ("second", 2)]
    for node in chain:
        assert _rows(aside.lake, node) == _rows(living.lake, node)


def _maintainer(line: Line) -> lakes.TableWriter:
    return lakes.TableWriter(
        lakes.open_table(line.lake.log("readings")), lakes.MAINTAINER, carries=["log/readings"]
    )


def older_rows_change(line: Line) -> dict[str, Any]:
    with rewritable(_maintainer(line), {"writer": "erasure/log/readings"}):
        pass
    return {}


def lost_rows_come_back(line: Line) -> dict[str, Any]:
    name_past(_maintainer(line), {"writer": "repair/log/readings"})
    return {}


def the_log_is_made_anew(line: Line) -> dict[str, Any]:
    uri = line.lake.log("readings")
    small_files.delete(uri)
    lakes.forget(uri)
    del vars(line)["sequencer"], vars(line)["_piped"]
    line.clock.set(line.clock.now_ms() - COMMITS * 60_000)
    node, line.runner = (
        line.runner,
        Line(line.spark, replace(line.lake, nodes=f"{line.lake.root}/other"), line.node).runner,
    )
    feed(line, range(COMMITS))
    line.runner = node
    return {}


def the_description_changes(line: Line) -> dict[str, Any]:
    return {"node": CHANGED}


def the_node_has_another_balance(line: Line) -> dict[str, Any]:
    balance = Opening(read_progress(line.lake, line.node), StateSource(f"{line.lake.root}/balance"))
    return {"opening": replace(balance, progress=replace(balance.progress, upto_ms={}))}


def the_code_changes(line: Line) -> dict[str, Any]:
    return {"code": "another digest"}


def the_tables_go_back(line: Line) -> dict[str, Any]:
    return {"upto_ms": read_progress(line.lake, line.node).upto_ms["readings"] - (COMMITS - 1) * 60_000}


@pytest.mark.parametrize(
    "change",
    [
        older_rows_change,
        lost_rows_come_back,
        the_log_is_made_anew,
        the_description_changes,
        the_code_changes,
        the_node_has_another_balance,
        the_tables_go_back,
    ],
    ids=lambda change: change.__name__,
)
def test_a_fold_of_something_else_begins_anew(lake: Lake, change: Callable[[Line], dict[str, Any]]) -> None:
    line = fed(no_session(), lake, TOTALS)
    assert fold(line, kills_at=4) == [0, 2, 4]
    before = small_files.names(place(lake))
    assert fold(line, **change(line))[0] == 0
    assert len(small_files.names(place(lake))) == 2, "the fold before is gone"
    assert not {*small_files.names(place(lake))} & {*before} - {fold_aside.NOTE}


def test_a_fold_whose_deletion_broke_off_is_none_to_go_on_with(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = fed(no_session(), lake, TOTALS)
    fold(line, kills_at=4)
    delete = small_files.delete

    def dies(uri: str) -> None:
        if uri == place(lake):
            delete(f"{uri}/{small_files.names(uri)[0]}/state")
            raise Killed
        delete(uri)

    monkeypatch.setattr(small_files, "delete", dies)
    with pytest.raises(Killed):
        fold_aside.drop_aside(place(lake))
    monkeypatch.undo()
    monkeypatch.setattr(next_increment, "reach", one_commit)
    assert fold(line)[0] == 0
    assert rows_aside(line) == _rows(lake, TOTALS)


def test_a_fold_does_not_go_on_over_rows_that_somebody_else_has_changed(lake: Lake) -> None:
    line = fed(no_session(), lake, TOTALS)
    assert fold(line)[-1] == ALL
    other_hands.delete(lake.log("readings"), "offset = 0")
    with pytest.raises(lakes.ForeignCommitError):
        fold(line)
