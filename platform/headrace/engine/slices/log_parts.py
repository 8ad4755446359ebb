"""A slice of a log in parts, so that a log of any size is read in bounded memory, and only the rows that are wanted.

Law: the parts together give the rows of the slice that are wanted. All other rows are skipped once the columns are read that
tell what is wanted; a group of rows is not read at all if its bounds tell that it has none.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.description.epoch_time import EPOCH
from headrace.engine.slices.log_slices import (
    COMMIT_ROWS,
    INGESTED_AT,
    KIND,
    LAST_MS,
    LogSlice,
    Origin,
    column_of,
    may_decide,
)
from headrace.engine.state_parquet import open_parquet
from headrace.lake import open_table
from headrace.lake.files.group_bounds import GroupBounds
from headrace.lake.files.row_groups import read_row_groups
from headrace.sequence.log_columns import CONTROL

PART_ROWS = 1 << 18  # about; those of a part are in memory at once
TIME = "timestamp"


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

    @property
    def columns(self) -> list[str]:
        """The columns that tell which records are wanted; none: all are."""
        return [*(_path(origin) for origin in self.values), *([] if self.within is None else [TIME])]

    def among(self, rows: pa.Table) -> np.ndarray:
        """Which rows are wanted. In: rows  with KIND if control rows may be among them."""
        found = np.full(rows.num_rows, True)
        for origin, values in self.values.items():
            found &= _is_one_of(column_of(rows, origin), values)
        if self.within is not None:
            first, end = (pa.scalar(us, pa.int64()).cast(rows[TIME].type) for us in self.within)
            inside = pc.and_(pc.greater_equal(rows[TIME], first), pc.less(rows[TIME], end))
            found &= pc.fill_null(inside, False).to_numpy()
        if not self.controls or KIND not in rows.column_names:
            return found
        found |= pc.equal(rows[KIND], CONTROL).to_numpy()
        return found

    def may_be_in(self, bounds: GroupBounds, group: int) -> bool:
        """Whether a group of rows may have a record that is wanted, by the bounds of its numbers and times."""
        for origin, values in self.values.items():
            of = bounds.of(group, _path(origin)) if pa.types.is_integer(values.type) else None
            if of is not None and not values.null_count:
                low, high = (pa.scalar(each, values.type) for each in of)
                inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
                if not pc.any(inside).as_py():
                    return False
        times = None if self.within is None else bounds.of(group, TIME)
        if self.within is None or times is None:
            return True
        low, high = map(_microseconds, times)
        return low < self.within[1] and high >= self.within[0]


@dataclass(frozen=True)
class LogPart(LogSlice):
    """Some groups of rows of the one file of a slice.

    footer  of the file
    wanted  which rows of the groups are wanted; None: all that are of the slice
    """

    groups: Sequence[int] = ()
    footer: pq.FileMetaData | None = None
    wanted: np.ndarray | None = None

    @property
    def _telling(self) -> tuple[str, ...]:
        return super()._telling if self.wanted is None else ()

    def _groups(self, name: str, size: int, wanted: Sequence[str]) -> pa.Table:
        with open_parquet(f"{self.uri}/{name}", size, self.footer) as file:
            return read_row_groups(file, self.groups, wanted)

    def _own_rows(self, rows: pa.Table) -> np.ndarray:
        return super()._own_rows(rows) if self.wanted is None else self.wanted

    def among(self, file: pq.ParquetFile, wanted: Wanted, *more: str) -> dict[int, np.ndarray]:
        """Which rows of those groups are wanted that have one that is. In: more  columns that tell it, besides."""
        telling = [INGESTED_AT, COMMIT_ROWS, *wanted.columns, *more]
        rows = read_row_groups(file, self.groups, telling)
        mine = self._own_rows(rows) & wanted.among(rows)
        ends = np.cumsum([file.metadata.row_group(number).num_rows for number in self.groups])
        parts = zip(self.groups, np.split(mine, ends[:-1]), strict=True)
        return {number: part for number, part in parts if part.any()}


def parts_of(whole: LogSlice, wanted: Wanted) -> Iterator[LogPart]:
    """The parts of a slice that have rows that are wanted."""
    for name, size in whole.files.items():
        with open_parquet(f"{whole.uri}/{name}", size, None) as file:
            yield from _parts_of_file(whole, {name: size}, file, wanted)


def _parts_of_file(
    whole: LogSlice, named: Mapping[str, int], file: pq.ParquetFile, wanted: Wanted
) -> Iterator[LogPart]:
    footer, bounds = file.metadata, GroupBounds(file.metadata)
    part = partial(LogPart, whole.uri, named, whole.after_ms, whole.through_ms, footer=footer)
    groups = whole.groups_of(file)
    if not wanted.columns:
        yield from (part(groups=each) for each in _together(footer, groups))
        return
    decided = {n for n in groups if wanted.controls and may_decide(bounds, n)}
    others = [n for n in groups if n not in decided and wanted.may_be_in(bounds, n)]
    hits: dict[int, np.ndarray] = {}
    for more, some in ((), others), ((KIND,), sorted(decided)):
        for each in _together(footer, some):
            hits |= part(groups=each).among(file, wanted, *more)
            if sum(map(len, hits.values())) >= PART_ROWS:
                yield part(groups=[*hits], wanted=np.concatenate([*hits.values()]))
                hits = {}
    if hits:
        yield part(groups=[*hits], wanted=np.concatenate([*hits.values()]))


def _together(footer: pq.FileMetaData, groups: Sequence[int]) -> Iterator[list[int]]:
    """Groups of rows, so many together as have about PART_ROWS rows."""
    ends = np.cumsum([footer.row_group(number).num_rows for number in groups], dtype=np.int64)
    for number in np.unique(ends // PART_ROWS):
        yield [group for group, end in zip(groups, ends, strict=True) if end // PART_ROWS == number]


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


def _path(origin: Origin) -> str:
    return ".".join(origin.path)


def _is_one_of(column: pa.ChunkedArray, values: pa.Array) -> np.ndarray:
    is_one = len(values) == 1 and not values.null_count
    mine = pc.fill_null(pc.equal(column, values[0]), False) if is_one else pc.is_in(column, values)
    found: np.ndarray = mine.to_numpy()
    return found


def _microseconds(at: dt.datetime) -> int:
    return (at.replace(tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)
