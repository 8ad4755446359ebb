"""Compaction bounds the number of runs, works in proportion to what came, and changes nothing that a merged read gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace import lake
from headrace.engine import compact_runs
from headrace.engine.compact_runs import FILE_ROWS, Packing
from headrace.engine.compact_tables import compact_state
from headrace.engine.folding.exchange import bucket_hashes
from headrace.engine.state_files import StatePlace, StateSource, write_state
from headrace.engine.state_layout import SHARED, StateLayout
from headrace.engine.state_reads import read_state
from headrace.fold.contract import BATCH, DELETED, HASH, KEY, Clock, Needs, StateTable
from headrace.fold.keys import with_keys
from headrace.lake import kinds

pytestmark = pytest.mark.fast

SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("n", pa.int64()),
        (DELETED, pa.bool_()),
        (KEY, pa.binary()),
        (HASH, pa.int64()),
    ]
)


def newest(rows: pa.Table) -> pa.Table:
    """Plain Python, to compare with."""
    found: dict[bytes, dict[str, Any]] = {}
    for row in sorted(rows.to_pylist(), key=lambda row: row[BATCH]):
        found[row[KEY]] = row
    return pa.Table.from_pylist([*found.values()], schema=rows.schema)


def is_deleted(rows: pa.Table, clock: Clock) -> pa.Array:
    return rows[DELETED].combine_chunks()


TABLE = StateTable(SCHEMA, (HASH,), newest, expired=is_deleted)
LAYOUT = StateLayout({"rows": TABLE})


def rows_of(*rows: tuple[int, int, bool]) -> pa.Table:
    columns = [[row[at] for row in rows] for at in range(3)]
    return with_keys(pa.table(columns, names=SCHEMA.names[:3]), ["key"]).cast(SCHEMA)


class Node:
    """One state table, with a commit for each micro-batch."""

    def __init__(self, folder: Path) -> None:
        self.state = lake.create(str(folder / "state"), LAYOUT.schema, kinds.state(tuple(SHARED.names)))
        self.appender = lake.TableWriter(self.state, lake.APPENDER)
        self.maintainer = lake.TableWriter(self.state, lake.MAINTAINER)
        self.batch = 0

    def append(self, rows: pa.Table) -> None:
        written = write_state(StatePlace(self.state.uri, LAYOUT, "rows"), rows, self.batch)
        assert written is not None
        self.appender.append([written], {"writer": "fold/n"})
        self.batch += 1

    def compact(self, runs_max: int, file_rows: int = FILE_ROWS) -> None:
        self.pack(Packing(runs_max, file_rows=file_rows))

    def pack(self, packing: Packing) -> None:
        compact_state(self.state, self.maintainer, LAYOUT, Clock(), ["fold/n"], packing)

    def is_due(self, *, at_rest: bool) -> bool:
        return compact_runs.is_due(self.state.snapshot().files, at_rest=at_rest)

    def shown(self) -> dict[int, int]:
        """The rows that are there."""
        state = read_state(
            StateSource(self.state.uri, self.state.snapshot().files), LAYOUT, "rows", Needs()
        ).rows
        there = state.filter(pc.invert(state[DELETED]))
        return dict(zip(there["key"].to_pylist(), there["n"].to_pylist(), strict=True))

    def files(self) -> int:
        return len(self.state.snapshot().files)


def test_a_delete_stays_while_older_rows_of_its_key_lie_in_other_files(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(rows_of(*((key, 1, False) for key in range(20))))
    node.append(rows_of((3, 0, True)))
    node.append(rows_of((4, 2, False)))
    wanted = {key: 2 if key == 4 else 1 for key in range(20) if key != 3}
    assert node.shown() == wanted
    node.compact(runs_max=1)
    assert node.files() == 2, "the large run outweighs the others, and stays"
    assert node.shown() == wanted


def test_what_is_deleted_leaves_when_all_files_are_merged(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(rows_of((1, 1, False), (2, 1, False)))
    node.append(rows_of((1, 0, True), (3, 1, False)))
    node.compact(runs_max=1)
    assert node.files() == 1
    assert node.state.snapshot().rows == 2
    assert node.shown() == {2: 1, 3: 1}
    compaction = node.state.commit_at(node.state.version)
    assert compaction is not None
    assert compaction.record is not None
    repeated = compaction.record["carried"]["last"]["fold/n"]
    assert repeated["version"] == node.state.version - 1, "the newest record of the node outlives its commit"


def test_runs_are_few_and_a_row_is_rewritten_as_often_as_a_logarithm(tmp_path: Path) -> None:
    node, random, rewritten = Node(tmp_path), np.random.default_rng(3), 0
    expected: dict[int, int] = {}
    for number in range(64):
        keys = random.choice(10_000, 5, replace=False).tolist()
        node.append(rows_of(*((key, number, False) for key in keys)))
        expected |= dict.fromkeys(keys, number)
        before = {*node.state.snapshot().files}
        node.compact(runs_max=4)
        after = node.state.snapshot().files
        rewritten += sum(file.rows or 0 for name, file in after.items() if name not in before)
        assert node.files() <= 8
    assert node.shown() == expected
    assert rewritten <= 5 * 64 * 6


def test_large_runs_go_into_files_with_nested_ranges_of_hashes(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for number in range(3):
        node.append(rows_of(*((key, number, False) for key in range(100))))
    expected = dict.fromkeys(range(100), 2)
    node.compact(runs_max=1, file_rows=90)
    assert node.files() == 4
    assert node.shown() == expected
    source = StateSource(node.state.uri, node.state.snapshot().files)
    assert {file.highest[BATCH] for file in source.files.values()} == {2}
    assert [len(source.of("rows", bucket_hashes(part, 4)).files) for part in range(4)] == [1, 1, 1, 1]
    node.append(rows_of((5, 9, False)))
    node.compact(runs_max=1)
    assert node.files() == 5, "the files of one compaction are one run"


def test_large_rows_go_into_several_files_however_few_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact_runs, "FILE_BYTES", 4_000)
    node = Node(tmp_path)
    for number in range(3):
        node.append(rows_of(*((key, number, False) for key in range(100))))
    node.compact(runs_max=1)
    assert node.files() >= 4
    assert node.shown() == dict.fromkeys(range(100), 2)


def test_packing_is_due_by_the_rows_of_runs_and_sooner_at_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact_runs, "LARGE_ROWS", 100)
    node = Node(tmp_path)
    at_rest = Packing(runs_max=1, rows_min=300)
    monkeypatch.setattr(compact_runs, "AT_REST", at_rest)
    expected: dict[int, int] = {}
    for number in range(9):
        keys = range(1_000 * number, 1_000 * number + 100)
        node.append(rows_of(*((key, number, False) for key in keys)))
        expected |= dict.fromkeys(keys, number)
        for key in range(3):  # small runs are no reason
            node.append(rows_of((-key, 0, False)))
            expected[-key] = 0
        if number < 2:
            assert not node.is_due(at_rest=True)
            node.pack(at_rest)
            assert node.files() == 4 * (number + 1)
        assert node.is_due(at_rest=False) == (number == 8)
    assert node.is_due(at_rest=True)
    node.pack(at_rest)
    assert node.files() == 1
    assert node.shown() == expected
    assert not node.is_due(at_rest=True)


def test_of_two_maintainers_one_leaves_nothing_behind(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(rows_of((1, 1, False)))
    node.append(rows_of((1, 2, False)))
    overtaken = node.maintainer
    lake.TableWriter(node.state, lake.MAINTAINER)
    with pytest.raises(lake.FencedError):
        compact_state(node.state, overtaken, LAYOUT, Clock(), ["fold/n"], Packing(runs_max=1))
    assert len(list((tmp_path / "state").glob("*.parquet"))) == node.files() == 2
