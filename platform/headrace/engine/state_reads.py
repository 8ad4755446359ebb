"""A task reads of a node's state the rows that its bucket needs: from memory, from local copies, or from Parquet.

Law: a read gives every row that is needed, merged. Statistics of files, then of groups of rows, only leave out what has no
such row. Neither memory nor copies change a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from headrace.engine.at_once import each
from headrace.engine.state_copies import COPIES, CopiedFile, copied
from headrace.engine.state_files import ALL_HASHES, StateSource
from headrace.engine.state_groups import StateFile, StateGroup
from headrace.engine.state_layout import TIME, StateLayout
from headrace.engine.state_needs import Bounds, NeededPart, may_be_in, needed_of, needed_parts
from headrace.engine.state_parquet import ANY, FOOTERS, Footer, pairs
from headrace.fold.contract import HASH, Needs, StateTable
from headrace.lake import DataFile

FILTERED_ROWS = 1 << 16  # at a time: a small file has fewer rows than a call of Arrow is worth
# A read that lacks more groups keeps none of them. To part and remember a group costs as much as to decode it, and a few
# such reads would push out all that is remembered.
MANY_GROUPS = 200
COPIED_ROWS_MIN = 32_768  # of a file that is worth a copy
# A read that takes more rows of each group makes good use of it. While a node catches up, its runs do not live long enough
# for copies, which then cost as much as they save.
SPARSE_ROWS = 16
# A worker has them in memory, and twice more while it merges them. To merge the first ones again takes a quarter more time.
UNMERGED_ROWS_MAX = 1 << 20


@dataclass(frozen=True)
class ReadCost:
    """The cost of reads of the state.

    bytes  that were read of files
    rows   that were needed, before they were merged
    near   of these were remembered, or came from local copies
    """

    bytes: int = 0
    rows: int = 0
    near: int = 0

    def __add__(self, other: ReadCost) -> ReadCost:
        """The cost of both."""
        return ReadCost(self.bytes + other.bytes, self.rows + other.rows, self.near + other.near)


NO_COST = ReadCost()


@dataclass(frozen=True)
class StateRead:
    """Merged rows of a state table, with BATCH, and what they cost."""

    rows: pa.Table
    cost: ReadCost

    @property
    def bytes(self) -> int:
        """The bytes that were read of files."""
        return self.cost.bytes


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
        remember  whether what is read is worth keeping near; False: no local copy serves the read, either
    """
    wanted = [*needed_parts(need, hashes)]
    known = source.of(table, hashes).files
    bounds = (pairs([_bounds(file, column) for file in known.values()]) for column in (HASH, TIME))
    near = itertools.compress(known.items(), may_be_in(wanted, *bounds))
    sizes = {f"{source.uri}/{name}": file.size for name, file in near}
    return _TableRead(layout, table, wanted, remember).of(source.uri, sizes)


@dataclass(frozen=True)
class _Glance:
    """The knowledge of a file before a read takes rows of it.

    copied   the needed rows, by its local copy; None: there is none, and the others say what is known
    groups   those that may have needed rows, and are remembered
    missing  the numbers of the others
    bytes    that were read for the footer
    """

    file: StateFile
    size: int
    copied: pa.Table | None = None
    footer: Footer | None = None
    groups: Sequence[StateGroup] = ()
    missing: Sequence[int] = ()
    bytes: int = 0


