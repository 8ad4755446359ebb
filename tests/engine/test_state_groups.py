"""What is remembered of state files: no read gives other rows for it, none is repeated, and it is bounded by bytes."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import obstore
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from headrace.engine import state_groups, state_parquet, state_reads
from headrace.engine.state_files import StatePlace, StateSource, write_merged, write_state
from headrace.engine.state_groups import GROUPS, forget_state
from headrace.engine.state_layout import StateLayout
from headrace.engine.state_parquet import FOOTERS, Footers
from headrace.engine.state_reads import read_state
from headrace.fold.contract import HASH, KEY, Needs, StateTable
from headrace.lake import NewFile
from headrace.lake.commits.snapshot import data_file
from headrace.lake.files.byte_cache import ByteCache
from headrace.lake.files.stored_file import OWN_FILES

pytestmark = pytest.mark.fast

SCHEMA = pa.schema(
    [
        (KEY, pa.binary()),
        (HASH, pa.int64()),
        ("__at_ms", pa.int64()),
        ("value", pa.struct([("n", pa.int32()), ("texts", pa.list_(pa.string()))])),
        ("since", pa.timestamp("us", "UTC")),
        ("amount", pa.decimal128(38, 6)),
        ("parts", pa.map_(pa.string(), pa.float64())),
    ]
)


def as_they_are(rows: pa.Table) -> pa.Table:
    return rows


def layout_of(schema: pa.Schema = SCHEMA) -> StateLayout:
    tables = {
        "by_time": StateTable(schema, ("__at_ms", HASH), as_they_are, "__at_ms"),
        "by_hash": StateTable(schema, (HASH,), as_they_are),
    }
    return StateLayout(tables)


LAYOUT = layout_of()


def table_of(hashes: list[int]) -> pa.Table:
    columns: list[list[object]] = [
        [str(h).encode() for h in hashes],
        [*hashes],
        [None if h % 5 == 0 else h % 7 for h in hashes],
        [None if h % 3 == 0 else {"n": h % 11, "texts": ["ü", None] if h % 2 else None} for h in hashes],
        [None if h % 4 == 0 else h for h in hashes],
        [None if h % 3 == 1 else h % 100 for h in hashes],
        [None if h % 3 == 2 else [("a", h / 2), ("b", None)] for h in hashes],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def written(uri: Path | str, hashes: list[int], batch: int = 0, name: str = "by_hash") -> NewFile:
    found = write_state(StatePlace(str(uri), LAYOUT, name), table_of(hashes), batch, group_rows=10)
    assert found is not None
    return found


def source_of(uri: Path | str, *files: NewFile) -> StateSource:
    return StateSource(str(uri)).plus(files)


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """Each test begins, and leaves, as a process that knows nothing."""
    forget_state()
    yield
    forget_state()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were opened to be read."""
    found: list[str] = []
    really = state_parquet.open_parquet

    def counted(uri: str, size: int, footer: object) -> object:
        found.append(uri)
        return really(uri, size, footer)

    monkeypatch.setattr(state_parquet, "open_parquet", counted)
    return found


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(-30, 30), max_size=25), max_size=4),
    st.sampled_from(["by_time", "by_hash"]),
    st.lists(st.tuples(st.lists(st.integers(-30, 30), max_size=9, unique=True), st.booleans()), max_size=4),
)
def test_a_read_gives_the_same_with_all_with_some_and_with_nothing_remembered(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[int]],
    name: str,
    reads: list[tuple[list[int], bool]],
) -> None:
    forget_state()
    uri = tmp_path_factory.mktemp("state")
    new = [
        write_state(StatePlace(str(uri), LAYOUT, name), table_of(rows), n, 3) for n, rows in enumerate(files)
    ]
    source = source_of(uri, *(file for file in new if file is not None))
    wanted = [Needs(np.array(sorted(hashes), np.int64)) for hashes, _ in reads] + [Needs()]
    as_written = [read_state(source, LAYOUT, name, need) for need in wanted]
    assert [each.bytes for each in as_written] == [0] * len(wanted)
    for (_, forgets), need, before in zip([*reads, ([], True)], wanted, as_written, strict=True):
        if forgets:
            forget_state()
        found = read_state(source, LAYOUT, name, need).rows
        assert found.schema == before.rows.schema
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, before.rows.to_pylist()))
        found.validate(full=True)


