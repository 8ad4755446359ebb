"""Local copies of state files: no read gives other rows for them, whatever becomes of them; they are bounded by bytes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine import state_copies, state_reads
from headrace.engine.state_copies import COPIES, CopiedFile, StateCopies
from headrace.engine.state_files import StatePlace, StateSource, write_state
from headrace.engine.state_groups import GROUPS, forget_state
from headrace.engine.state_reads import read_state
from headrace.fold.contract import BATCH, HASH, Needs
from headrace.fold.keys import bucket_range
from headrace.lake import NewFile
from headrace.lake.state_limits import COPIES_BYTES_DEFAULT, executor_environment, state_limits
from tests.engine.test_state_files import LAYOUT, ROWS, is_needed, needs, table_of

pytestmark = pytest.mark.fast
ANY_BYTES = 1 << 30
HASHES = [*range(50)]


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateCopies]:
    """Each read asks for copies of all its files; nothing is remembered."""
    found = StateCopies(tmp_path / "copies", ANY_BYTES, free_bytes_min=0)
    use(monkeypatch, found)
    yield found
    found.wait()


def use(monkeypatch: pytest.MonkeyPatch, copies: StateCopies) -> None:
    forget_state()
    monkeypatch.setattr(state_reads, "COPIES", copies)
    monkeypatch.setattr(state_reads, "MANY_GROUPS", 1)
    monkeypatch.setattr(state_reads, "COPIED_ROWS_MIN", 1)
    monkeypatch.setattr(state_reads, "SPARSE_ROWS", 1_000)


def written(folder: Path, hashes: list[int] = HASHES, name: str = "by_hash") -> StateSource:
    new = write_state(
        StatePlace(f"{folder}/state", LAYOUT, name),
        table_of([(h, h % 7) for h in hashes]),
        0,
        10,
        remember=False,
    )
    assert new is not None
    return StateSource(f"{folder}/state").plus([new])


def read(source: StateSource, hashes: list[int], name: str = "by_hash") -> tuple[list[int], bool]:
    """The hashes of the rows, and whether all rows came from near."""
    found = read_state(source, LAYOUT, name, Needs(np.array(sorted(hashes), np.int64)))
    return sorted(found.rows[HASH].to_pylist()), found.cost.near == found.cost.rows


def files_of(copies: StateCopies) -> list[Path]:
    return [path for path, _, _ in copies._files()]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ROWS, min_size=1, max_size=4),
    st.sampled_from(["by_time", "by_hash"]),
    st.integers(1, 3),
    st.data(),
)
def test_a_bucket_reads_the_same_rows_from_copies(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[tuple[int, int | None]]],
    name: str,
    buckets: int,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patched:
        copies = StateCopies(folder / "copies", ANY_BYTES, free_bytes_min=0)
        use(patched, copies)
        source, everything = StateSource(str(folder)), []
        for batch, rows in enumerate(files):
            place = StatePlace(str(folder), LAYOUT, name)
            new = write_state(place, table_of(rows), batch, 3, remember=False)
            source = source.plus([new] if new else [])
            everything += [row | {BATCH: batch} for row in table_of(rows).to_pylist()]
        read_state(source, LAYOUT, name, Needs())
        copies.wait()
        assert len(files_of(copies)) == len(source.files)
        need = data.draw(needs(name == "by_time"))
        for bucket in range(buckets):
            lowest, highest = bucket_range(bucket, buckets)
            wanted = [r for r in everything if lowest <= r[HASH] <= highest and is_needed(r, need)]
            found = read_state(source, LAYOUT, name, need, (lowest, highest))
            assert found.rows.schema == LAYOUT.tables[name].empty().schema
            assert sorted(map(repr, found.rows.to_pylist())) == sorted(map(repr, wanted))
            assert (found.cost.near, found.bytes) == (len(wanted), 0)


def test_a_read_that_lacks_many_groups_keeps_none_and_then_reads_nothing_of_the_lake(
    tmp_path: Path, copies: StateCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_reads, "MANY_GROUPS", 3)
    source, known = written(tmp_path), GROUPS.bytes
    assert read(source, [1, 15]) == ([1, 15], False)
    assert GROUPS.bytes > known, "two groups are remembered"
    copies.wait()
    assert not files_of(copies)
    GROUPS.clear()
    assert read(source, [1, 15, 25]) == ([1, 15, 25], False)
    assert GROUPS.bytes == 0
    copies.wait()
    next(Path(tmp_path / "state").glob("*.parquet")).unlink()
    assert read(source, [1, 15, 25, 77]) == ([1, 15, 25], True)
    with pytest.raises(FileNotFoundError):  # what goes back into the lake comes from the lake
        read_state(source, LAYOUT, "by_hash", Needs(), remember=False)


def test_a_read_that_takes_many_rows_of_each_group_asks_for_no_copy(
    tmp_path: Path, copies: StateCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_reads, "SPARSE_ROWS", 3)
    source = written(tmp_path)  # ten rows in each of five groups
    for hashes, is_copied in ((HASHES, False), ([*HASHES[::10], 1, 2], True)):
        assert read(source, hashes) == (sorted(hashes), False)
        copies.wait()
        assert bool(files_of(copies)) == is_copied


def test_rows_of_another_state_table_in_the_same_file_are_left_out(
    tmp_path: Path, copies: StateCopies
) -> None:
    tables = [
        pa.parquet.read_table(f"{part.uri}/{next(iter(part.files))}")
        for n, name in enumerate(LAYOUT.tables)
        for part in [written(tmp_path, [*range(10 * n, 10 * n + 15)], name)]
    ]
    names = LAYOUT.schema.names
    mixed = pa.concat_tables(tables, promote_options="default").select(names).sort_by(HASH)
    path = tmp_path / "mixed.parquet"
    pa.parquet.write_table(mixed, path, row_group_size=4)
    source = StateSource(str(tmp_path)).plus([NewFile(path.name, path.stat().st_size, "{}")])
    for is_copied in (False, True):
        for n, name in enumerate(LAYOUT.tables):
            assert read(source, [*range(60)], name) == ([*range(10 * n, 10 * n + 15)], is_copied)
        copies.wait()


def test_copies_that_vanish_are_made_again(
    tmp_path: Path, copies: StateCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path)
    read(source, HASHES)
    copies.wait()
    assert read(source, [7]) == ([7], True)
    for path in files_of(copies):
        path.unlink()
    assert read(source, [7]) == ([7], True), "the process has it mapped, and looks for it once a minute"
    monkeypatch.setattr(state_copies, "NOTED_SECONDS", -1.0)
    assert read(source, [7]) == ([7], False)
    copies.wait()
    assert read(source, [7]) == ([7], True)


@pytest.mark.parametrize("harm", ["cut", "changed", "empty", "of another file"])
def test_a_copy_that_is_not_whole_is_deleted_and_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: StateCopies, harm: str
) -> None:
    source = written(tmp_path)
    read(source, HASHES)
    copies.wait()
    (path,) = files_of(copies)
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.unlink()
    path.write_bytes(
        {
            "cut": whole[:middle],
            "changed": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "empty": b"",
            "of another file": b"x" * len(whole),
        }[harm]
    )
    use(monkeypatch, later := StateCopies(path.parent, ANY_BYTES, free_bytes_min=0))  # as after a restart
    for is_copied in (False, True):
        assert read(source, HASHES) == (HASHES, is_copied)
        later.wait()
    assert path.read_bytes() == whole


def test_after_a_restart_a_copy_is_checked_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: StateCopies
) -> None:
    source = written(tmp_path)
    read(source, HASHES)
    copies.wait()
    (path,) = files_of(copies)
    inode = path.stat().st_ino
    use(monkeypatch, later := StateCopies(path.parent, ANY_BYTES, free_bytes_min=0))
    assert read(source, [7]) == ([7], False), "not before it is checked"
    later.wait()
    assert read(source, [7]) == ([7], True)
    assert path.stat().st_ino == inode


def test_a_copy_is_not_mistaken_after_a_change_of_columns(tmp_path: Path) -> None:
    schema = LAYOUT.tables["by_hash"].empty().schema
    same = [CopiedFile("file:/lake/state/a.parquet", 7, "by_hash", schema).name for _ in range(2)]
    others = [
        CopiedFile("file:/lake/state/b.parquet", 7, "by_hash", schema).name,
        CopiedFile("file:/lake/state/a.parquet", 8, "by_hash", schema).name,
        CopiedFile("file:/lake/state/a.parquet", 7, "by_time", schema).name,
        CopiedFile("file:/lake/state/a.parquet", 7, "by_hash", schema.remove(0)).name,
    ]
    assert len({*same, *others}) == 5


def test_threads_that_read_while_copies_are_made_get_their_rows(tmp_path: Path, copies: StateCopies) -> None:
    sources = [written(tmp_path, [*range(50 * n, 50 * n + 50)]) for n in range(6)]

    def works(first: int) -> list[Any]:
        return [
            (turn, found)
            for turn in range(40)
            for number in [(first + turn) % 6]
            for wanted in [[50 * number, 50 * number + 9]]
            if (found := read(sources[number], wanted)[0]) != wanted
        ]

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(works, range(4))] == [[]] * 4


def test_limits_come_from_the_environment_and_go_to_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_STATE_COPIES_BYTES", "0")
    monkeypatch.setenv("HEADRACE_STATE_REMEMBERED_BYTES", "1000")
    limits = state_limits()
    assert (limits.copies_bytes, limits.remembered_bytes) == (0, 1_000)
    assert executor_environment() == {
        "spark.executorEnv.HEADRACE_STATE_COPIES_BYTES": "0",
        "spark.executorEnv.HEADRACE_STATE_REMEMBERED_BYTES": "1000",
    }
    monkeypatch.setenv("HEADRACE_STATE_COPIES_BYTES", "many")
    assert state_limits().copies_bytes == COPIES_BYTES_DEFAULT


def test_without_a_bound_in_bytes_no_copy_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, copies := StateCopies(tmp_path / "copies", 0))
    source = written(tmp_path)
    read(source, HASHES)
    copies.wait()
    assert not (tmp_path / "copies").exists()
    assert isinstance(COPIES, StateCopies)