@dataclass(frozen=True)
class _TableRead:
    """One read of a state table."""

    layout: StateLayout
    table: str
    wanted: Sequence[NeededPart]
    remember: bool

    def of(self, uri: str, sizes: Mapping[str, int]) -> StateRead:
        """The needed rows of files. In: uri  where they lie; `sizes`: their bytes, by URI."""
        state = self.layout.tables[self.table]
        glances = [*each(self._glance, sizes.items(), uri)]
        missing = sum(len(one.missing) for one in glances)
        many = missing >= MANY_GROUPS
        near = [one.copied for one in glances if one.copied is not None]
        near += self._filtered(group for one in glances for group in one.groups)
        merged, bytes_read = _Merged(state), sum(one.bytes for one in glances)
        merged.take(near)
        near_rows = merged.taken
        lacking = [one for one in glances if one.missing]
        for tables, size in each(self._chosen if many else self._parted, lacking, uri):
            bytes_read += size
            merged.take(tables)
        if many and self.remember and merged.taken - near_rows < SPARSE_ROWS * missing:
            self._want(lacking)
        return StateRead(merged.rows(), ReadCost(bytes_read, merged.taken, near_rows))

    def _glance(self, sized: tuple[str, int]) -> _Glance:
        uri, size = sized
        file = StateFile(uri, self.layout, self.table)
        copy = COPIES.find(self._copied(file, size)) if self.remember else None
        if copy is not None:
            return _Glance(file, size, copy.needed(self.wanted))
        footer, read = FOOTERS.of(uri, size)
        if self.table not in footer.columns:
            return _Glance(file, size, bytes=read)
        numbers = np.flatnonzero(may_be_in(self.wanted, footer.hashes, footer.times)).tolist()
        groups, missing = file.known(numbers)
        return _Glance(file, size, None, footer, groups, missing, read)

    def _parted(self, one: _Glance) -> tuple[list[pa.Table], int]:
        """The needed rows of groups that are remembered from now on."""
        assert one.footer is not None
        groups, size = one.file.read(one.size, one.footer, one.missing, remember=self.remember)
        return [*self._filtered(groups)], size

    def _chosen(self, one: _Glance) -> tuple[list[pa.Table], int]:
        """The needed rows of so many groups that none is remembered."""
        assert one.footer is not None
        return one.file.choose(one.size, one.footer, one.missing, partial(needed_of, self.wanted))

    def _want(self, lacking: Sequence[_Glance]) -> None:
        """Ask for copies of the large files."""
        for one in lacking:
            assert one.footer is not None
            if one.footer.parquet.num_rows >= COPIED_ROWS_MIN:
                COPIES.want(self._copied(one.file, one.size), partial(self._whole, one))

    def _whole(self, one: _Glance) -> pa.Table:
        assert one.footer is not None
        rows, times = one.file.whole(one.size, one.footer)
        return copied(rows, None if self.layout.tables[self.table].time_column is None else times)

    def _copied(self, file: StateFile, size: int) -> CopiedFile:
        return CopiedFile(file.uri, size, self.table, self.layout.tables[self.table].empty().schema)

    def _filtered(self, groups: Iterator[StateGroup] | Sequence[StateGroup]) -> Iterator[pa.Table]:
        """The rows of groups that are needed, of many groups at a time."""
        waiting: list[StateGroup] = []
        rows = 0
        for group in groups:
            waiting.append(group)
            rows += len(group.hashes)
            if rows >= FILTERED_ROWS:
                yield self._needed(waiting)
                waiting, rows = [], 0
        if waiting:
            yield self._needed(waiting)

    def _needed(self, groups: Sequence[StateGroup]) -> pa.Table:
        hashes = np.concatenate([group.hashes for group in groups])
        times = np.concatenate([group.times for group in groups])
        needed = needed_of(self.wanted, hashes, times)
        rows = pa.Table.from_batches([group.rows for group in groups])
        return rows if needed.all() else rows.combine_chunks().filter(pa.array(needed))


class _Merged:
    """Rows of a state table, merged before they are too many: a state of many keys has several runs, each nearly all keys.

    taken  how many rows came
    Law:   there are at most as many unmerged rows as merged ones, or UNMERGED_ROWS_MAX, and those of one file. So work grows
           with the rows also where none is merged
    """

    def __init__(self, state: StateTable) -> None:
        self._state, self._waiting, self._unmerged, self.taken = state, [state.empty()], 0, 0

    def take(self, tables: Sequence[pa.Table]) -> None:
        """Some more rows."""
        rows = sum(one.num_rows for one in tables)
        self._waiting += tables
        self.taken, self._unmerged = self.taken + rows, self._unmerged + rows
        if self._unmerged > max(UNMERGED_ROWS_MAX, self._waiting[0].num_rows):
            self._waiting, self._unmerged = [self.rows()], 0

    def rows(self) -> pa.Table:
        """All rows that came, merged."""
        rows = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting = []
        return self._state.merge(rows)


def _bounds(file: DataFile, column: str) -> Bounds:
    lowest, highest = file.lowest.get(column), file.highest.get(column)
    return ANY if lowest is None or highest is None else (int(lowest), int(highest))
