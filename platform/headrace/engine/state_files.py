"""Files of a node's state: a task reads of them the rows that its bucket needs, and writes the rows that it gains.

Law: a read gives every row that is needed, merged. Statistics of files, then of groups of rows, only leave out what has no
such row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.at_once import each
from headrace.engine.state_groups import StateFile, StateGroup
from headrace.engine.state_layout import TABLE, TIME, StateLayout
from headrace.engine.state_parquet import ANY, FOOTERS, pairs
from headrace.fold.contract import BATCH, HASH, KEY, Needs
from headrace.lake import DataFile, DataFileWriter, Encoding, LakeTable, NewFile
from headrace.lake.snapshot import data_file

# In each group of rows, the least that is read of a file. Each group costs half a millisecond of CPU to write. With 256 rows
# a file of 1,250 rows took 6.1 ms in place of 3.8, and a read of 100 among 100,000 keys 1.0 MB in place of 2.7.
GROUP_ROWS_MIN, GROUPS_MAX = 1_024, 1_000
ALL_HASHES = (-(1 << 63), (1 << 63) - 1)
FILTERED_ROWS = 1 << 16  # at a time: a small file has fewer rows than a call of Arrow is worth
Bounds = tuple[int, int]


@dataclass(frozen=True)
class StateSource:
    """Where a task reads the state: the Delta table, and its files by name. Not all of them need be committed."""

    uri: str
    files: Mapping[str, DataFile] = field(default_factory=dict)

    @classmethod
    def committed(cls, table: LakeTable, *, recent: bool = False) -> StateSource:
        """The files that the newest version of a node's state names. In: recent  see `LakeTable.recent_snapshot`."""
        return cls(table.uri, (table.recent_snapshot() if recent else table.snapshot()).files)

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
    source: StateSource,
    layout: StateLayout,
    table: str,
    need: Needs,
    hashes: Bounds = ALL_HASHES,
    *,
    remember: bool = True,
) -> StateRead:
    """The rows of a state table that a bucket needs.

    In: hashes    the lowest and the highest hash of the bucket
        remember  whether what is read of files is worth remembering (see `state_groups`)
    """
    wanted = [part for part in _parts(need, hashes) if not part.is_empty]
    known = source.of(table, hashes).files
    bounds = (pairs([_bounds(file, column) for file in known.values()]) for column in (HASH, TIME))
    near = itertools.compress(known.items(), _may_be_in(wanted, *bounds))
    files = {f"{source.uri}/{name}": file.size for name, file in near}

    def read(file: tuple[str, int]) -> tuple[list[StateGroup], int]:
        return _read_file(*file, layout, table, wanted, remember=remember)

    bytes_read: list[int] = []

    def groups() -> Iterator[StateGroup]:
        for found, size in each(read, files.items(), source.uri):
            bytes_read.append(size)
            yield from found

    state = layout.tables[table]
    rows = pa.concat_tables([state.empty(), *_needed(groups(), wanted)]).combine_chunks()
    return StateRead(state.merge(rows), sum(bytes_read))


@dataclass(frozen=True)
class StatePlace:
    """A table of the state in a folder. In: layout  with this table."""

    uri: str
    layout: StateLayout
    table: str


def write_state(
    place: StatePlace,
    rows: pa.Table,
    batch: int,
    group_rows: int | None = None,
    *,
    remember: bool = True,
) -> NewFile | None:
    """Write the rows that a state table gains into a file of their own; None: there are none.

    In: rows      as `StateTable.schema`, in any order
        batch     the micro-batch, or the piece of one, that they come from
        remember  whether they are remembered at once: the next micro-batches read many of them
    """
    marked = rows.append_column(BATCH, pa.array(np.full(rows.num_rows, batch, np.int32)))
    return write_merged(place, marked, batch, group_rows, remember=remember)


