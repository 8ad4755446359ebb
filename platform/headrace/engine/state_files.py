"""Files of a node's state: a task reads of them the rows that its bucket needs, and writes the rows that it gains.

Law: a read gives every row that is needed, merged. Statistics of files, then of groups of rows, only leave out what has no
such row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.engine.state_layout import NO_TIME, TABLE, TIME, StateLayout
from headrace.engine.state_parquet import FOOTERS, read_groups
from headrace.fold.contract import BATCH, HASH, KEY, Needs
from headrace.lake import DataFile, DataFileWriter, Encoding, LakeTable, NewFile
from headrace.lake.snapshot import data_file
from headrace.lake.storage import is_local

# In each group of rows, the least that is read of a file: few, yet not so many groups that the footer outgrows them.
GROUP_ROWS_MIN, GROUPS_MAX = 256, 1_000
ALL_HASHES = (-(1 << 63), (1 << 63) - 1)
READS_AT_ONCE = 8  # files of an object store
Bounds = tuple[int, int]
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class StateSource:
    """Where a task reads the state: the Delta table, and its files by name. Not all of them need be committed."""

    uri: str
    files: Mapping[str, DataFile] = field(default_factory=dict)

    @classmethod
    def committed(cls, table: LakeTable) -> StateSource:
        """The files that the newest version of a node's state names."""
        return cls(table.uri, table.snapshot().files)

    def of(self, table: str, hashes: Bounds = ALL_HASHES) -> StateSource:
        """The files that may have rows of a state table whose hash is within bounds."""
        found = {
            name: file
            for name, file in self.files.items()
            if file.may_have(TABLE, table, table) and file.may_have(HASH, *hashes)
        }
        return replace(self, files=found)

    def only(self, table: str) -> StateSource:
        """The files that have rows of this state table alone: all but those that another writer's compaction has mixed."""
        found = {
            name: file
            for name, file in self.files.items()
            if file.lowest.get(TABLE) == table == file.highest.get(TABLE)
        }
        return replace(self, files=found)

    def plus(self, files: Iterable[NewFile]) -> StateSource:
        """The same with files that no commit names yet."""
        return replace(
            self, files={**self.files, **{new.path: data_file(new.size, new.stats) for new in files}}
        )


@dataclass(frozen=True)
class StateRead:
    """Merged rows of a state table, with BATCH, and how many bytes of files were read for them."""

    rows: pa.Table
    bytes: int


def read_state(
    source: StateSource, layout: StateLayout, table: str, need: Needs, hashes: Bounds = ALL_HASHES
) -> StateRead:
    """The rows of a state table that a bucket needs.

    In: hashes  the lowest and the highest hash of the bucket
    """
    wanted = [part for part in _parts(need, hashes) if not part.is_empty]
    files = {
        f"{source.uri}/{name}": file.size
        for name, file in source.of(table, hashes).files.items()
        if any(part.may_be_in(_bounds(file, HASH), _bounds(file, TIME)) for part in wanted)
    }

    def read(file: tuple[str, int]) -> tuple[pa.Table, int]:
        return _read_file(*file, layout, table, wanted)

    found = list(_each(read, files.items(), at_once=1 if is_local(source.uri) else READS_AT_ONCE))
    state = layout.tables[table]
    rows = pa.concat_tables([state.empty(), *(rows for rows, _ in found)]).combine_chunks()
    return StateRead(state.merge(rows), sum(size for _, size in found))


def _each(work: Callable[[T], R], items: Collection[T], at_once: int) -> Iterable[R]:
    """Do something with each item, several at once: of an object store, most of the time is waiting."""
    if at_once == 1 or len(items) < 2:
        return map(work, items)
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(work, items))


def write_state(
    uri: str, layout: StateLayout, table: str, rows: pa.Table, batch: int, group_rows: int | None = None
) -> NewFile | None:
    """Write the rows that a state table gains into a file of their own; None: there are none.

    In: rows   as `StateTable.schema`, in any order
        batch  the micro-batch, or the piece of one, that they come from
    """
    marked = rows.append_column(BATCH, pa.array(np.full(rows.num_rows, batch, np.int32)))
    return write_merged(uri, layout, table, marked, batch, group_rows)


