"""A snapshot that is kept up with commit by commit is the one that a fresh look finds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.lake import (
    APPENDER,
    MAINTAINER,
    ConflictError,
    DataFileWriter,
    Encoding,
    LakeTable,
    NewFile,
    TableWriter,
    create,
)
from headrace.lake.care import upkeep
from headrace.lake.commits.commit_file import CommitFile, read_commit
from headrace.lake.commits.snapshot import DataFile, Snapshot
from headrace.lake.storage import delta_uri
from tests.waiting import until

pytestmark = pytest.mark.fast
SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("name", pa.string())])


def written(table: LakeTable, rows: Sequence[tuple[int | None, int | None, str | None]]) -> NewFile:
    """A file; of its texts the bounds are noted if none is null."""
    writer = DataFileWriter(table.uri, SCHEMA, Encoding())
    numbers, times, names = zip(*rows, strict=True)
    columns = {
        "n": pa.array(numbers, pa.int64()),
        "at": pa.array(times, pa.timestamp("us", "UTC")),
        "name": pa.array(names, pa.string()),
    }
    writer.write(columns, len(rows))
    writer.bound_numbers(columns)
    if None not in names:
        writer.bound_by("name", min(names), max(names))
    found = writer.close()
    assert found is not None
    return NewFile(found["path"], found["size"], found["stats"])


def fresh(table: LakeTable) -> Snapshot:
    return LakeTable(table.uri).snapshot()


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return create(f"file:{tmp_path}/a b/table", SCHEMA)


def test_statistics_of_numbers_times_texts_and_nulls(table: LakeTable) -> None:
    at = int(datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp() * 10**6)
    rows = [(3, at, "b"), (None, None, "𠀀"), (-5, at + 1_234_567, "a")]
    file = written(table, rows)
    TableWriter(table, APPENDER).append([file, written(table, [(None, None, None)])], {})
    known = table.snapshot().files[file.path]
    assert known == DataFile(
        file.size,
        3,
        {"n": -5, "at": at, "name": "a"},
        {"n": 3, "at": at + 1_234_567, "name": "𠀀"},
    )
    assert table.snapshot() == fresh(table)
    assert table.snapshot().rows == 4
    assert set(table.snapshot().within("n", -5, -5)) == set(table.snapshot().files)
    assert file.path not in table.snapshot().within("n", 4)
    assert file.path not in table.snapshot().within("at", 0, at - 1)
    assert file.path not in table.snapshot().within("name", "𠀁")


@pytest.mark.parametrize("seed", range(5))
def test_a_snapshot_kept_up_with_is_a_fresh_one(table: LakeTable, seed: int) -> None:
    random, appender, maintainer = Random(seed), TableWriter(table, APPENDER), TableWriter(table, MAINTAINER)
    for step in range(40):
        files = dict(table.snapshot().files)
        chosen = {name: files[name] for name in random.sample(sorted(files), min(len(files), 2))}
        match random.randrange(6):
            case 0 if len(chosen) == 2:
                upkeep.compact(table, maintainer, chosen, {"writer": "compaction"}, column="n")
            case 1 if chosen:
                maintainer.replace(chosen, [], {"writer": "cut"}, changes_data=True)
            case 2 if chosen:
                maintainer.replace(chosen, [written(table, [(step, None, "x")])], {}, changes_data=True)
            case 3:
                table.checkpoint()
            case _:
                rows = [(random.randrange(99), 10**15 + random.randrange(10**9), "é") for _ in range(3)]
                appender.append([written(table, [*rows])], {"writer": "appender"})
    assert table.snapshot() == fresh(table)


def test_a_file_is_replaced_once(table: LakeTable) -> None:
    appender, maintainer = TableWriter(table, APPENDER), TableWriter(table, MAINTAINER)
    appender.append([written(table, [(1, None, None)])], {})
    old = dict(table.snapshot().files)
    maintainer.replace(old, [written(table, [(1, None, None)])], {}, changes_data=False)
    version = table.version
    for writer in (maintainer, appender):
        with pytest.raises(ConflictError):
            writer.replace(old, [written(table, [(1, None, None)])], {}, changes_data=False)
    assert table.version == version
    assert table.snapshot().rows == 1


def test_a_file_that_goes_between_the_look_and_the_commit_is_a_conflict(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    appender, maintainer = TableWriter(table, APPENDER), TableWriter(table, MAINTAINER)
    appender.append([written(table, [(1, None, None)])], {})
    old, put = dict(table.snapshot().files), LakeTable.put

    def beaten(*arguments: object) -> None:
        monkeypatch.setattr(LakeTable, "put", put)
        appender.replace(old, [], {}, changes_data=True)
        put(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(LakeTable, "put", beaten)
    with pytest.raises(ConflictError):
        maintainer.replace(old, [written(table, [(1, None, None)])], {}, changes_data=False)
    assert table.snapshot().files == {}


def test_a_reader_that_slept_while_history_was_cleaned_reads_the_table_anew(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = LakeTable(table.uri)
    writer = TableWriter(sleeper, MAINTAINER)
    appender, maintainer = TableWriter(table, APPENDER), TableWriter(table, "other")
    for step in range(20):
        appender.append([written(table, [(step, None, None)])], {"writer": "appender"})
    table.checkpoint()
    log, long_ago = Path(f"{table.uri.removeprefix('file:')}/_delta_log"), time.time() - 7200
    for path in log.iterdir():
        os.utime(path, (long_ago, long_ago))
    upkeep.clean(table, maintainer)
    assert min(int(path.name[:20]) for path in log.iterdir() if re.match(r"\d{20}\.json", path.name)) > 20
    monkeypatch.setattr("headrace.lake.commits.snapshot.LOOK_SECONDS", 0.0)
    monkeypatch.setattr("headrace.lake.commits.writer.LONG_SECONDS", 0.0)
    sleeper._snapshot._look_at = 0.0
    assert writer.append([], {"writer": "sleeper"}) == table.version
    assert sleeper.snapshot() == table.snapshot() == fresh(table)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commit files that this thread asks for, there or not; beside it, others read ahead after a commit."""
    found: list[str] = []
    really = read_commit

    def noted(table: str, version: int) -> CommitFile | None:
        if threading.current_thread() is threading.main_thread():
            found.append(f"{version}")
        return really(table, version)

    monkeypatch.setattr(
        "headrace.lake.commits.snapshot.LOOK_SECONDS", 3600.0
    )  # it is looked for as it is known
    for module in ("commits.snapshot", "table"):
        monkeypatch.setattr(f"headrace.lake.{module}.read_commit", noted)
    return found


