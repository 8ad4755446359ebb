"""A table that a person deletes under its writer."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.lake import APPENDER, LakeTable, TableWriter, create
from headrace.lake.storage import local_path
from headrace.lake.table import STANDS_SECONDS

pytestmark = pytest.mark.fast
SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return create(f"file:{tmp_path}/table", SCHEMA)


def test_a_table_that_is_deleted_under_its_writer_is_noticed(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr("headrace.lake.table.boot_seconds", lambda: now)
    own = TableWriter(table, APPENDER)
    own.append([], {"writer": "own"})
    shutil.rmtree(local_path(table.uri))
    for _ in range(12):
        now += 1.6
        try:
            own.append([], {"writer": "own"})
        except Exception:
            break
    left = [*(local_path(table.uri) / "_delta_log").glob("*.json")]
    assert len(left) <= STANDS_SECONDS / 1.6 + 1, f"after {now - 1_000:.0f} s it still commits to nothing"


def test_a_table_that_is_deleted_and_made_anew_under_its_writer_is_written_again(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the process looked for the old table's version at each try, and never wrote the new one."""
    now = 1_000.0
    monkeypatch.setattr("headrace.lake.table.boot_seconds", lambda: now)
    own = TableWriter(table, APPENDER)
    for _ in range(4):
        now += STANDS_SECONDS + 1
        own.append([], {"writer": "own"})
    shutil.rmtree(local_path(table.uri))
    for _ in range(2):  # the writer's end, and a try of the next one
        now += STANDS_SECONDS + 1
        with suppress(Exception):
            own.append([], {"writer": "own"})
        create(table.uri, SCHEMA)
        own = TableWriter(table, APPENDER)
    now += STANDS_SECONDS + 1
    before = LakeTable(table.uri).version
    own.append([], {"writer": "own"})
    assert LakeTable(table.uri).version == before + 1