def write_merged(
    uri: str, layout: StateLayout, table: str, rows: pa.Table, batch: int, group_rows: int | None = None
) -> NewFile | None:
    """The same for rows that have BATCH. In: batch  the highest that the file's statistics name."""
    if not rows.num_rows:
        return None
    keys = [(name, "ascending") for name in layout.tables[table].sorted_by]
    order = pc.sort_indices(rows, sort_keys=keys)
    packed = layout.packed(table, rows.take(order))
    group_rows = group_rows or max(GROUP_ROWS_MIN, -(-rows.num_rows // GROUPS_MAX))
    encoding = Encoding(different=frozenset({HASH, f"{table}.{KEY}"}), statistics=(HASH, TIME))
    writer = DataFileWriter(uri, packed.schema, encoding)
    try:
        for at in range(0, packed.num_rows, group_rows):
            part = packed.slice(at, group_rows)
            writer.write(dict(zip(part.column_names, part.columns, strict=True)), part.num_rows)
        _note_bounds(writer, packed, table, batch)
        written = writer.close()
    except BaseException:
        writer.remove()
        raise
    assert written is not None
    return NewFile(**written)


def _note_bounds(writer: DataFileWriter, packed: pa.Table, table: str, batch: int) -> None:
    writer.bound_by(TABLE, table, table)
    for name in (HASH, TIME):
        ends = pc.min_max(packed[name])
        if ends["min"].is_valid:
            writer.bound_by(name, ends["min"].as_py(), ends["max"].as_py())
    writer.bound_by(BATCH, pc.min(packed[BATCH]).as_py(), batch)


@dataclass(frozen=True)
class _Part:
    """One of several needs, within a bucket. `hashes` None: all from `first` through `last`."""

    hashes: np.ndarray | None
    first: int
    last: int
    times: Bounds | None

    @property
    def is_empty(self) -> bool:
        return self.hashes is not None and not len(self.hashes)

    def may_be_in(self, hashes: Bounds | None, times: Bounds | None) -> bool:
        """Whether rows with a hash and a time within bounds may be needed; None: the bounds are not known."""
        if times is not None and self.times is not None and not _overlap(times, self.times):
            return False
        if hashes is None:
            return True
        if self.hashes is None:
            return _overlap(hashes, (self.first, self.last))
        at = int(np.searchsorted(self.hashes, hashes[0]))
        return at < len(self.hashes) and int(self.hashes[at]) <= hashes[1]

    def of(self, hashes: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Which rows are needed."""
        if self.hashes is None:
            found = (hashes >= self.first) & (hashes <= self.last)
        else:
            at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
            found = self.hashes[at] == hashes
        if self.times is not None:
            found &= (times >= self.times[0]) & (times <= self.times[1])
        return found


def _parts(need: Needs | None, hashes: Bounds) -> Iterable[_Part]:
    first, last = hashes
    while need is not None:
        mine = need.hashes
        if mine is not None:
            mine = mine[np.searchsorted(mine, first, "left") : np.searchsorted(mine, last, "right")]
        yield _Part(mine, first, last, need.times)
        need = need.either


def _read_file(
    uri: str, file_size: int, layout: StateLayout, table: str, wanted: Sequence[_Part]
) -> tuple[pa.Table, int]:
    """The rows that are needed, and the bytes that were read for them."""
    footer, size = FOOTERS.of(uri, file_size)
    if table not in footer.schema.to_arrow_schema().names:
        return layout.tables[table].empty(), size
    groups = [
        number
        for number in range(footer.num_row_groups)
        if any(part.may_be_in(*_group_bounds(footer.row_group(number))) for part in wanted)
    ]
    if not groups:
        return layout.tables[table].empty(), size
    rows, read = read_groups(uri, file_size, footer, groups)
    hashes = rows[HASH].to_numpy()
    times = rows[TIME].fill_null(NO_TIME).to_numpy()
    mine = np.zeros(rows.num_rows, bool)
    for part in wanted:
        mine |= part.of(hashes, times)
    mine &= pc.equal(rows[TABLE], table).to_numpy()
    return layout.unpacked(table, rows if mine.all() else rows.filter(pa.array(mine))), size + read


def _group_bounds(group: pq.RowGroupMetaData) -> tuple[Bounds | None, Bounds | None]:
    """The lowest and the highest HASH and TIME of a group of rows."""
    return _column_bounds(group, 1), _column_bounds(group, 2)  # the places of SHARED


def _column_bounds(group: pq.RowGroupMetaData, place: int) -> Bounds | None:
    statistics = group.column(place).statistics
    if statistics is None or not statistics.has_min_max:
        return None
    return int(statistics.min), int(statistics.max)


def _bounds(file: DataFile, column: str) -> Bounds | None:
    lowest, highest = file.lowest.get(column), file.highest.get(column)
    return None if lowest is None or highest is None else (int(lowest), int(highest))


def _overlap(one: Bounds, other: Bounds) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
