"""What a fold by Arrow gets, and what it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.operators.progress import Tally
from headrace.operators.rows import KEPT
from headrace.spark.one_task import NotCertainError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from headrace.lake import DataFile
    from headrace.operators.progress import Progress

REPORT = "__report"  # a column that is null in all rows but one, which holds what a task reports
# Of Parquet, of one file; of all of them a worker remembers no more than one task may read.
REMEMBERED_BYTES = 128 << 10


@dataclass(frozen=True)
class TableFiles:
    """A table by its files.

    folder  of the table, on a disk that every task sees
    schema  of the table
    most    bytes of files that one task reads
    """

    folder: str
    schema: pa.Schema
    files: Mapping[str, DataFile]
    most: int

    def within(
        self, column: str, first: int, last: int, columns: Sequence[str], *, part: str | None = None
    ) -> pa.Table:
        """The rows where a column is from `first` through `last`; with `part` those of this `__part` alone.

        Files and groups of rows that have none by their statistics are not read.

        Raises: NotCertainError when that is too much for one task
        """
        files = {name: f for name, f in self.files.items() if f.may_have(column, first, last)}
        if sum(file.size for file in files.values()) > self.most:
            raise NotCertainError("more of the state than one task takes")
        names = [*dict.fromkeys((*columns, column, *(["__part"] if part else [])))]
        wanted = self._of(names)
        tables = [wanted.empty_table()]
        for name, file in files.items():
            read = _remembered if file.size <= REMEMBERED_BYTES else _read
            tables.append(read(Path(self.folder) / name, tuple(names), part).cast(wanted))
        rows = pa.concat_tables(tables)
        kept = pc.and_(pc.greater_equal(rows[column], first), pc.less_equal(rows[column], last))
        if part is not None:
            kept = pc.and_(kept, pc.equal(rows["__part"], part))
        return rows.filter(kept).select(columns)

    def matching(self, by: Sequence[str], wanted: Sequence[pa.Array]) -> pa.Table:
        """At least the rows whose columns `by` have values that are wanted together; of the others only these are read."""
        tables = [self._of(self.schema.names).empty_table()]
        for name in self.files:
            file = pq.ParquetFile(Path(self.folder) / name)
            for group in range(file.num_row_groups):
                # Files that delta-rs merged hold views of texts, for which Arrow lacks kernels.
                found = file.read_row_group(group, columns=[*by]).select(by).cast(self._of(by))
                one_by_one = (pc.is_in(found[n], w) for n, w in zip(by, wanted, strict=True))
                mask = reduce(pc.and_, one_by_one)
                if pc.any(mask).as_py():
                    rows = file.read_row_group(group, columns=self.schema.names)
                    tables.append(rows.select(self.schema.names).cast(self.schema).filter(mask))
        return pa.concat_tables(tables)

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(file.size for file in self.files.values())

    def _of(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in columns])


def _read(path: Path, columns: tuple[str, ...], part: str | None) -> pa.Table:
    """Columns of a file; with `part` of those groups of rows that may have some of it."""
    file = pq.ParquetFile(path)
    groups = [group for group in range(file.num_row_groups) if part is None or _may_be(file, group, part)]
    return file.read_row_groups(groups, columns=[*columns]).select(columns)


# What small micro-batches changed a join reads in each one until it is folded, and a file never changes.
_remembered = lru_cache(maxsize=256)(_read)


def _may_be(file: pq.ParquetFile, group: int, part: str) -> bool:
    place = file.schema_arrow.names.index("__part")  # no column with fields stands before it
    known = file.metadata.row_group(group).column(place).statistics
    return known is None or not known.has_min_max or known.min <= part <= known.max


@dataclass(frozen=True)
class HeldFiles:
    """What a node's tables hold before an increment, by their files.

    parts   of a relation (see `Operator.parts`)
    folded  through this micro-batch the changes in the state are in the parts, too
    """

    state: TableFiles
    parts: Mapping[str, TableFiles]
    folded: int


@dataclass(frozen=True)
class Pending:
    """Results for which rows of the log that were folded before have to be read again.

    stretches  of commit time, in ms, in which these lie, both ends included
    """

    results: pa.Table
    stretches: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Found:
    """What an increment leads to (see `Folded`): columns of the tables by name, `__batch` excepted.

    results  None: there are none
    state    one behind the other; of columns that are not there the values are null
    pending  those that are not complete; None: all are
    for_sql  rows of which Spark computes more before they are state (see `Sql`); None: none are
    """

    results: pa.Table | None
    state: Sequence[pa.Table]
    progress: Progress
    pending: Pending | None = None
    for_sql: pa.Table | None = None


class ColumnarFold(ABC):
    """How one node's increments are folded by Arrow. It goes to the task, so it holds nothing of Spark."""

    @abstractmethod
    def fold(self, rows: pa.Table, upto_ms: Mapping[str, int], held: HeldFiles, progress: Progress) -> Found:
        """Fold an increment; in the task.

        In:     rows  those that `decide` gives, with the columns that came with this fold
        Raises: NotCertainError when Spark has to
        """


class CompletedFold(ColumnarFold):
    """One that may leave results pending."""

    @abstractmethod
    def complete(self, rows: pa.Table, pending: pa.Table) -> pa.Table:
        """The results that were pending, once the rows of the log that they asked for are there; in a task.

        In: rows  as those of an increment
        """


class ComputedFold(ColumnarFold):
    """One in whose midst Spark may compute something (see `Sql`)."""

    @abstractmethod
    def computed(self, rows: pa.Table, held: HeldFiles) -> Sequence[pa.Table]:
        """The state that rows are, once Spark has computed what `for_sql` left to it; in the same task."""


@dataclass(frozen=True)
class Sql:
    """What Spark computes in the midst of a fold.

    columns  of `Found.for_sql`
    compute  gives, of rows with these and `REPORT` (null), the columns that `computed` takes, and `REPORT`
    """

    columns: T.StructType
    compute: Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Columnar:
    """How Arrow folds the increments of a node.

    rows  gives, of rows of the logs, what `fold` takes: decided by Spark, and only the columns that are needed
    sql   None: nothing is left to Spark
    """

    fold: ColumnarFold
    rows: Callable[[Mapping[str, DataFrame]], DataFrame]
    sql: Sql | None = None


def tallied(rows: pa.Table, topics: Sequence[str]) -> list[Tally]:
    """The fates of an increment (see `operators.operator.tallies`).

    In: rows    with `__partition`, `__stream_ms`, `__fate` (null where a row is kept); with `__source` if there are several
        topics  of the node, as `__source` counts them
    """
    source = ["__source"] if len(topics) > 1 else []
    counted = rows.group_by([*source, "__partition", "__fate"], use_threads=False)
    found = counted.aggregate([([], "count_all"), ("__stream_ms", "max")]).to_pylist()
    return [
        Tally(
            topics[row.get("__source", 0)],
            row["__partition"],
            row["__fate"] or KEPT,
            row["count_all"],
            row["__stream_ms_max"],
        )
        for row in found
    ]
