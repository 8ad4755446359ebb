"""A slice of a log in parts, so that a log of any size is read in bounded memory, and only the rows that are wanted.

Law: the parts together give the rows of the slice that are wanted, and perhaps others. All other rows are
skipped once the columns are read that tell what is wanted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.description.epoch_time import EPOCH
from headrace.engine.log_slices import COMMIT_ROWS, INGESTED_AT, LAST_MS, LogSlice, Origin, column_of
from headrace.engine.state_parquet import open_parquet
from headrace.lake import open_table
from headrace.sequence.log_columns import CONTROL

PART_ROWS = 1 << 18  # about; those of a part are in memory at once
KIND, TIME = "kind", "timestamp"


@dataclass(frozen=True)
class Wanted:
    """The rows that are wanted, by columns of the log.

    values    of a row each column has one of these
    within    event times in µs, from one up to but not including another; None: any
    controls  whether control rows are wanted, too
    """

    values: Mapping[Origin, pa.Array] = field(default_factory=dict)
    within: tuple[int, int] | None = None
    controls: bool = False

    @cached_property
    def columns(self) -> list[str]:
        """The columns that tell what is wanted."""
        names = [".".join(origin.path) for origin in self.values]
        return [*names, *([] if self.within is None else [TIME]), *([KIND] if self.controls else [])]

    def among(self, rows: pa.Table) -> np.ndarray:
        """Which rows are wanted."""
        found = np.full(rows.num_rows, True)
        for origin, values in self.values.items():
            found &= pc.is_in(column_of(rows, origin), values).to_numpy()
        if self.within is not None:
            first, end = (pa.scalar(us, pa.int64()).cast(rows[TIME].type) for us in self.within)
            inside = pc.and_(pc.greater_equal(rows[TIME], first), pc.less(rows[TIME], end))
            found &= pc.fill_null(inside, False).to_numpy()
        return found | pc.equal(rows[KIND], CONTROL).to_numpy() if self.controls else found

    def may_be_in(self, group: pq.RowGroupMetaData) -> bool:
        """Whether a group of rows may have one, by the bounds of its numbers and times."""
        if self.controls:
            return True
        bounds = {
            column.path_in_schema: column.statistics
            for column in map(group.column, range(group.num_columns))
            if column.path_in_schema in self.columns
        }
        for origin, values in self.values.items():
            of = bounds.get(".".join(origin.path))
            if pa.types.is_integer(values.type) and of is not None and of.has_min_max:
                low, high = pa.scalar(of.min, values.type), pa.scalar(of.max, values.type)
                inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
                if not pc.any(inside).as_py() and not values.null_count:
                    return False
        times = bounds.get(TIME)
        if self.within is None or times is None or not times.has_min_max:
            return True
        low, high = (_microseconds(at) for at in (times.min, times.max))
        return low < self.within[1] and high >= self.within[0]


@dataclass(frozen=True)
class LogPart(LogSlice):
    """Some groups of rows of the one file of a slice. In: footer  of the file."""

    groups: Sequence[int] = ()
    wanted: Wanted = field(default_factory=Wanted)
    footer: pq.FileMetaData | None = None

    def _read(self, name: str, size: int, columns: Mapping[str, Origin]) -> Iterator[pa.Table]:
        read = sorted({".".join(each.path) for each in columns.values()})
        telling = [INGESTED_AT, COMMIT_ROWS, *self.wanted.columns]
        with open_parquet(f"{self.uri}/{name}", size, self.footer) as file:
            if not self.wanted.columns:
                rows = file.read_row_groups(self.groups, columns=[*{*telling, *read}])
                mine = self._own_rows(rows)
            else:
                known = file.read_row_groups(self.groups, columns=telling)
                mine = self._own_rows(known) & self.wanted.among(known)
                ends = np.cumsum([file.metadata.row_group(number).num_rows for number in self.groups])
                parts = zip(self.groups, np.split(mine, ends[:-1]), strict=True)
                hit = {number: part for number, part in parts if part.any()}
                if not hit:
                    return
                rows, mine = file.read_row_groups([*hit], columns=read), np.concatenate([*hit.values()])
        rows = rows if mine.all() else rows.filter(pa.array(mine))
        yield pa.table({name: column_of(rows, origin) for name, origin in columns.items()})


def parts_of(whole: LogSlice, wanted: Wanted) -> Iterator[LogPart]:
    """The parts of a slice that may have rows that are wanted."""
    for name, size in whole.files.items():
        with open_parquet(f"{whole.uri}/{name}", size, None) as file:
            footer = file.metadata
            groups = [n for n in whole.groups_of(file) if wanted.may_be_in(footer.row_group(n))]
        sizes = np.cumsum([footer.row_group(number).num_rows for number in groups], dtype=np.int64)
        for number in np.unique(sizes // PART_ROWS):
            own = [group for group, end in zip(groups, sizes, strict=True) if end // PART_ROWS == number]
            yield LogPart(whole.uri, {name: size}, whole.after_ms, whole.through_ms, own, wanted, footer)


def rows_of_place(uri: str, partition: int, offset: int) -> list[dict[str, Any]]:
    """The rows of a log at a place, in all of its columns: one or none."""
    table = open_table(uri)
    files = {name: file.size for name, file in table.snapshot().within("offset", offset, offset).items()}
    columns = {field.name: Origin((field.name,), field.type) for field in table.columns}
    parts = parts_of(LogSlice(uri, files, 0, LAST_MS), at_place(partition, offset))
    return [row for part in parts for row in part.read(columns).to_pylist()]


def at_place(partition: int, offset: int) -> Wanted:
    """The record at a place."""
    values = (("partition", partition, pa.int32()), ("offset", offset, pa.int64()))
    return Wanted({Origin((name,), of): pa.array([value], of) for name, value, of in values})


def nothing_of(whole: LogSlice) -> LogSlice:
    """The same slice without a row."""
    return replace(whole, files={})


def _microseconds(at: dt.datetime) -> int:
    return (at.replace(tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)
