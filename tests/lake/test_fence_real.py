"""L29 on a real table: processes that race, one that is stopped while another takes over, answers that are lost.

HEADRACE_STOPS says how often a process is stopped, HEADRACE_RACES how often two race for a version.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.lake import (
    APPENDER,
    MAINTAINER,
    FencedError,
    LakeTable,
    TableWriter,
    create,
    forget,
    open_table,
)
from headrace.lake.commits.commit_file import no_hooks, properties
from headrace.lake.commits.fence import ForeignCommitError, UnknownOutcomeError
from headrace.lake.commits.history import last_commit
from headrace.lake.files import local_files
from headrace.lake.small_files import read_bytes
from tests.lake import fenced_process
from tests.lake.fenced_process import SCHEMA, written

RACES, STOPS = int(os.environ.get("HEADRACE_RACES", "40")), int(os.environ.get("HEADRACE_STOPS", "10"))
ROOT = Path(__file__).parents[2]


def started(*arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}"}
    command = [sys.executable, "-m", fenced_process.__name__, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    )


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def positions(table: LakeTable) -> list[int]:
    """The rows of the newest version."""
    names = table.snapshot().files
    found = [pq.read_table(pa.BufferReader(read_bytes(f"{table.uri}/{name}") or b"")) for name in names]
    return sorted(position for rows in found for position in rows["position"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return create(f"file:{tmp_path}/table", SCHEMA)


def test_two_processes_are_never_both_told_that_they_committed_a_version(table: LakeTable) -> None:
    racers = [started("race", table.uri) for _ in range(2)]
    try:
        for version in range(1, RACES + 1):
            for racer in racers:
                tell(racer, f"{version}")
            told = [said(racer) for racer in racers]
            winners = [line.removeprefix("won ") for line in told if line.startswith("won ")]
            found = table.commit_at(version)
            assert found is not None, told
            assert found.record is not None
            assert winners == [found.record["token"]], told
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()


def test_a_stopped_appender_adds_nothing_after_another_took_over(tmp_path: Path) -> None:
    """Each round: one process is stopped within its loop, another takes over and appends, the first goes on."""
    random, table = Random(29), create(f"file:{tmp_path}/table", SCHEMA)
    one, two = started("append", table.uri), started("append", table.uri)
    try:
        tell(one, "take over")
        assert said(one) == "epoch 1"
        for number in range(2, STOPS + 2):
            for _ in range(random.randint(1, 5)):
                assert said(one).startswith("appended")
            time.sleep(0.01 * random.random())
            one.send_signal(signal.SIGSTOP)
            tell(two, "take over")
            assert said(two) == f"epoch {number}"
            if random.random() < 0.5:
                assert said(two).startswith("appended")
            one.send_signal(signal.SIGCONT)
            while (line := said(one)) != "fenced":
                assert line.startswith("appended"), line
            one, two = two, one
    finally:
        for process in (one, two):
            process.kill()
            process.wait()
    forget()
    rows = positions(open_table(table.uri))
    assert rows == list(range(len(rows)))
    last = last_commit(open_table(table.uri), "appender")
    assert last is not None
    assert last.record["next"] == len(rows)


Put = Callable[..., None]


@pytest.fixture
def broken_put(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Put], Put]], None]:
    """Let the next commit of any table go wrong in some way, once."""

    def break_once(broken: Callable[[Put], Put]) -> None:
        put = LakeTable.put

        def once(*arguments: Any) -> None:
            monkeypatch.setattr(LakeTable, "put", put)
            broken(put)(*arguments)

        monkeypatch.setattr(LakeTable, "put", once)

    return break_once


def answer_lost(put: Put) -> Put:
    def puts(*arguments: Any) -> None:
        put(*arguments)
        raise OSError("no answer")

    return puts


def test_a_commit_whose_answer_was_lost_stands_once(table: LakeTable, broken_put: Any) -> None:
    taken = TableWriter(table, APPENDER)
    broken_put(answer_lost)
    version = taken.append([written(table, 0)], {"writer": "appender", "next": 1})
    assert version == 2
    assert taken.append([written(table, 1)], {"writer": "appender", "next": 2}) == 3
    assert positions(table) == [0, 1]


def test_a_commit_whose_answer_was_lost_is_in_the_snapshot_that_its_process_remembers(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, write = TableWriter(table, APPENDER), local_files.write
    table.snapshot()
    taken.append([written(table, 0)], {"writer": "appender", "next": 1})

    def lost(*arguments: Any, **options: Any) -> bool:
        monkeypatch.setattr(local_files, "write", write)
        write(*arguments, **options)
        raise OSError("no answer")

    monkeypatch.setattr(local_files, "write", lost)
    version = taken.append([written(table, 1)], {"writer": "appender", "next": 2})
    snapshot = table.recent_snapshot()
    assert (snapshot.version, len(snapshot.files)) == (version, 2)


def test_an_attempt_that_arrives_after_its_writer_gave_up_is_noticed(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, put, sent = TableWriter(table, APPENDER), LakeTable.put, []

    def lost(*arguments: Any) -> None:
        sent.append(arguments)
        raise OSError("no answer")

    monkeypatch.setattr(LakeTable, "put", lost)
    with pytest.raises(UnknownOutcomeError):
        taken.append([written(table, 0)], {"writer": "appender", "next": 1})
    monkeypatch.setattr(LakeTable, "put", put)
    put(*sent[0])
    for _ in range(2):
        with pytest.raises(UnknownOutcomeError, match="arrived late"):
            taken.append([written(table, 0)], {"writer": "appender", "next": 1})
    TableWriter(table, APPENDER)
    last = last_commit(table, "appender")
    assert last is not None
    assert last.record["next"] == 1
    assert positions(table) == [0]


def test_a_commit_of_delta_rs_whose_answer_was_lost_stands_once(table: LakeTable) -> None:
    taken, calls = TableWriter(table, MAINTAINER), []

    def merge(record: Mapping[str, Any], handle: Any) -> None:
        calls.append(record)
        handle.alter.set_table_properties(
            {"delta.appendOnly": "true"},
            commit_properties=properties(record),
            post_commithook_properties=no_hooks(),
        )
        raise OSError("no answer")

    assert taken.commit_by(merge, {"writer": "maintainer"}) == 2
    assert len(calls) == 1
    assert taken.commit_by(lambda record, handle: None, {"writer": "maintainer"}) is None
    assert taken.append([], {"writer": "maintainer"}) == 3


def test_an_older_appender_may_write_until_the_epoch_is_taken_and_not_after(
    table: LakeTable, broken_put: Any
) -> None:
    older = TableWriter(table, APPENDER)

    def beaten(put: Put) -> Put:
        def puts(*arguments: Any) -> None:
            older.append([written(table, 0)], {"writer": "appender", "next": 1})
            put(*arguments)

        return puts

    broken_put(beaten)
    newer = TableWriter(table, APPENDER)
    assert (newer.epoch, table.version) == (2, 3)
    with pytest.raises(FencedError, match="epoch 2"):
        older.append([written(table, 1)], {"writer": "appender", "next": 2})
    newer.append([written(table, 1)], {"writer": "appender", "next": 2})
    assert positions(table) == [0, 1]


def foreign_append(table: LakeTable, position: int, record: Mapping[str, Any] | None = None) -> str:
    """Somebody else appends a row; the file's name."""
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction

    from headrace.lake.storage import delta_uri

    file = written(table, position)
    DeltaTable(delta_uri(table.uri)).create_write_transaction(
        [AddAction(file.path, file.size, {}, 0, True, file.stats)],
        mode="append",
        schema=SCHEMA,
        commit_properties=properties(record) if record else CommitProperties(),
        post_commithook_properties=no_hooks(),
    )
    return file.path


def test_rows_of_others_are_refused_by_who_writes_and_by_who_opens_until_they_are_restored(
    table: LakeTable,
) -> None:
    from deltalake import DeltaTable

    from headrace.lake.storage import delta_uri

    taken = TableWriter(table, APPENDER)
    taken.append([written(table, 0)], {"writer": "appender", "next": 1})
    foreign_append(table, 7)
    with pytest.raises(ForeignCommitError, match="version 3"):
        taken.append([written(table, 1)], {"writer": "appender", "next": 2})
    for role in (APPENDER, MAINTAINER):
        with pytest.raises(ForeignCommitError, match="changes rows"):
            TableWriter(table, role)
    DeltaTable(delta_uri(table.uri)).restore(2)
    assert TableWriter(table, APPENDER).epoch == 2
    assert positions(table) == [0]