def write_merged(
    place: StatePlace,
    rows: pa.Table,
    batch: int,
    group_rows: int | None = None,
    *,
    remember: bool = False,
) -> NewFile | None:
    """The same for rows that have BATCH.

    In: batch     the highest that the file's statistics name
        remember  whether the rows are remembered
    """
    if not rows.num_rows:
        return None
    uri, layout, table = place.uri, place.layout, place.table
    keys = [(name, "ascending") for name in layout.tables[table].sorted_by]
    order = pc.sort_indices(rows, sort_keys=keys)
    packed = layout.packed(table, rows.take(order))
    group_rows = group_rows or max(GROUP_ROWS_MIN, -(-rows.num_rows // GROUPS_MAX))
    encoding = Encoding(different=frozenset({HASH, f"{table}.{KEY}"}), statistics=(HASH, TIME))
    writer = DataFileWriter(uri, packed.schema, encoding)
    try:
        columns = dict(zip(packed.column_names, packed.columns, strict=True))
        writer.write(columns, packed.num_rows, group_rows)
        _note_bounds(writer, packed, table, batch)
        written = writer.close()
    except BaseException:
        writer.remove()
        raise
    assert written is not None
    new = NewFile(**written)
    if remember:
        FOOTERS.put(f"{uri}/{new.path}", writer.footer)
        StateFile(f"{uri}/{new.path}", layout, table).remember_written(packed, group_rows)
    return new


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

    def may_be_in(self, hashes: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Which files, or groups of rows, may have needed rows. In: hashes, times  the bounds of each (see `pairs`)."""
        if self.hashes is None:
            found = (hashes[:, 0] <= self.last) & (hashes[:, 1] >= self.first)
        else:
            found = np.searchsorted(self.hashes, hashes[:, 0]) < np.searchsorted(
                self.hashes, hashes[:, 1], "right"
            )
        if self.times is not None:
            found &= (times[:, 0] <= self.times[1]) & (times[:, 1] >= self.times[0])
        return found

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
    uri: str, file_size: int, layout: StateLayout, table: str, wanted: Sequence[_Part], *, remember: bool
) -> tuple[list[StateGroup], int]:
    """The groups of rows that may have such as are needed, and the bytes that were read for them."""
    footer, size = FOOTERS.of(uri, file_size)
    if table not in footer.columns:
        return [], size
    numbers = np.flatnonzero(_may_be_in(wanted, footer.hashes, footer.times)).tolist()
    groups, read = StateFile(uri, layout, table).read(file_size, footer, numbers, remember=remember)
    return groups, size + read


def _may_be_in(wanted: Sequence[_Part], hashes: np.ndarray, times: np.ndarray) -> np.ndarray:
    """See `_Part.may_be_in`."""
    found = np.zeros(len(hashes), bool)
    for part in wanted:
        found |= part.may_be_in(hashes, times)
    return found


def _needed(groups: Iterable[StateGroup], wanted: Sequence[_Part]) -> Iterator[pa.Table]:
    """The rows of groups that are needed, of many groups at a time."""
    held: list[StateGroup] = []
    rows = 0
    for group in groups:
        held.append(group)
        rows += len(group.hashes)
        if rows >= FILTERED_ROWS:
            yield _filtered(held, wanted)
            held, rows = [], 0
    if held:
        yield _filtered(held, wanted)


def _filtered(groups: Sequence[StateGroup], wanted: Sequence[_Part]) -> pa.Table:
    hashes = np.concatenate([group.hashes for group in groups])
    times = np.concatenate([group.times for group in groups])
    mine = np.zeros(len(hashes), bool)
    for part in wanted:
        mine |= part.of(hashes, times)
    rows = pa.Table.from_batches([group.rows for group in groups])
    return rows if mine.all() else rows.combine_chunks().filter(pa.array(mine))


def _bounds(file: DataFile, column: str) -> Bounds:
    lowest, highest = file.lowest.get(column), file.highest.get(column)
    return ANY if lowest is None or highest is None else (int(lowest), int(highest))
