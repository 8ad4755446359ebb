"""Upkeep: the rows stay the same, the newest records are found, and readers of older versions find their files."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from headrace.lake import (
    APPENDER,
    MAINTAINER,
    DataFileWriter,
    Encoding,
    LakeTable,
    NewFile,
    TableWriter,
    create,
    forget,
    kinds,
    open_table,
    small_files,
)
from headrace.lake import table as lake_table
from headrace.lake.care import upkeep
from headrace.lake.commits.history import last_commit
from headrace.lake.files import sorted_rows, stored_file
from headrace.lake.table import CHECKPOINT_EVERY
from headrace.writing import table_upkeep
from headrace.writing.scheduling import Turns

pytestmark = pytest.mark.fast
SCHEMA = pa.schema(
    [
        ("hash", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
        ("value", pa.struct([("n", pa.int32()), ("text", pa.string())])),
    ]
)
RECORD = {"writer": "compaction"}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def rows_of(random: Random, rows: int, below: int = 1000) -> pa.Table:
    hashes = sorted(random.randrange(below) for _ in range(rows))
    return pa.table(
        {
            "hash": hashes,
            "at": [BEGIN + timedelta(milliseconds=random.randrange(10**6)) for _ in hashes],
            "name": [random.choice(("a", "b", "ü" * 40)) for _ in hashes],
            "value": [random.choice((None, {"n": hash_, "text": None})) for hash_ in hashes],
        },
        schema=SCHEMA,
    )


def written(table: LakeTable, rows: pa.Table, group_rows: int = 7) -> NewFile:
    writer = DataFileWriter(table.uri, SCHEMA, Encoding())
    for at in range(0, rows.num_rows, group_rows):
        part = rows.slice(at, group_rows)
        columns = dict(zip(part.column_names, part.columns, strict=True))
        writer.write(columns, part.num_rows)
        writer.bound_numbers(columns)
    names = rows["name"].to_pylist()
    writer.bound_by("name", min(names)[:32], max(names)[:32] + "\U0010ffff")
    found = writer.close()
    assert found is not None
    return NewFile(found["path"], found["size"], found["stats"])


def content(table: LakeTable) -> list[dict[str, Any]]:
    return [row for name in table.snapshot().files for row in stored(table, name)]


def stored(table: LakeTable, name: str) -> list[dict[str, Any]]:
    found = small_files.read_bytes(f"{table.uri}/{name}")
    assert found is not None, name
    return list(pq.read_table(pa.BufferReader(found)).to_pylist())


def by_row(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def aged(uri: str, hours: float = 2) -> None:
    """Everything below a folder was written so long ago."""
    long_ago = time.time() - hours * 3600
    for path in Path(uri.removeprefix("file:")).rglob("*"):
        if path.is_file():
            os.utime(path, (long_ago, long_ago))


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return create(f"file:{tmp_path}/table", SCHEMA, kinds.state(("hash", "at", "name")))


@pytest.fixture
def filled(table: LakeTable) -> LakeTable:
    appender, random = TableWriter(table, APPENDER), Random(3)
    for rows in (40, 30, 50, 500):
        appender.append([written(table, rows_of(random, rows))], {"writer": "appender"})
    return table


def test_compacted_rows_stay_and_are_in_order(filled: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "GROUP_ROWS", 25)
    before, old = by_row(content(filled)), filled.snapshot()
    files = upkeep.choose(old, "hash", 1000)
    assert sorted(file.rows or 0 for file in files.values()) == [30, 40, 50]
    writer = TableWriter(filled, MAINTAINER)
    assert upkeep.compact(filled, writer, files, RECORD, column="hash") == filled.version
    assert by_row(content(filled)) == before
    (name,) = filled.snapshot().files.keys() - old.files.keys()
    hashes = [row["hash"] for row in stored(filled, name)]
    assert hashes == sorted(hashes)
    metadata = pq.ParquetFile(filled.uri.removeprefix("file:") + f"/{name}").metadata
    assert [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)] == [25, 25, 25, 25, 20]
    kept = filled.snapshot().files[name]
    assert (kept.rows, kept.lowest["hash"], kept.highest["hash"]) == (120, min(hashes), max(hashes))
    assert kept.lowest["at"] == min(file.lowest["at"] for file in files.values())
    assert kept.highest["name"] == max(str(file.highest["name"]) for file in files.values())
    assert all(stored(filled, name) for name in old.files)  # a reader of the older version
    forget()
    assert open_table(filled.uri).snapshot().files[name] == kept


def test_files_in_no_order_and_with_nulls_are_compacted(table: LakeTable) -> None:
    appender, random = TableWriter(table, APPENDER), Random(5)
    for _ in range(3):
        rows = rows_of(random, 40).to_pylist()
        random.shuffle(rows)
        rows[3]["hash"] = None
        appender.append([written(table, pa.Table.from_pylist(rows, schema=SCHEMA))], {"writer": "appender"})
    before, files = by_row(content(table)), table.snapshot().files
    upkeep.compact(table, TableWriter(table, MAINTAINER), files, RECORD, column="hash")
    after = content(table)
    assert by_row(after) == before
    hashes = [row["hash"] for row in after]
    assert hashes[:117] == sorted(hashes[:117])
    assert hashes[117:] == [None] * 3


def test_a_file_with_rows_beyond_is_not_chosen_nor_one_that_outweighs_the_others(filled: LakeTable) -> None:
    snapshot = filled.snapshot()
    highest = sorted(int(file.highest["hash"]) for file in snapshot.files.values())
    assert all(
        int(file.highest["hash"]) <= highest[2]
        for file in upkeep.choose(snapshot, "hash", highest[2]).values()
    )
    assert upkeep.choose(snapshot, "hash", highest[0]) == {}  # one alone
    assert upkeep.choose(snapshot, "value", 10**9) == {}  # nothing is known


def test_an_append_between_choice_and_commit_stays(filled: LakeTable) -> None:
    files = upkeep.choose(filled.snapshot(), "hash", 1000)
    maintainer, more = TableWriter(filled, MAINTAINER), rows_of(Random(8), 9)
    TableWriter(filled, APPENDER).append([written(filled, more)], {"writer": "appender"})
    before = by_row(content(filled))
    assert upkeep.compact(filled, maintainer, files, RECORD, column="hash") is not None
    assert by_row(content(filled)) == before


def test_a_compaction_of_a_file_that_is_gone_is_skipped(filled: LakeTable) -> None:
    files, before = upkeep.choose(filled.snapshot(), "hash", 1000), by_row(content(filled))
    maintainer = TableWriter(filled, MAINTAINER)
    assert upkeep.compact(filled, maintainer, files, RECORD, column="hash") is not None
    version, stored_before = filled.version, small_files.usage(filled.uri)
    assert upkeep.compact(filled, maintainer, files, RECORD, column="hash") is None
    assert (filled.version, small_files.usage(filled.uri)) == (version, stored_before)
    assert by_row(content(filled)) == before


def commits(table: LakeTable) -> list[int]:
    names = small_files.names(f"{table.uri}/_delta_log")
    return [int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name)]


def test_clean_up_keeps_the_last_hour_and_the_newest_record_of_each_writer(filled: LakeTable) -> None:
    maintainer = TableWriter(filled, MAINTAINER)
    maintainer.append([], {"writer": "rare", "number": 7})
    before, newest = by_row(content(filled)), last_commit(filled, "appender")
    filled.checkpoint()
    young = filled.version
    upkeep.clean(filled, maintainer)
    assert commits(filled) == list(range(young + 2))
    aged(f"{filled.uri}/_delta_log")
    TableWriter(filled, APPENDER).append([], {"writer": "appender", "next": 1})
    filled.checkpoint()
    upkeep.clean(filled, maintainer)
    kept = commits(filled)
    assert min(kept) >= young
    assert kept[-1] == filled.version
    forget()
    again = open_table(filled.uri)
    rare, newest_now = last_commit(again, "rare"), last_commit(again, "appender")
    assert rare is not None
    assert rare.record["number"] == 7
    assert newest is not None
    assert newest_now is not None
    assert newest_now.record["next"] == 1
    assert last_commit(again, "nobody") is None
    assert by_row(content(again)) == before
    assert TableWriter(again, APPENDER).epoch == 3
    maintainer.append([], {"writer": "rare"})  # goes on over what was cleaned


def test_upkeep_bounds_the_history_and_repeats_no_record_in_a_record(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CLEAN_EVERY", 100)
    appender = TableWriter(table, APPENDER)
    keeper = upkeep.Upkeep(table, lambda: TableWriter(table, upkeep.UPKEEP))
    for number in range(600):
        appender.append([], {"writer": "appender", "next": number})
        keeper.run()
        if number % 100 == 0:
            aged(f"{table.uri}/_delta_log")
    assert len(commits(table)) <= 310
    text = small_files.read_text(f"{table.uri}/_delta_log/{commits(table)[-1]:020d}.json")
    assert text is not None
    assert len(text) < 2000
    found = last_commit(table, "appender")
    assert found is not None
    assert found.record["next"] == 599


def test_sorted_rows_are_read_from_an_object_store(
    filled: LakeTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from obstore.store import LocalStore

    uris = [f"{filled.uri}/{name}" for name in filled.snapshot().files]
    wanted = list(sorted_rows.sorted_rows(uris, SCHEMA, "hash"))
    root = f"file:{tmp_path}/"
    monkeypatch.setattr(sorted_rows, "is_local", lambda uri: False)
    monkeypatch.setattr(
        stored_file, "store_of", lambda uri: (LocalStore(str(tmp_path)), uri.removeprefix(root))
    )
    found = list(sorted_rows.sorted_rows(uris, SCHEMA, "hash"))
    assert pa.concat_tables(found).equals(pa.concat_tables(wanted))
    assert pa.concat_tables(found).num_rows == 620


def test_compaction_holds_few_groups_of_rows_at_a_time(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    appender, random = TableWriter(table, APPENDER), Random(9)
    for _ in range(3):
        appender.append([written(table, rows_of(random, 2000), 50)], {"writer": "appender"})
    uris = [f"{table.uri}/{name}" for name in table.snapshot().files]
    sizes = [rows.num_rows for rows in sorted_rows.sorted_rows(uris, SCHEMA, "hash")]
    assert sum(sizes) == 6000
    assert max(sizes) <= 3 * 2 * 50


def test_upkeep_goes_on_after_another_process_took_its_role(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CLEAN_EVERY", 50)
    monkeypatch.setattr(lake_table, "UPKEEP_SECONDS", 0)  # the commits are another process'
    appender = TableWriter(table, APPENDER)
    keepers = [
        upkeep.Upkeep(LakeTable(table.uri), lambda: TableWriter(table, upkeep.UPKEEP)) for _ in range(2)
    ]
    for number in range(400):
        appender.append([], {"writer": "appender", "next": number})
        keepers[number // 60 % 2].run()
    found = last_commit(table, "upkeep")
    assert found is not None
    assert found.version > 300


def results_table(tmp_path: Path, **settings: str) -> LakeTable:
    return create(f"file:{tmp_path}/results", SCHEMA, {**kinds.RESULTS, **settings})


def test_a_table_of_results_keeps_a_number_of_commits_and_each_of_these_versions_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CLEAN_EVERY", 40)
    table, random = results_table(tmp_path, **{kinds.COMMITS_MAX: "60"}), Random(4)
    appender = TableWriter(table, APPENDER)
    keeper = upkeep.Upkeep(table, lambda: TableWriter(table, upkeep.UPKEEP))
    for number in range(150):
        appender.append([written(table, rows_of(random, 1))], {"writer": "appender", "next": number})
        keeper.run()
    assert min(commits(table)) == 0, "young commits stay, however many there are"
    monkeypatch.setattr(upkeep, "YOUNG_MS", 0)
    for number in range(150, 300):
        appender.append([written(table, rows_of(random, 1))], {"writer": "appender", "next": number})
        keeper.run()
    kept = commits(table)
    assert 60 <= len(kept) <= 60 + 40 + 2 * 20 + 3
    forget()
    found = last_commit(open_table(table.uri), "appender")
    assert found is not None
    assert found.record["next"] == 299
    assert open_table(table.uri).snapshot().rows == 300
    oldest = DeltaTable(table.uri.removeprefix("file:"), version=kept[0])
    assert oldest.to_pyarrow_table().num_rows < 300


def test_appended_results_are_packed_beside_a_maintainer_that_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_upkeep, "FILES_MAX", 20)
    table, random = results_table(tmp_path), Random(6)
    appender, backfill = TableWriter(table, APPENDER), TableWriter(table, MAINTAINER)
    keeper = table_upkeep.TableUpkeep(lambda: [table.uri], Turns(1), appended=lambda: [table.uri])
    most = 0
    for number in range(100):
        appender.append([written(table, rows_of(random, 3))], {"writer": "appender", "next": number})
        keeper._keep_all()
        most = max(most, len(table.snapshot().files))
    assert most <= 21
    assert len(content(table)) == 300
    before = by_row(content(table))
    backfill.append([], {"writer": "backfill"})
    assert by_row(content(table)) == before


def test_a_table_with_many_files_gets_a_checkpoint_less_often(table: LakeTable) -> None:
    appender, random = TableWriter(table, APPENDER), Random(8)
    appender.append([written(table, rows_of(random, 1)) for _ in range(1000)], {"writer": "appender"})
    while not table.wants_checkpoint:
        appender.append([], {"writer": "appender"})
    assert table.version == CHECKPOINT_EVERY + 1


def test_groups_of_large_rows_are_bounded_by_their_bytes_in_memory() -> None:
    """A thousand rows of 10 KB that compress to nothing: a group of them does not fill the memory."""
    rows = pa.table({"hash": range(1_000), "text": ["x" * 10_000] * 1_000})
    groups = [*upkeep._grouped([rows.slice(at, 250) for at in range(0, 1_000, 250)], 900, 1_000_000)]
    assert max(group.nbytes for group in groups) < 2_000_000
    assert max(group.num_rows for group in groups) >= 90
    assert pa.concat_tables(groups).equals(rows)
    (whole,) = upkeep._grouped([rows.slice(0, 7), rows.slice(7)], 1_000)
    assert whole.num_rows == 1_000
