"""Vacuum: a version that was the newest within the retention keeps its files, whatever Delta's tombstones tell."""

from __future__ import annotations

import time

import pytest

from headrace.lake import MAINTAINER, LakeTable, TableWriter, small_files
from headrace.lake.care import upkeep
from headrace.lake.care.vacuum import HOUR_MS, UNUSED, vacuum
from tests.lake.test_upkeep import RECORD, aged, by_row, content, filled, table

__all__ = ["filled", "table"]
pytestmark = pytest.mark.fast


def test_vacuum_deletes_what_an_old_look_found_in_no_version_and_nothing_hidden(filled: LakeTable) -> None:
    before, old = by_row(content(filled)), filled.snapshot()
    files = upkeep.choose(old, "hash", 1000)
    upkeep.compact(filled, TableWriter(filled, MAINTAINER), files, RECORD, column="hash")
    for hidden in ("_guard/0/seen.json", "_settled.json"):
        small_files.write_json(f"{filled.uri}/{hidden}", {})
    small_files.write_json(f"{filled.uri}/part-of-nothing.parquet", {})
    version = filled.version
    assert vacuum(filled, 48) == []
    assert looks(filled) == [], "what is young may be on its way into a commit"
    aged(filled.uri, hours=25)
    assert vacuum(filled, 48) == []
    assert looks(filled) == [["part-of-nothing.parquet"]], "the others left the table a moment ago"
    assert vacuum(filled, 48, settled_hours=0) == []
    assert looks(filled) == [["part-of-nothing.parquet"], sorted(files)]
    first, second = small_files.names(f"{filled.uri}/{UNUSED}")
    looked_before(filled, first, hours=49)
    assert vacuum(filled, 48, settled_hours=0) == ["part-of-nothing.parquet"]
    assert looks(filled) == [sorted(files)]
    looked_before(filled, second, hours=47)
    assert vacuum(filled, 48, settled_hours=0) == []
    assert vacuum(filled, 46, settled_hours=0) == sorted(files)
    assert vacuum(filled, 0, settled_hours=0) == [], "what is gone is not named again"
    assert looks(filled) == []
    assert filled.version == version
    assert small_files.exists(f"{filled.uri}/_guard/0/seen.json")
    assert small_files.exists(f"{filled.uri}/_settled.json")
    assert by_row(content(filled)) == before


def test_a_file_that_a_version_names_again_is_not_deleted_and_is_looked_at_anew(filled: LakeTable) -> None:
    from deltalake import DeltaTable

    before, old = by_row(content(filled)), filled.snapshot()
    files = upkeep.choose(old, "hash", 1000)
    upkeep.compact(filled, TableWriter(filled, MAINTAINER), files, RECORD, column="hash")
    assert vacuum(filled, 48, settled_hours=0) == []
    (look,) = small_files.names(f"{filled.uri}/{UNUSED}")
    DeltaTable(filled.uri.removeprefix("file:")).restore(old.version)
    looked_before(filled, look, hours=100)
    assert vacuum(filled, 48, settled_hours=0) == []
    ((unused,),) = looks(filled)
    assert unused not in files, "the compacted file is the one that is unused now"
    assert by_row(content(filled)) == before


def looks(table: LakeTable) -> list[list[str]]:
    """What the looks at a table found, the oldest first."""
    folder = f"{table.uri}/{UNUSED}"
    return [small_files.read_json(f"{folder}/{name}") or [] for name in small_files.names(folder)]


def looked_before(table: LakeTable, look: str, hours: float) -> None:
    """A look was so long ago."""
    folder, then_ms = f"{table.uri}/{UNUSED}", time.time() * 1000 - hours * HOUR_MS
    small_files.write_json(f"{folder}/{round(then_ms)}.json", small_files.read_json(f"{folder}/{look}"))
    small_files.delete(f"{folder}/{look}")
