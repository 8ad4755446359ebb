"""Groups of rows of state files, decoded. Those used last are remembered, also those that this process has just written.

Most of what a micro-batch reads of the state it has read, or written, a moment ago. A file never changes and its name
never comes again, so what is remembered of it stays true, also after the file is removed.

Law: a read gives the same rows whether a group is remembered or not. The groups that are remembered have a stated number of
bytes at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.state_layout import NO_TIME, SHARED, TABLE, TIME, StateLayout
from headrace.engine.state_parquet import FOOTERS, Footer, read_groups
from headrace.fold.contract import HASH
from headrace.lake.files.byte_cache import ByteCache
from headrace.lake.state_limits import state_limits

GROUPS_AT_ONCE = 256  # are decoded before their rows are chosen
COLUMN_BYTES = 512  # of Arrow's own, for each column of a group


@dataclass(frozen=True)
class StateGroup:
    """The rows of one state table in one group of rows.

    rows    as `StateTable.empty` has them; they share no memory with another group
    hashes  HASH of each row
    times   TIME of each row
    """

    rows: pa.RecordBatch
    hashes: np.ndarray
    times: np.ndarray
    bytes: int

    @classmethod
    def of(cls, rows: pa.Table, times: np.ndarray) -> StateGroup:
        """A copy of rows, which may be a part of larger ones. In: rows  in one chunk at most; times: TIME of each."""
        columns = [
            column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in rows.columns
        ]
        buffer = pa.RecordBatch.from_arrays(columns, schema=rows.schema).serialize()
        own = pa.ipc.read_record_batch(buffer, rows.schema)
        own_times = times.copy()
        own_times.flags.writeable = False
        size = buffer.size + own_times.nbytes + COLUMN_BYTES * own.num_columns
        return cls(own, own.column(HASH).to_numpy(), own_times, size)


Choose = Callable[[np.ndarray, np.ndarray], np.ndarray]
GROUPS: ByteCache[tuple[str, str, int], StateGroup] = ByteCache(state_limits().remembered_bytes)


@dataclass(frozen=True)
class StateFile:
    """The rows that one state table has in one file."""

    uri: str
    layout: StateLayout
    table: str

    def known(self, numbers: Sequence[int]) -> tuple[list[StateGroup], list[int]]:
        """Those of some groups of rows that are remembered, and the numbers of the others."""
        groups = {number: self._known(number) for number in numbers}
        missing = [number for number, group in groups.items() if group is None]
        return [group for group in groups.values() if group is not None], missing

    def read(
        self, size: int, footer: Footer, numbers: Sequence[int], *, remember: bool
    ) -> tuple[list[StateGroup], int]:
        """Some groups of rows, and the bytes that were read for them.

        In: size      bytes of the file
            numbers   of the groups
            remember  whether the groups are remembered
        """
        packed, read = read_groups(self.uri, size, footer, numbers)
        ends = np.cumsum([footer.parquet.row_group(number).num_rows for number in numbers])
        groups = [*self._parted(packed, ends)]
        for number, group in zip(numbers, groups, strict=True) if remember else ():
            self._remember(number, group)
        return groups, read

    def choose(
        self, size: int, footer: Footer, numbers: Sequence[int], choose: Choose
    ) -> tuple[list[pa.Table], int]:
        """Some rows of many groups, and the bytes that were read; no group is parted or remembered.

        In: choose  which rows, by HASH and TIME
        """
        chosen, read = [], 0
        for at in range(0, len(numbers), GROUPS_AT_ONCE):
            packed, bytes_read = read_groups(self.uri, size, footer, numbers[at : at + GROUPS_AT_ONCE])
            read += bytes_read
            mine = choose(packed[HASH].to_numpy(), packed[TIME].fill_null(NO_TIME).to_numpy())
            # Another writer's compaction may have mixed state tables.
            if len(footer.columns) > len(SHARED) + 1:
                mine &= pc.equal(packed[TABLE], self.table).to_numpy()
            chosen.append(self.layout.unpacked(self.table, packed.filter(pa.array(mine))))
        return chosen, read

    def whole(self, size: int, footer: Footer) -> tuple[pa.Table, np.ndarray]:
        """All rows of the state table, and TIME of each."""
        packed, _ = read_groups(self.uri, size, footer, range(footer.parquet.num_row_groups))
        packed = packed.filter(pc.equal(packed[TABLE], self.table))
        return self.layout.unpacked(self.table, packed), packed[TIME].fill_null(NO_TIME).to_numpy()

    def remember_written(self, packed: pa.Table, group_rows: int) -> None:
        """Remember all of a file that has just been written.

        In: packed      its rows, as the file holds them
            group_rows  rows of each group but the last
        """
        ends = np.minimum(np.arange(group_rows, packed.num_rows + group_rows, group_rows), packed.num_rows)
        for number, group in enumerate(self._parted(packed, ends)):
            self._remember(number, group)

    def _known(self, number: int) -> StateGroup | None:
        found = GROUPS.get((self.uri, self.table, number))
        # A changed description may go on with the files of the one before, with other columns.
        schema = self.layout.tables[self.table].empty().schema
        return found if found is not None and found.rows.schema.equals(schema) else None

    def _remember(self, number: int, group: StateGroup) -> None:
        GROUPS.put((self.uri, self.table, number), group, group.bytes)

    def _parted(self, packed: pa.Table, ends: np.ndarray) -> Iterator[StateGroup]:
        """Part rows into groups. In: ends  where each group ends."""
        mine = pc.equal(packed[TABLE], self.table).to_numpy()
        if not mine.all():  # another writer's compaction has mixed state tables
            packed, ends = packed.filter(pa.array(mine)), np.cumsum(mine)[ends - 1]
        times = packed[TIME].fill_null(NO_TIME).to_numpy()
        rows = self.layout.unpacked(self.table, packed).combine_chunks()
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            yield StateGroup.of(rows.slice(start, end - start), times[start:end])


def forget_state() -> None:
    """Forget all groups and footers, as in a process that has just begun."""
    GROUPS.clear()
    FOOTERS.clear()
