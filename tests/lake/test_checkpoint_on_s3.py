"""A checkpoint that is made in a copy of the log is the one that delta-rs makes on the store, for far fewer requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.lake import (
    APPENDER,
    MAINTAINER,
    LakeTable,
    TableWriter,
    create,
    forget,
    kinds,
    last_commit,
    open_table,
    small_files,
)
from headrace.lake.care import upkeep
from headrace.lake.care.alter import set_properties
from headrace.lake.commits import checkpoint, snapshot
from headrace.lake.commits.checkpoint import last_checkpoint, write_checkpoint
from headrace.lake.files import object_files
from headrace.lake.storage import delta_uri, storage_options
from headrace.observe.duckdb_readers import load_readers
from tests.lake.fenced_process import SCHEMA, written
from tests.watched_store import WatchedStore

pytestmark = pytest.mark.s3
COMMITS = 40


class Worked:
    """A table at work: rows come, files are put into one, a property changes."""

    def __init__(self, uri: str) -> None:
        self.table = create(uri, SCHEMA, kinds.log(("position",)))
        self._appender, self._next = TableWriter(self.table, APPENDER), 0
        self._maintainer = TableWriter(self.table, MAINTAINER)

    def commit(self, commits: int) -> None:
        for _ in range(commits):
            self._next += 1
            record = {"writer": "appender", "next": self._next}
            self._appender.append([written(self.table, self._next)], record)

    def compact(self) -> None:
        files = upkeep.choose(self.table.snapshot(), "position", self._next - 2)
        record = {"writer": "compaction"}
        assert upkeep.compact(self.table, self._maintainer, files, record, column="position") is not None

    def maintain(self) -> None:
        self._maintainer.append([], {"writer": "maintenance"})

    def clean(self) -> None:
        upkeep.clean(self.table, TableWriter(self.table, upkeep.UPKEEP))

    def alter(self) -> None:
        assert (
            set_properties(self._maintainer, {"headrace.test": "yes"}, {"writer": "compaction"}) is not None
        )


def taken(store: WatchedStore, work: Callable[[], Any]) -> dict[str, int]:
    """The requests that something takes, by kind."""
    before = store.requests()
    work()
    return dict(store.requests() - before)


@pytest.fixture
def worked(s3_root: str) -> Worked:
    return Worked(f"{s3_root}/ta ble")


def log_of(table: LakeTable) -> str:
    return f"{table.uri}/_delta_log"


def by_delta_rs(table: LakeTable) -> DeltaTable:
    return DeltaTable(delta_uri(table.uri), storage_options=storage_options(table.uri))


def checkpoint_name(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def actions(table: LakeTable, version: int) -> list[str]:
    content = small_files.read_bytes(f"{log_of(table)}/{checkpoint_name(version)}")
    assert content is not None
    return sorted(json.dumps(row, default=str) for row in pq.read_table(BytesIO(content)).to_pylist())


def pointer_of(table: LakeTable) -> dict[str, Any]:
    return dict(small_files.read_json(f"{log_of(table)}/_last_checkpoint") or {})


def positions(table: pa.Table) -> list[int]:
    return sorted(table["position"].to_pylist())


def test_it_has_the_actions_of_one_made_on_the_store_and_all_readers_open_the_table_by_it(
    worked: Worked,
) -> None:
    table, log = worked.table, log_of(worked.table)
    some, more = partial(worked.commit, 12), partial(worked.commit, 3)
    for step in (some, worked.compact, worked.alter, more):
        step()
        version = table.version
        assert write_checkpoint(table.uri) == version == last_checkpoint(table.uri)
        ours, pointer = actions(table, version), pointer_of(table)
        by_delta_rs(table).create_checkpoint()
        assert actions(table, version) == ours
        assert {**pointer, "sizeInBytes": 0} == {**pointer_of(table), "sizeInBytes": 0}
    for commit in range(table.version):  # so the checkpoint alone can tell
        small_files.delete(f"{log}/{commit:020d}.json")
    forget()
    wanted = list(range(1, 16))
    again = open_table(table.uri)
    assert again.snapshot().rows == len(wanted)
    assert len(again.snapshot().files) < 10
    found = last_commit(again, "appender")
    assert found is not None
    assert found.record["next"] == 15
    assert positions(by_delta_rs(table).to_pyarrow_table()) == wanted
    with duckdb.connect() as reader:
        load_readers(reader, table.uri)
        found_there = reader.execute(f"SELECT position FROM delta_scan('{delta_uri(table.uri)}')").fetchall()
    assert sorted(position for (position,) in found_there) == wanted


def test_it_takes_a_handful_of_requests_and_one_more_for_each_commit_of_others(
    worked: Worked, object_store: WatchedStore
) -> None:
    worked.commit(COMMITS)
    first = taken(object_store, worked.table.checkpoint)
    worked.commit(COMMITS)
    second = taken(object_store, worked.table.checkpoint)
    worked.commit(COMMITS)
    object_files.OWN_OBJECTS.clear()
    of_others = taken(object_store, worked.table.checkpoint)
    worked.commit(COMMITS)
    on_the_store = taken(object_store, lambda: by_delta_rs(worked.table).create_checkpoint())
    assert max(first["PUT"], second["PUT"], of_others["PUT"]) <= 3, (
        "the server may count the commit before late"
    )
    assert first["LIST"] == second["LIST"] == of_others["LIST"] == 1
    assert max(first["GET"], second["GET"]) <= 6
    assert COMMITS <= of_others["GET"] <= COMMITS + 6
    assert on_the_store["GET"] > 3 * COMMITS
    assert last_checkpoint(worked.table.uri) == worked.table.version


def test_a_maintainer_judges_the_commits_of_its_own_process_without_requests(
    worked: Worked, object_store: WatchedStore
) -> None:
    worked.commit(1)
    worked.maintain()
    worked.commit(COMMITS)
    assert taken(object_store, worked.maintain).keys() == {"PUT"}
    worked.commit(COMMITS)
    worked.table.checkpoint()
    assert taken(object_store, worked.clean)["GET"] < COMMITS


def test_no_commit_is_remembered_of_a_table_that_was_made_anew(
    worked: Worked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "LOOK_SECONDS", 0.0)
    table = worked.table
    table.forget()
    assert table.version == 2
    worked.commit(20)
    known = table.commit_at(7)
    assert known is not None
    assert known.fence is not None
    small_files.delete(table.uri)
    for position in range(10):
        rows = pa.table({"position": [position]})
        write_deltalake(delta_uri(table.uri), rows, mode="append", storage_options=storage_options(table.uri))
    assert table.version == 9
    for version in range(10):
        found = table.commit_at(version)
        assert found is not None
        assert found.fence is None


def test_two_processes_that_write_one_at_once_leave_one_that_is_whole(worked: Worked) -> None:
    worked.commit(5)
    uri, version = worked.table.uri, worked.table.version
    with ThreadPoolExecutor(4) as pool:
        assert {*pool.map(write_checkpoint, [uri] * 4)} == {version}
    assert last_checkpoint(uri) == version
    forget()
    assert open_table(uri).snapshot().rows == 5
    assert write_checkpoint(uri) == version, "nothing is due"


def test_a_pointer_never_goes_back(worked: Worked, monkeypatch: pytest.MonkeyPatch) -> None:
    table = worked.table
    worked.commit(3)

    def further() -> None:
        worked.commit(2)
        by_delta_rs(table).create_checkpoint()

    slow = Meanwhile(monkeypatch, further)
    version = table.version
    assert write_checkpoint(table.uri) == version
    assert slow.called
    assert last_checkpoint(table.uri) == version + 2


def test_nothing_is_put_into_a_table_that_was_made_anew_meanwhile(
    worked: Worked, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = worked.table.uri
    worked.commit(3)

    def made_anew() -> None:
        small_files.delete(uri)
        forget()
        Worked(uri).commit(9)

    slow = Meanwhile(monkeypatch, made_anew)
    assert write_checkpoint(uri) is None
    assert slow.called
    assert last_checkpoint(uri) == -1
    assert not [name for name in small_files.names(f"{uri}/_delta_log") if "checkpoint" in name]


class Meanwhile:
    """Something that happens once, while delta-rs writes the checkpoint in the copy."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> None:
        self.called, made = False, checkpoint._by_delta_rs

        def slow(*given: Any) -> Any:
            written = made(*given)
            if not self.called:
                self.called = True
                work()
            return written

        monkeypatch.setattr(checkpoint, "_by_delta_rs", slow)