def test_rows_up_to_a_value_that_is_known_ask_nobody_and_beyond_it_the_store(
    table: LakeTable, asked: list[str]
) -> None:
    reader, appender = LakeTable(table.uri), TableWriter(table, APPENDER)
    assert reader.snapshot().rows == 0
    appender.append([written(table, [(5, None, None)])], {})
    assert reader.snapshot().rows == 1
    asked.clear()
    assert reader.snapshot_through("n", 5).rows == 1
    assert not asked
    appender.append([written(table, [(6, None, None)])], {})
    asked.clear()
    assert reader.snapshot_through("n", 5).rows == 1
    assert not asked
    assert reader.snapshot_through("n", 6).rows == 2
    assert reader.snapshot_through("n", 7).rows == 2, "there is no more"
    assert asked


def test_rows_that_somebody_else_took_away_and_gave_back_are_there(table: LakeTable) -> None:
    """A reader that looked in between has a row at the value, but not all rows before it."""
    reader, appender = LakeTable(table.uri), TableWriter(table, APPENDER)
    assert reader.snapshot().rows == 0
    appender.append([written(table, [(5, None, None)])], {})
    appender.append([written(table, [(6, None, None)])], {})
    other = DeltaTable(delta_uri(table.uri))
    other.delete("n = 5")
    assert reader.snapshot().rows == 1
    other.restore(other.version() - 1)
    assert reader.snapshot_through("n", 6).rows == 2


def test_rows_up_to_a_value_are_looked_for_anew_after_a_while(table: LakeTable) -> None:
    """Another process may have packed the files that are known, and deleted them since, or made the table anew."""
    reader, appender = LakeTable(table.uri), TableWriter(table, APPENDER)
    assert reader.snapshot().rows == 0
    for n in (5, 6):
        appender.append([written(table, [(n, None, None)])], {})
    known = reader.snapshot()
    packed = written(table, [(5, None, None), (6, None, None)])
    maintainer = TableWriter(table, MAINTAINER)
    maintainer.replace(table.snapshot().files, [packed], {}, changes_data=False)
    assert reader.snapshot_through("n", 6) == known
    reader._snapshot._look_at = 0.0
    assert [*reader.snapshot_through("n", 6).files] == [packed.path]


