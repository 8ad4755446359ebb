"""The newest record of a writer is found, however long ago it was."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.lake import APPENDER, MAINTAINER, Commit, LakeTable, TableWriter, carried, create, last_commit
from headrace.lake import table as lake_table
from headrace.lake.commits.commit_file import read_commit
from headrace.lake.commits.history import LostHistoryError, all_carried
from headrace.lake.storage import delta_uri

pytestmark = pytest.mark.fast


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return create(f"file:{tmp_path}/table", pa.schema([("n", pa.int64())]))


def cut(table: LakeTable, below: int) -> None:
    """Other hands remove the commits below a version."""
    table.checkpoint()
    for version in range(below):
        Path(f"{table.uri.removeprefix('file:')}/_delta_log/{version:020d}.json").unlink(missing_ok=True)


def number(found: Commit | None) -> tuple[int, int] | None:
    return None if found is None else (found.version, found.record["number"])


def test_a_record_is_found_by_its_writer_and_version(table: LakeTable) -> None:
    writer = TableWriter(table, APPENDER)
    assert last_commit(table, "a") is None
    for at, name in enumerate("aabab"):
        writer.append([], {"writer": name, "number": at})
    assert number(last_commit(table, "a")) == (5, 3)
    assert number(last_commit(table, "b")) == (6, 4)
    assert number(last_commit(table, "a", through=4)) == (3, 1)
    assert last_commit(table, "b", through=2) is None


def test_a_carried_record_is_found_after_its_commit_was_cleaned(table: LakeTable) -> None:
    writer = TableWriter(table, APPENDER)
    writer.append([], {"writer": "a", "number": 1})
    told = carried(table, ["a", "b"])
    writer.append([], {"writer": "b", "number": 2})  # after the look, before the commit that repeats
    writer.append([], {"writer": "c", "number": 3, **told})
    cut(table, 3)
    assert number(last_commit(table, "a")) == (2, 1)
    assert number(last_commit(table, "b")) == (3, 2)
    assert number(last_commit(table, "c")) == (4, 3)
    with pytest.raises(LostHistoryError, match="its last commit"):
        last_commit(table, "d")


def test_a_commit_that_waited_for_long_does_not_hide_a_newer_repetition(table: LakeTable) -> None:
    writer = TableWriter(table, APPENDER)
    old = carried(table, ["a"])
    writer.append([], {"writer": "a", "number": 1})
    writer.append([], {"writer": "b", **carried(table, ["a"])})
    writer.append([], {"writer": "c", **old})
    cut(table, 3)
    assert number(last_commit(table, "a")) == (2, 1)


def test_all_writers_are_carried_again_and_again(table: LakeTable) -> None:
    writer = TableWriter(table, APPENDER)
    for at, name in enumerate("abc"):
        writer.append([], {"writer": name, "number": at})
    for _ in range(3):
        version = writer.append([], {"writer": "upkeep", **all_carried(table)})
        cut(table, version)
    found = table.commit_at(table.version)
    assert found is not None
    assert found.record is not None
    assert set(found.record["carried"]["last"]) == {"a", "b", "c", "upkeep"}
    assert "carried" not in found.record["carried"]["last"]["upkeep"]["record"]
    assert [number(last_commit(table, name)) for name in "abcd"] == [(2, 0), (3, 1), (4, 2), None]


def test_epochs_are_found_after_others_cleaned_and_not_guessed_where_they_are_lost(table: LakeTable) -> None:
    for epoch in (1, 2, 3):
        assert TableWriter(table, APPENDER).epoch == epoch
    maintainer = TableWriter(table, MAINTAINER)
    cut(table, table.version)
    assert TableWriter(table, APPENDER).epoch == 4
    maintainer.append([], {"writer": "m"})
    _foreign_commit(table)
    cut(table, table.version)
    with pytest.raises(LostHistoryError, match="its writers"):
        TableWriter(LakeTable(table.uri), APPENDER)


def _foreign_commit(table: LakeTable) -> None:
    DeltaTable(delta_uri(table.uri)).alter.set_table_description("by somebody else")


def test_a_writer_goes_on_though_the_version_that_it_looked_at_is_cleaned_away(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(lake_table, "boot_seconds", lambda: now)
    writer = TableWriter(table, APPENDER)
    writer.append([], {"writer": "a", "number": 1})
    version = writer.append([], {"writer": "a", "number": 2})
    cut(table, version + 1)  # all of them: the checkpoint stands for them
    now += lake_table.STANDS_SECONDS + 1
    assert writer.append([], {"writer": "a", "number": 3}) == version + 1


def test_a_commit_is_read_whatever_letters_a_text_in_it_has(table: LakeTable) -> None:
    """delta-rs writes statistics of columns as they are: some letters are ends of lines for Python, and not for JSON."""
    letters = "\u2028\u2029\x85\x1c\x0b\x0c"
    version = TableWriter(table, APPENDER).append([], {"writer": "a", "number": 1})
    path = Path(f"{table.uri.removeprefix('file:')}/_delta_log/{version:020d}.json")
    add = {"add": {"path": "x", "stats": f'{{"maxValues":{{"s":"{letters}"}}}}', "size": 1}}
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps(add, ensure_ascii=False))
    found = read_commit(table.uri, version)
    assert found is not None
    assert found.added == [add["add"]]