def test_what_only_delta_rs_reads_is_left_to_it(worked: Worked) -> None:
    """A checkpoint in several files; a commit that is gone; a feature that is not plain."""
    table, log = worked.table, log_of(worked.table)
    worked.commit(3)
    version = table.checkpoint()
    name, pointer = f"{log}/{version:020d}.checkpoint", pointer_of(table)
    small_files.copy(f"{name}.parquet", f"{name}.0000000001.0000000001.parquet")
    small_files.delete(f"{name}.parquet")
    small_files.write_json(f"{log}/_last_checkpoint", {**pointer, "parts": 1})
    worked.commit(3)
    assert write_checkpoint(table.uri) is None
    assert table.checkpoint() == table.version == last_checkpoint(table.uri)
    forget()
    assert open_table(table.uri).snapshot().rows == 6

    worked.commit(3)
    gone = f"{log}/{table.version - 1:020d}.json"
    content = small_files.read_bytes(gone)
    small_files.delete(gone)
    assert write_checkpoint(table.uri) is None
    assert content is not None
    small_files.write_bytes(gone, content)
    assert write_checkpoint(table.uri) == table.version

    vectors = f"{table.uri} with vectors"
    enabled = {"delta.enableDeletionVectors": "true"}
    DeltaTable.create(
        delta_uri(vectors), SCHEMA, configuration=enabled, storage_options=storage_options(vectors)
    )
    assert write_checkpoint(vectors) is None
    assert LakeTable(vectors).checkpoint() == 0
    assert last_checkpoint(vectors) == 0


def test_a_checkpoint_with_files_beside_the_log_is_left_to_delta_rs(worked: Worked) -> None:
    """As Delta's second kind of checkpoint is, under the name of the first."""
    table, log = worked.table, log_of(worked.table)
    worked.commit(3)
    version = table.checkpoint()
    name = f"{log}/{checkpoint_name(version)}"
    content = small_files.read_bytes(name)
    assert content is not None
    plain = pq.read_table(BytesIO(content))
    rows = [row for row in plain.to_pylist() if row["add"] is None]
    beside = {"path": "added.parquet", "sizeInBytes": 1, "modificationTime": 1, "tags": None}
    rows.append({**dict.fromkeys(plain.column_names), "sidecar": beside})
    feature = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint", "appendOnly"]}
    for row in rows:
        if row["protocol"]:
            row["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **feature}
    written = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, plain.schema), written)
    small_files.write_bytes(name, written.getvalue())
    worked.commit(2)
    assert write_checkpoint(table.uri) is None
    assert last_checkpoint(table.uri) == version