def test_a_large_commit_is_not_kept_in_memory(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.lake.commits.snapshot.ACTIONS_MAX", 3)
    appender = TableWriter(table, APPENDER)
    table.snapshot()
    versions = [
        appender.append([written(table, [(n, None, None)]) for n in range(files)], {}) for files in (1, 9)
    ]
    assert table.snapshot().version == versions[-1]
    small, large = (table._snapshot.commit_at(version) for version in versions)
    assert small is not None
    assert large is None
    found = table.commit_at(versions[-1])
    assert found is not None
    assert len(found.added) == 9


PROGRAM = """
import sys, threading
import pyarrow as pa
from headrace.lake import APPENDER, TableWriter, create

appenders = []
for number in range(20):
    table = create(f"{sys.argv[1]}/{number}", pa.schema([("n", pa.int64())]))
    appenders.append(TableWriter(table, APPENDER))
    table.snapshot()
threads = [threading.Thread(target=appender.append, args=([], {})) for appender in appenders]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_a_process_may_end_right_after_its_commits(tmp_path: Path) -> None:
    """Threads that read ahead are inside delta-rs then; when Python ends under them, the process crashes."""
    command = [sys.executable, "-c", PROGRAM, f"file:{tmp_path}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_commit_that_was_seen_is_not_read_again_and_keeps_its_version(
    table: LakeTable, asked: list[str]
) -> None:
    """Also where another one has come between two looks, after columns were added."""
    reader, appender = LakeTable(table.uri), TableWriter(table, APPENDER)
    assert reader.version == table.version
    create(table.uri, SCHEMA.append(pa.field("more", pa.int64())), adds=["more"])
    appender.append([written(table, [(1, None, None)])], {"writer": "first"})
    reader.snapshot()
    appender.append([written(table, [(2, None, None)])], {"writer": "second"})
    reader.snapshot()
    asked.clear()
    for version in range(reader.version, -1, -1):
        found, fresh_one = reader.commit_at(version), read_commit(table.uri, version)
        assert found is not None
        assert fresh_one is not None
        assert (found.version, found.actions) == (version, fresh_one.actions)
    assert "4" in asked, "it came with the table read anew"
    assert f"{reader.version}" not in asked


def test_a_commit_is_read_ahead_for_the_next_one(table: LakeTable) -> None:
    appender = TableWriter(table, APPENDER)
    table.snapshot()
    version = appender.append([written(table, [(1, None, None)])], {})
    until(lambda: table.known_version >= version)
    assert table.known_version == version
    assert appender.append([written(table, [(2, None, None)])], {}) == version + 1
    assert table.snapshot() == fresh(table)


def test_a_process_does_not_miss_its_own_commits_after_those_of_others(table: LakeTable) -> None:
    """Maintenance of another process takes a version: what follows of one's own is in the recent snapshot even so."""
    own, others = TableWriter(table, APPENDER), TableWriter(LakeTable(table.uri), MAINTAINER)
    own.append([written(table, [(1, None, "a")])], {"writer": "own"})
    assert table.recent_snapshot() == fresh(table)
    others.append([], {"writer": "others"})
    for number in range(3):
        own.append([written(table, [(number, None, "b")])], {"writer": "own"})
        assert table.recent_snapshot() == fresh(table)


def test_within_names_the_files_that_may_have_such_rows() -> None:
    rng = Random(3)
    bounds = [{}, {"n": 4}, {"n": -2}, {"n": 9}, {"at": 1}]
    files = {str(n): DataFile(1, 1, rng.choice(bounds), rng.choice(bounds)) for n in range(60)}
    for first, last in ((0, None), (4, 4), (-9, 3), (5, 20)):
        known = {name: file for name, file in files.items() if file.may_have("n", first, last)}
        assert Snapshot(1, files).within("n", first, last) == known
        assert 0 < len(known) < len(files)