def test_a_file_that_was_just_written_is_not_read_from_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    store, asked = MemoryStore(), list[str]()
    really = obstore.get_range

    def counted(store: MemoryStore, path: str, *, start: int, end: int) -> object:
        asked.append(path)
        return really(store, path, start=start, end=end)

    monkeypatch.setattr(obstore, "get_range", counted)
    for module in ("engine.state_parquet", "engine.at_once", "lake.files.data_file"):
        monkeypatch.setattr(f"headrace.{module}.is_local", lambda uri: False)
    for module in ("lake.files.stored_file", "lake.files.data_file"):
        monkeypatch.setattr(f"headrace.{module}.store_of", lambda uri: (store, uri))
    source = source_of("state", *(written("state", [*range(45)], batch) for batch in range(3)))
    assert read_state(source, LAYOUT, "by_hash", Needs()).rows.num_rows == 135
    assert not asked
    GROUPS.clear()
    OWN_FILES.clear()
    some = read_state(source, LAYOUT, "by_hash", Needs(np.array([7])))
    assert some.rows.num_rows == 3
    assert some.bytes > 0
    first = len(asked)
    assert first >= 3
    again = read_state(source, LAYOUT, "by_hash", Needs(np.array([5, 7])))  # of the same groups of rows
    assert again.rows.num_rows == 6
    assert again.bytes == 0
    assert len(asked) == first


def test_only_groups_that_are_not_known_are_read(tmp_path: Path, opened: list[str]) -> None:
    file = written(tmp_path, [*range(100)])
    source = source_of(tmp_path, file)
    forget_state()
    sizes = [
        read_state(source, LAYOUT, "by_hash", Needs(np.array(h))).bytes for h in ([3], [3, 95], [3, 4, 96])
    ]
    assert sizes[0] > sizes[1] > 0, "the footer and a group, then another group"
    assert sizes[2] == 0
    assert len(opened) == 3  # the footer, and twice a group


def test_what_a_compaction_reads_and_writes_takes_nobodys_place(tmp_path: Path, opened: list[str]) -> None:
    file = written(tmp_path, [*range(30)])
    source, known = source_of(tmp_path, file), GROUPS.bytes
    assert read_state(source, LAYOUT, "by_hash", Needs(), remember=False).rows.num_rows == 30
    assert not opened, "what is known serves it, too"
    rows = read_state(source, LAYOUT, "by_hash", Needs()).rows
    assert write_merged(StatePlace(str(tmp_path), LAYOUT, "by_hash"), rows, 1) is not None
    assert GROUPS.bytes == known
    forget_state()
    assert read_state(source, LAYOUT, "by_hash", Needs(), remember=False).rows.num_rows == 30
    assert GROUPS.bytes == 0


def test_a_file_that_is_gone_is_read_as_long_as_it_is_known(tmp_path: Path) -> None:
    file = written(tmp_path, [*range(30)])
    (tmp_path / file.path).unlink()
    source = source_of(tmp_path, file)
    assert read_state(source, LAYOUT, "by_hash", Needs()).rows.num_rows == 30
    GROUPS.clear()
    with pytest.raises(FileNotFoundError):
        read_state(source, LAYOUT, "by_hash", Needs())


def test_groups_are_not_mistaken_after_a_change_of_columns(tmp_path: Path) -> None:
    file = written(tmp_path, [*range(30)])
    before = read_state(source_of(tmp_path, file), LAYOUT, "by_hash", Needs()).rows
    # The same file under a description whose `amount` is another type.
    place = SCHEMA.get_field_index("amount")
    wider = layout_of(SCHEMA.set(place, pa.field("amount", pa.decimal128(38, 8))))
    found = read_state(source_of(tmp_path, file), wider, "by_hash", Needs()).rows
    assert found.schema.field("amount").type == pa.decimal128(38, 8)
    assert found["amount"].cast(pa.decimal128(38, 6)).equals(before["amount"])


def test_rows_of_another_state_table_in_the_same_file_are_left_out(tmp_path: Path) -> None:
    parts = [
        written(tmp_path, [*range(10 * n, 10 * n + 15)], name=name) for n, name in enumerate(LAYOUT.tables)
    ]
    tables = [pa.parquet.read_table(tmp_path / part.path) for part in parts]
    schema = LAYOUT.schema
    mixed = pa.concat_tables(tables, promote_options="default").select(schema.names).sort_by(HASH)
    pa.parquet.write_table(mixed, tmp_path / "mixed.parquet", row_group_size=4)
    size = (tmp_path / "mixed.parquet").stat().st_size
    source = StateSource(str(tmp_path), {"mixed.parquet": data_file(size, None)})
    for n, name in enumerate(LAYOUT.tables):
        for _ in range(2):
            found = read_state(source, LAYOUT, name, Needs()).rows
            assert sorted(found[HASH].to_pylist()) == [*range(10 * n, 10 * n + 15)]
    for n, name in enumerate(LAYOUT.tables):
        for wanted in range(10 * n, 10 * n + 15):
            found = read_state(source, LAYOUT, name, Needs(np.array([wanted]))).rows
            assert found[HASH].to_pylist() == [wanted]


