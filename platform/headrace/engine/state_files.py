"""Files of a node's state: which there are, and how a task writes the rows that it gains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.state_groups import StateFile
from headrace.engine.state_layout import SHARED, TABLE, TIME, StateLayout
from headrace.engine.state_needs import Bounds
from headrace.engine.state_parquet import FOOTERS
from headrace.fold.contract import BATCH, HASH, KEY
from headrace.lake import DataFile, DataFileWriter, Encoding, LakeTable, NewFile
from headrace.lake.commits.snapshot import data_file

# In each group of rows, the least that is read of a file. Each group costs half a millisecond of CPU to write. With 256 rows
# a file of 1,250 rows took 6.1 ms in place of 3.8, and a read of 100 among 100,000 keys 1.0 MB in place of 2.7.
GROUP_ROWS_MIN, GROUPS_MAX = 1_024, 1_000
SAMPLE_ROWS = 256  # of a file tell which of its columns repeat
ALL_HASHES = (-(1 << 63), (1 << 63) - 1)


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
    encoding = Encoding(different=_different(packed, table), statistics=(HASH, TIME))
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
        FOOTERS.put(f"{uri}/{new.path}", writer.footer, packed.column_names)
        StateFile(f"{uri}/{new.path}", layout, table).remember_written(packed, group_rows)
    return new


def _different(packed: pa.Table, table: str) -> frozenset[str]:
    """The columns whose values rarely repeat, by a few rows: a dictionary of such values takes time, and more bytes."""
    few = packed.slice(0, SAMPLE_ROWS).combine_chunks()
    columns = {name: few[name].chunk(0) for name in SHARED.names}
    own = few[table].chunk(0)
    columns |= {f"{table}.{field.name}": part for field, part in zip(own.type, own.flatten(), strict=True)}
    found = {
        name
        for name, column in columns.items()
        if not pa.types.is_nested(column.type) and 2 * len(column.unique()) > few.num_rows
    }
    return frozenset({HASH, f"{table}.{KEY}", *found})


def _note_bounds(writer: DataFileWriter, packed: pa.Table, table: str, batch: int) -> None:
    writer.bound_by(TABLE, table, table)
    for name in (HASH, TIME):
        ends = pc.min_max(packed[name])
        if ends["min"].is_valid:
            writer.bound_by(name, ends["min"].as_py(), ends["max"].as_py())
    writer.bound_by(BATCH, pc.min(packed[BATCH]).as_py(), batch)
