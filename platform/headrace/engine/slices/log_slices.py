"""A stretch of a log: whole log commits, in the files that the lake's snapshot names. A task or Spark reads it.

Law: a slice gives the same rows whoever reads it, and however files are packed. Commit rows are left out: they repeat what
others say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.at_once import each
from headrace.engine.state_parquet import open_parquet
from headrace.fold.values.columns import MOMENT, int64
from headrace.lake import open_table
from headrace.lake.files.group_bounds import GroupBounds
from headrace.lake.files.row_groups import ROWS_OF_ONE_THREAD_MAX, read_row_groups
from headrace.lake.files.sorted_rows import all_rows
from headrace.log.commit_row import PREFIX, without_commit_rows
from headrace.sequence.log_columns import DEAD_LETTER, RECORD, log_schema
from headrace.spark.lake_rows import read_between

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Topic
    from headrace.lake import DataFile

INGESTED_AT, COMMIT_ROWS = "ingested_at", "control"
LAST_MS = 1 << 52  # no commit is later
KIND = "kind"
PLACED = (RECORD, DEAD_LETTER)  # the kinds of rows that have offsets


def files_between(uri: str, after_ms: int, through_ms: int) -> dict[str, DataFile]:
    """The files that may have rows of a log after one commit time and through another, by name.

    They are of a version that has all of these rows. In: uri  of the log's table
    """
    snapshot = open_table(uri).snapshot_through(INGESTED_AT, through_ms * 1_000)
    return snapshot.within(INGESTED_AT, (after_ms + 1) * 1_000, through_ms * 1_000 + 999)


def first_commit_ms(uri: str, after_ms: int, through_ms: int) -> int:
    """The first commit time of a log after one and through another; `through_ms` if there is none.

    A file tells it by its bounds. Only a file with commits of before, too, as a merge leaves it, is read.
    """
    first_us, files = through_ms * 1_000, files_between(uri, after_ms, through_ms)
    for name, file in files.items():
        lowest_us = file.lowest.get(INGESTED_AT)
        if isinstance(lowest_us, int) and lowest_us > after_ms * 1_000 + 999:
            first_us = min(first_us, lowest_us)
        else:
            part = LogSlice(uri, {name: file.size}, after_ms, through_ms)
            first_us = min([first_us, *part.times_us()])
    return first_us // 1_000


def whole_log(uri: str) -> LogSlice:
    """All commits of a log."""
    snapshot = open_table(uri).snapshot()
    return LogSlice(uri, {name: file.size for name, file in snapshot.files.items()}, 0, LAST_MS)


@dataclass(frozen=True)
class Origin:
    """Where the log has a column.

    path  of names: that of a column, or that of a struct and of its field
    type  as the reader wants it
    """

    path: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True)
class LogSlice:
    """The log commits of one topic after one commit time and through another, in ms.

    uri    of the log's table
    files  those that may have such rows: names and sizes in bytes
    """

    uri: str
    files: Mapping[str, int]
    after_ms: int
    through_ms: int

    @classmethod
    def of(cls, uri: str, after_ms: int, through_ms: int) -> LogSlice:
        """The slice, in the files of a version of the log that has all of its rows."""
        found = files_between(uri, after_ms, through_ms)
        return cls(uri, {name: file.size for name, file in found.items()}, after_ms, through_ms)

    @property
    def bytes(self) -> int:
        """The size of the files."""
        return sum(self.files.values())

    def frame(self, spark: SparkSession, topic: Topic) -> DataFrame:
        """The rows as Spark reads them, in the columns of the log."""
        table, schema = open_table(self.uri), log_schema(topic)
        return without_commit_rows(
            read_between(spark, table, schema, INGESTED_AT, self.after_ms, self.through_ms)
        )

    def read(self, columns: Mapping[str, Origin]) -> pa.Table:
        """The rows as a task reads them, in any order. In: columns  those that are wanted, by the names they get."""
        wanted = sorted({*self._telling, *(".".join(origin.path) for origin in columns.values())})
        read = each(lambda file: self._groups(*file, wanted), self.files.items(), self.uri)
        own = (self._own(rows, columns) for rows in alike(rows for rows in read if rows is not None))
        return pa.concat_tables([_empty(columns), *own]).combine_chunks()

    def records(self) -> int:
        """How many of the rows are records or dead letters."""
        kinds = self.read({KIND: Origin((KIND,), pa.string())})[KIND]
        return int(pc.sum(pc.is_in(kinds, pa.array(PLACED)), min_count=0).as_py())

    def rows(self, schema: pa.Schema) -> pa.Table:
        """The rows in columns of the log. In: schema  with INGESTED_AT and COMMIT_ROWS; what a file lacks is null."""
        uris = [f"{self.uri}/{name}" for name in self.files]
        parts = (part.filter(pa.array(self._own_rows(part))) for part in all_rows(uris, schema))
        return pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()

    def commit_rows(self) -> list[tuple[int, str]]:
        """The time in ms of each log commit, and the JSON of its commit row; in order."""
        return [(at_ms, said) for at_ms, said in self.controls() if said.startswith(PREFIX)]

    def controls(self, partition: int | None = None) -> list[tuple[int, str]]:
        """The commit time in ms and the JSON of each control row, in order. In: partition  None: of all."""
        columns = {"at": Origin((INGESTED_AT,), MOMENT), "said": Origin((COMMIT_ROWS,), pa.string())}
        if partition is not None:
            columns["of"] = Origin(("partition",), pa.int32())
        rows = self.decisions(columns)
        rows = rows.filter(rows["said"].is_valid())
        if partition is not None:
            rows = rows.filter(pc.equal(rows["of"], partition))
        at_ms = int64(rows["at"].cast(pa.int64())) // 1_000
        return sorted(zip(at_ms.tolist(), rows["said"].to_pylist(), strict=True))

    def decisions(self, columns: Mapping[str, Origin]) -> pa.Table:
        """The rows that are no records, in any order: ticks and control rows, commit rows too.

        In: columns  that are wanted, by the names they get
        """
        read = each(lambda file: self._decisions(*file, columns), self.files.items(), self.uri)
        return pa.concat_tables([_empty(columns), *read]).combine_chunks()

    def times_us(self) -> list[int]:
        """The commit times in µs of all rows, commit rows too."""
        found: list[int] = []
        for name, size in self.files.items():
            with open_parquet(f"{self.uri}/{name}", size, None) as file:
                rows = read_row_groups(file, self.groups_of(file), [INGESTED_AT])
            at_us = int64(rows[INGESTED_AT].cast(pa.int64()))
            found += at_us[self._within(rows)].tolist()
        return found

    @property
    def _telling(self) -> tuple[str, ...]:
        """The columns that tell which rows of its files are its own."""
        return (INGESTED_AT, COMMIT_ROWS)

    def _groups(self, name: str, size: int, wanted: Sequence[str]) -> pa.Table | None:
        """Some columns of the groups of a file that may have rows of the slice; None: there is no such group."""
        with open_parquet(f"{self.uri}/{name}", size, None) as file:
            groups = self.groups_of(file)
            return read_row_groups(file, groups, wanted) if groups else None

    def _own(self, rows: pa.Table, columns: Mapping[str, Origin]) -> pa.Table:
        if not (mine := self._own_rows(rows)).all():
            rows = rows.filter(pa.array(mine))
        return pa.table({name: column_of(rows, origin) for name, origin in columns.items()})

    def _decisions(self, name: str, size: int, columns: Mapping[str, Origin]) -> pa.Table:
        wanted = {INGESTED_AT, KIND, *(".".join(origin.path) for origin in columns.values())}
        with open_parquet(f"{self.uri}/{name}", size, None) as file:
            bounds = GroupBounds(file.metadata)
            groups = [number for number in self.groups_of(file) if may_decide(bounds, number)]
            if not groups:
                return _empty(columns)
            rows = read_row_groups(file, groups, sorted(wanted))
        placed = pc.is_in(rows[KIND], pa.array(PLACED)).to_numpy()
        rows = rows.filter(pa.array(self._within(rows) & ~placed))
        return pa.table({name: column_of(rows, origin) for name, origin in columns.items()})

    def groups_of(self, file: pq.ParquetFile) -> list[int]:
        """The groups of a file that may have rows of the slice."""
        bounds = GroupBounds(file.metadata)
        return [number for number in range(file.num_row_groups) if self._may_have(bounds, number)]

    def _may_have(self, bounds: GroupBounds, group: int) -> bool:
        ends = bounds.of(group, INGESTED_AT)
        if ends is None:
            return True
        first, last = (int(np.datetime64(end.replace(tzinfo=None), "ms").astype(int)) for end in ends)
        return first <= self.through_ms and last > self.after_ms

    def within(self, rows: pa.Table) -> pa.Array:
        """Which rows of its files are of these commits."""
        return pa.array(self._within(rows))

    def _within(self, rows: pa.Table) -> np.ndarray:
        at_us = int64(rows[INGESTED_AT].cast(pa.int64()))
        found: np.ndarray = (at_us >= (self.after_ms + 1) * 1_000) & (at_us <= self.through_ms * 1_000 + 999)
        return found

    def _own_rows(self, rows: pa.Table) -> np.ndarray:
        mine, said = self._within(rows), rows[COMMIT_ROWS]
        if said.null_count < len(said):
            mine = mine & ~pc.starts_with(said, PREFIX).fill_null(False).to_numpy()
        return mine


def alike(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, in order; tables of few rows that follow one another with the same columns are one."""
    few: list[pa.Table] = []
    for table in tables:
        rows = table.num_rows + sum(each.num_rows for each in few)
        if few and (rows > ROWS_OF_ONE_THREAD_MAX or not table.schema.equals(few[0].schema)):
            yield pa.concat_tables(few)
            few = []
        few.append(table)
    if few:
        yield pa.concat_tables(few)


def may_decide(bounds: GroupBounds, group: int) -> bool:
    """Whether a group of rows of a log may have ticks or control rows, and not records alone."""
    kinds = bounds.of(group, KIND)
    return kinds is None or kinds[0] < DEAD_LETTER or kinds[1] > RECORD


def _empty(columns: Mapping[str, Origin]) -> pa.Table:
    return pa.schema([(name, origin.type) for name, origin in columns.items()]).empty_table()


def column_of(rows: pa.Table, origin: Origin) -> pa.ChunkedArray:
    """One column; null where a file was written before the log had it."""
    name, *within = origin.path
    nothing = pa.chunked_array([pa.nulls(rows.num_rows, origin.type)])
    if name not in rows.column_names:
        return nothing
    column = rows[name]
    for field in within:
        place = column.type.get_field_index(field)
        if place < 0:
            return nothing
        column = column.flatten()[place]
    return column if column.type == origin.type else column.cast(origin.type)