def test_what_is_remembered_is_bounded_and_that_used_longest_ago_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    files = [written(tmp_path, [*range(50)], batch) for batch in range(3)]
    sources = [source_of(tmp_path, file) for file in files]
    GROUPS.clear()
    read_state(sources[0], LAYOUT, "by_hash", Needs())
    each = GROUPS.bytes
    monkeypatch.setattr(state_groups, "GROUPS", ByteCache(2 * each))
    opened.clear()
    for number in (0, 1, 0, 2, 0, 1):
        assert read_state(sources[number], LAYOUT, "by_hash", Needs()).rows.num_rows == 50
        assert state_groups.GROUPS.bytes <= 2 * each
    read = [Path(uri).name for uri in opened]
    assert [read.count(file.path) for file in files] == [1, 2, 1]


def test_the_bytes_of_a_group_are_all_that_it_keeps_alive(tmp_path: Path) -> None:
    gc.collect()  # of the whole process: what other tests have left goes now, not between two looks
    before = pa.total_allocated_bytes()
    written(tmp_path, [*range(5_000)])
    held = pa.total_allocated_bytes() - before
    assert 5_000 * 8 * 3 < held <= GROUPS.bytes
    forget_state()
    assert pa.total_allocated_bytes() - before < held / 100, "nothing else keeps them"


def test_a_group_that_is_left_of_a_file_keeps_no_other_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_groups, "GROUPS", ByteCache(20_000))
    monkeypatch.setattr(state_reads, "MANY_GROUPS", 1_000)  # so that these five hundred are remembered
    gc.collect()  # of the whole process: what other tests have left goes now, not between two looks
    before = pa.total_allocated_bytes()
    file = written(tmp_path, [*range(5_000)])
    assert 0 < pa.total_allocated_bytes() - before <= state_groups.GROUPS.bytes
    monkeypatch.setattr(state_groups, "GROUPS", ByteCache(20_000))
    assert read_state(source_of(tmp_path, file), LAYOUT, "by_hash", Needs()).rows.num_rows == 5_000
    assert 0 < pa.total_allocated_bytes() - before <= state_groups.GROUPS.bytes


def test_a_footer_is_read_once_and_footers_are_bounded_by_bytes(tmp_path: Path) -> None:
    files = [(f"{tmp_path}/{new.path}", new.size) for new in (written(tmp_path, [n]) for n in range(3))]
    forget_state()
    FOOTERS.of(*files[0])
    footers = Footers(bytes_max=2 * FOOTERS.bytes)
    sizes = [footers.of(*files[number])[1] > 0 for number in (0, 1, 0, 2, 0, 1)]
    assert sizes == [True, True, False, True, False, True]
    assert 0 < footers.bytes <= 2 * FOOTERS.bytes


def test_a_cache_holds_no_more_bytes_than_it_may() -> None:
    cache: ByteCache[str, int] = ByteCache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 4)
    assert cache.get("a") == 1  # used now: `b` leaves first
    cache.put("c", 3, 4)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    cache.put("a", 4, 6)
    assert (cache.get("a"), cache.bytes) == (4, 10)
    cache.put("a", 5, 11)  # too large: and what was there is not its value any more
    assert (cache.get("a"), cache.bytes) == (None, 4)
    cache.clear()
    assert (cache.get("c"), cache.bytes) == (None, 0)


def test_threads_that_read_and_write_at_once_get_their_own_rows_within_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, [*range(50)])
    bound = 3 * GROUPS.bytes
    monkeypatch.setattr(state_groups, "GROUPS", ByteCache(bound))
    files = [written(tmp_path, [*range(100 * n, 100 * n + 50)], n) for n in range(6)]
    wrong: list[str] = []

    def works(first: int) -> None:
        for turn in range(30):
            number = (first + turn) % 6
            found = read_state(source_of(tmp_path, files[number]), LAYOUT, "by_hash", Needs()).rows
            if sorted(found[HASH].to_pylist()) != [*range(100 * number, 100 * number + 50)]:
                wrong.append(f"{number}: {found[HASH].to_pylist()}")
            if state_groups.GROUPS.bytes > bound:
                wrong.append(f"{state_groups.GROUPS.bytes} bytes")
            written(tmp_path, [*range(20)])

    _together([lambda n=n: works(n) for n in range(4)])  # type: ignore[misc]
    assert not wrong


def _together(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_rows_that_are_handed_out_cannot_be_changed(tmp_path: Path) -> None:
    source = source_of(tmp_path, written(tmp_path, [*range(5)]))
    group = GROUPS.get((f"{tmp_path}/{next(iter(source.files))}", "by_hash", 0))
    assert group is not None
    for values in (group.hashes, group.times):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 7
