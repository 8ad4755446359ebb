"""Upkeep of a node's state beside its micro-batches: fewer files, and none with rows that nothing reads any more."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headrace import lake as lakes
from headrace.lake import ConflictError, as_maintainer
from headrace.lake.upkeep import not_outweighed
from headrace.spark.lake_rows import rows_of_files, write_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from headrace.lake import DataFile, LakeTable, NewFile, TableWriter
    from headrace.operators.operator import Operator, Schemas
    from headrace.operators.progress import Progress


class StateUpkeep:
    """Of one state table. It may run beside the node: the fence lets both commit."""

    def __init__(
        self, spark: SparkSession, state: LakeTable, operator: Operator[Any], schemas: Schemas, writer: str
    ) -> None:
        """In: writer  the name of the node's own commits, whose newest record every commit here repeats."""
        self._spark, self._state, self._operator, self._schemas = spark, state, operator, schemas
        self._appends_as = writer

    def pack(self, progress: Progress, *, whole: bool) -> None:
        """Put the rows of the state that are read again into fewer files, merged where they can be.

        In: whole  all of it; else files that do not outweigh the others (see `not_outweighed`)
        """
        gone = self._packable(progress.batch, whole=whole)
        if not gone:
            return
        rows = rows_of_files(self._spark, [f"{self._state.uri}/{name}" for name in gone], self._schemas.state)
        half = max(1, self._spark.sparkContext.defaultParallelism // 2)  # the other half is left to the node
        kept = self._operator.still_read(rows.coalesce(half), progress, whole=whole)
        added = write_rows(self._operator.condensed(kept, self._schemas.inputs), self._state.uri)
        self._exchange(gone, added, changes_data=False)

    def drop(self, through: int) -> None:
        """Drop the files that hold no row of a micro-batch after this one."""
        files = self._state.snapshot().files
        gone = {name: file for name, file in files.items() if _is_through(file, through)}
        if gone:
            self._exchange(gone, [], changes_data=True)

    def _packable(self, batch: int, *, whole: bool) -> dict[str, DataFile]:
        files = self._state.snapshot().files
        if whole:
            return dict(files)
        known = {name: file for name, file in files.items() if _is_through(file, batch)}
        return {
            name: known[name] for name in not_outweighed({name: f.rows or 0 for name, f in known.items()})
        }

    def _exchange(
        self, gone: Mapping[str, DataFile], added: Sequence[NewFile], *, changes_data: bool
    ) -> None:
        """Put files in the place of others, unless another maintainer has done so meanwhile."""

        def replace(writer: TableWriter) -> int:
            # Only now: what is carried has to reach to the commit before this one, and a new epoch is a commit, too.
            record = {"writer": "upkeep", **lakes.carried(self._state, [self._appends_as])}
            return writer.replace(gone, added, record, changes_data=changes_data)

        with suppress(ConflictError):
            as_maintainer(self._state, replace, carries=[self._appends_as])


def _is_through(file: DataFile, batch: int) -> bool:
    """True if a file of the state holds no row of a later micro-batch."""
    highest = file.highest.get("__batch")
    return highest is not None and int(highest) <= batch
