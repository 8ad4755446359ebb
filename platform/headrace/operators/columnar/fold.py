"""What a fold by Arrow gets, and what it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.operators.progress import Tally
from headrace.operators.rows import KEPT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.operators.progress import Progress
    from headrace.spark.newest import File


class NotCertainError(Exception):
    """Arrow may get something else than Spark would: Spark has to fold this increment."""


@dataclass(frozen=True)
class HeldFiles:
    """The state before an increment, by its files.

    folder  of the table, on a disk that every task sees
    schema  of the table
    column  by which files are chosen, as their statistics say
    most    bytes of files that one task reads
    """

    folder: str
    schema: pa.Schema
    column: str
    files: Mapping[str, File]
    most: int

    def within(self, first: int, last: int, columns: Sequence[str]) -> pa.Table:
        """The rows where the column is from `first` through `last`.

        Raises: NotCertainError when that is too much for one task
        """
        files = {name: f for name, f in self.files.items() if f.may_have(self.column, first, last)}
        if sum(file.size for file in files.values()) > self.most:
            raise NotCertainError("more of the state than one task takes")
        wanted = pa.schema([self.schema.field(name) for name in columns])
        tables = [
            pq.ParquetFile(Path(self.folder) / name).read(columns=[*columns]).select(columns).cast(wanted)
            for name in files
        ]
        rows = pa.concat_tables(tables) if tables else wanted.empty_table()
        at = rows[self.column]
        return rows.filter(pc.and_(pc.greater_equal(at, first), pc.less_equal(at, last)))


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
    pending  those that are not complete; None: all are
    """

    results: pa.Table | None
    state: pa.Table
    progress: Progress
    pending: Pending | None = None


class ColumnarFold(ABC):
    """How one node's increments are folded by Arrow. It goes to the task, so it holds nothing of Spark."""

    by_column: str  # of the state: what `HeldFiles` is chosen by

    @abstractmethod
    def fold(self, rows: pa.Table, upto_ms: Mapping[str, int], held: HeldFiles, progress: Progress) -> Found:
        """Fold an increment; in the task.

        In:     rows  those that `decide` gives, with the columns that came with this fold
        Raises: NotCertainError when Spark has to
        """

    def complete(self, rows: pa.Table, pending: pa.Table) -> pa.Table:
        """The results that were pending, once the rows of the log that they asked for are there; in a task.

        In: rows  as those of an increment
        """
        raise NotImplementedError


def tallied(rows: pa.Table, topics: Sequence[str]) -> list[Tally]:
    """The fates of an increment (see `operators.operator.tallies`).

    In: rows    with `__partition`, `__stream_ms`, `__fate` (null where a row is kept); with `__topic` if there are several
        topics  of the node
    """
    topic = ["__topic"] if len(topics) > 1 else []
    counted = rows.group_by([*topic, "__partition", "__fate"], use_threads=False)
    found = counted.aggregate([([], "count_all"), ("__stream_ms", "max")]).to_pylist()
    return [
        Tally(
            row.get("__topic", topics[0]),
            row["__partition"],
            row["__fate"] or KEPT,
            row["count_all"],
            row["__stream_ms_max"],
        )
        for row in found
    ]
