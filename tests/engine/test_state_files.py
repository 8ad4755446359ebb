"""A read of state files gives every row that is needed, and little else; rows come back as they were written."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from headrace import lake
from headrace.engine import state_reads
from headrace.engine.state_files import StatePlace, StateSource, write_state
from headrace.engine.state_groups import GROUPS, forget_state
from headrace.engine.state_layout import StateLayout
from headrace.engine.state_reads import read_state
from headrace.fold.contract import BATCH, HASH, KEY, Needs, StateTable
from headrace.fold.keys import bucket_range
from headrace.lake import NewFile, kinds
from headrace.lake.storage import delta_uri

pytestmark = pytest.mark.fast

VALUES = pa.struct([("n", pa.int32()), ("text", pa.list_(pa.string()))])
SCHEMA = pa.schema([(KEY, pa.binary()), (HASH, pa.int64()), ("__at_ms", pa.int64()), ("value", VALUES)])


def as_they_are(rows: pa.Table) -> pa.Table:
    return rows


BY_TIME = StateTable(SCHEMA, ("__at_ms", HASH), as_they_are, "__at_ms")
BY_HASH = StateTable(SCHEMA, (HASH,), as_they_are)
LAYOUT = StateLayout({"by_time": BY_TIME, "by_hash": BY_HASH})
HASHES = st.one_of(st.integers(-5, 5), st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 62]))
TIMES = st.one_of(st.integers(0, 9), st.none())
ROWS = st.lists(st.tuples(HASHES, TIMES), max_size=25)
RANGES = st.one_of(st.none(), st.tuples(st.integers(-1, 9), st.integers(-1, 9)))


@st.composite
def needs(draw: st.DrawFn, timed: bool) -> Needs:
    hashes = draw(st.one_of(st.none(), st.lists(HASHES, max_size=4, unique=True).map(sorted)))
    times = draw(RANGES) if timed else None
    either = draw(needs(timed)) if draw(st.integers(0, 3)) == 0 else None
    return Needs(None if hashes is None else np.array(hashes, np.int64), times, either)


def table_of(rows: list[tuple[int, int | None]]) -> pa.Table:
    values = [None if h % 3 == 0 else {"n": h % 7, "text": ["ü", None]} for h, _ in rows]
    keys = [str(h).encode() for h, _ in rows]
    return pa.table([keys, [h for h, _ in rows], [t for _, t in rows], values], schema=SCHEMA)


def is_needed(row: dict[str, Any], need: Needs | None) -> bool:
    while need is not None:
        by_hash = need.hashes is None or row[HASH] in need.hashes
        at = row["__at_ms"]
        by_time = need.times is None or (at is not None and need.times[0] <= at <= need.times[1])
        if by_hash and by_time:
            return True
        need = need.either
    return False


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, max_size=4), st.sampled_from(["by_time", "by_hash"]), st.integers(1, 3), st.data())
def test_a_bucket_reads_the_rows_that_it_needs(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[tuple[int, int | None]]],
    name: str,
    buckets: int,
    data: st.DataObject,
) -> None:
    uri, source, everything = str(tmp_path_factory.mktemp("state")), StateSource(""), []
    source = StateSource(uri)
    for batch, rows in enumerate(files):
        written = write_state(StatePlace(uri, LAYOUT, name), table_of(rows), batch, group_rows=3)
        source = source.plus([written] if written else [])
        everything += [row | {BATCH: batch} for row in table_of(rows).to_pylist()]
    need, early = data.draw(needs(name == "by_time")), data.draw(st.sampled_from([0, 1 << 20]))
    for bucket in range(buckets):
        lowest, highest = bucket_range(bucket, buckets)
        wanted = [row for row in everything if lowest <= row[HASH] <= highest and is_needed(row, need)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(state_reads, "UNMERGED_ROWS_MAX", early)
            found = read_state(source, LAYOUT, name, need, (lowest, highest)).rows
        assert found.schema == LAYOUT.tables[name].empty().schema
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted))


def test_a_table_reads_no_file_of_another_one(tmp_path: Path) -> None:
    files = [
        write_state(StatePlace(str(tmp_path), LAYOUT, name), table_of([(1, 1)]), 0) for name in LAYOUT.tables
    ]
    source = StateSource(str(tmp_path)).plus(file for file in files if file)
    assert [len(source.of(name).files) for name in LAYOUT.tables] == [1, 1]
    assert not source.of("by_time", (2, 9)).files


def test_what_is_read_grows_with_what_is_touched(tmp_path: Path) -> None:
    sizes = {}
    for keys in (10_000, 100_000):
        folder = tmp_path / str(keys)
        hashes = np.random.default_rng(1).integers(-(1 << 63), (1 << 63) - 1, keys)
        written = write_state(
            StatePlace(str(folder), LAYOUT, "by_hash"), table_of([(int(h), 1) for h in hashes]), 0
        )
        assert written is not None
        source = StateSource(str(folder)).plus([written])
        forget_state()
        first = read_state(source, LAYOUT, "by_hash", Needs(hashes[:1]))
        GROUPS.clear()
        second = read_state(source, LAYOUT, "by_hash", Needs(hashes[:1]))
        assert first.rows.num_rows == second.rows.num_rows == 1
        assert second.bytes < first.bytes < written.size / 5, "the footer is read once"
        sizes[keys] = second.bytes
    assert sizes[100_000] < 2 * sizes[10_000]


def test_rows_that_are_due_are_read_without_those_that_are_not(tmp_path: Path) -> None:
    """As of sessions, waits and reminders: their tables are sorted by time."""
    place, source = StatePlace(str(tmp_path), LAYOUT, "by_time"), StateSource(str(tmp_path))
    for batch in range(3):
        rows = table_of([(7_919 * n + batch, n) for n in range(30_000)])
        written = write_state(place, rows, batch, remember=False)
        assert written is not None
        source = source.plus([written])
    forget_state()
    all_bytes = sum(file.size for file in source.files.values())
    read_state(source, LAYOUT, "by_time", Needs(times=(0, 0)))  # the footers
    found = read_state(source, LAYOUT, "by_time", Needs(times=(20_000, 20_099)))
    assert found.rows.num_rows == 300
    assert 0 < found.bytes < all_bytes / 10
    touched = Needs(np.array([7_919 * 5]), either=Needs(times=(20_000, 20_099)))
    assert read_state(source, LAYOUT, "by_time", touched).rows.num_rows == 301


def test_all_columns_of_all_types_lie_in_one_delta_table(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            (HASH, pa.int64()),
            (KEY, pa.binary()),
            ("__since", pa.timestamp("us", "UTC")),
            ("left.amount", pa.decimal128(38, 6)),
            ("day", pa.date32()),
            ("small", pa.int8()),
            ("real", pa.float32()),
            ("map", pa.map_(pa.string(), pa.float64())),
        ]
    )
    layout = StateLayout({"one": StateTable(schema, (HASH,), as_they_are), "by_time": BY_TIME})
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        (1, b"\0", moment, Decimal("1.5"), date(2026, 1, 1), 7, 0.5, [("a", 1.0), ("b", None)]),
        (2, None, None, None, None, None, None, None),
    ]
    columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
    uri = str(tmp_path / "state")
    table = lake.create(uri, layout.schema, kinds.state(("__table", "__hash", "__time", "__batch")))
    written = write_state(StatePlace(uri, layout, "one"), pa.Table.from_arrays(columns, schema=schema), 3)
    other = write_state(StatePlace(uri, layout, "by_time"), table_of([(5, None)]), 3)
    assert written is not None
    assert other is not None
    lake.TableWriter(table, lake.APPENDER).append([written, other], {"writer": "test"})
    table.checkpoint()
    lake.forget(uri)
    source = StateSource(uri, lake.open_table(uri).snapshot().files)
    assert list(source.of("one").files) == [written.path]
    found = read_state(source, layout, "one", Needs()).rows
    assert found.drop_columns([BATCH]).equals(pa.Table.from_arrays(columns, schema=schema))
    whole = DeltaTable(delta_uri(uri)).to_pyarrow_table()
    assert sorted(whole["__table"].to_pylist()) == ["by_time", "one", "one"]


def test_values_that_rarely_repeat_have_no_dictionary_in_a_file(tmp_path: Path) -> None:
    schema = pa.schema([*SCHEMA, ("name", pa.string()), ("kind", pa.string()), ("at", pa.int64())])
    layout = StateLayout({"one": StateTable(schema, (HASH,), as_they_are)})
    numbers = range(1_000)
    more = [[f"n{n}" for n in numbers], [f"k{n % 5}" for n in numbers], [n // 100 for n in numbers]]
    rows = table_of([(n, n) for n in numbers])
    for field, values in zip([*schema][len(SCHEMA) :], more, strict=True):
        rows = rows.append_column(field, pa.array(values, field.type))
    written = write_state(StatePlace(str(tmp_path), layout, "one"), rows, 0, remember=False)
    assert written is not None
    group = pq.ParquetFile(tmp_path / written.path).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    repeated = {column.path_in_schema for column in columns if column.has_dictionary_page}
    assert {"one.kind", "one.at", "__table", "__batch"} <= repeated
    assert not repeated & {"one.name", "one.__at_ms", "one.__key", "__hash"}
    found = read_state(StateSource(str(tmp_path)).plus([written]), layout, "one", Needs()).rows
    assert found.drop_columns([BATCH]).sort_by(HASH).combine_chunks().equals(rows.combine_chunks())


def test_an_object_store_is_read_by_ranges_of_several_files_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    files: list[NewFile] = []
    for batch in range(3):
        written = write_state(
            StatePlace(str(tmp_path), LAYOUT, "by_hash"), table_of([(n, 1) for n in range(50)]), batch, 5
        )
        assert written is not None
        store.put(f"state/{written.path}", (tmp_path / written.path).read_bytes())
        files.append(written)
    for module in ("state_parquet", "at_once"):
        monkeypatch.setattr(f"headrace.engine.{module}.is_local", lambda uri: False)
    monkeypatch.setattr("headrace.lake.files.stored_file.store_of", lambda uri: (store, uri))
    source = StateSource("state").plus(files)
    read = read_state(source, LAYOUT, "by_hash", Needs(np.array([7, 33])))
    assert sorted(read.rows[HASH].to_pylist()) == [7, 7, 7, 33, 33, 33]
    assert read.bytes < sum(file.size for file in files)
