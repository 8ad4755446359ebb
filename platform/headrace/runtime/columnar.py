"""Fold increments by Arrow where a node, its lake and the increment's size allow it (see `headrace.operators.columnar`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import structlog
from pyarrow import feather

from headrace.lake import NewFile, small_files
from headrace.lake.storage import local_path
from headrace.operators.columnar import CompletedFold, ComputedFold, HeldFiles, TableFiles
from headrace.operators.columnar.fold import REPORT
from headrace.operators.progress import Progress
from headrace.spark import one_task, workers
from headrace.spark.frames import bytes_read
from headrace.spark.one_task import Target, Work, arrow_schema, table_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.lake import LakeTable
    from headrace.operators.columnar import Columnar, ColumnarFold
    from headrace.operators.operator import Operator, Schemas

    Earlier = Callable[[Sequence[tuple[int, int]]], Mapping[str, DataFrame]]

logger = structlog.get_logger(__name__)
SQL_ROWS = 10_000  # that Spark takes at once, to compute something
# Of the parts of a relation, of which only keys are read but where they match: some millions of rows.
PARTS_BYTES = 4 * one_task.ONE_TASK_BYTES


@dataclass(frozen=True)
class FoldedFiles:
    """What an increment leads to, in files that no commit names yet."""

    results: Sequence[NewFile]
    state: Sequence[NewFile]
    progress: Progress


@dataclass(frozen=True)
class Increment(Work):
    """Folds an increment."""

    rows: pa.Schema
    fold: ColumnarFold
    upto_ms: Mapping[str, int]
    held: HeldFiles
    progress: Progress
    results: Target
    state: Target

    def report(self, rows: pa.Table) -> dict[str, Any]:
        """The files of both tables, the progress, and what is pending: a file of it, and the stretches."""
        found = self.fold.fold(rows, self.upto_ms, self.held, self.progress)
        pending = None
        if found.pending is not None:
            path = local_path(self.results.folder) / f"pending-{uuid4()}.arrow"
            feather.write_feather(found.pending.results, str(path), compression="uncompressed")
            pending = {"path": str(path), "stretches": found.pending.stretches}
        return {
            "state": self._state_files(found.state, found.progress.batch),
            "for_sql": found.for_sql,
            "results": None if found.results is None else self.results.write([found.results]),
            "pending": pending,
            "progress": found.progress.to_json(),
        }

    def _state_files(self, rows: Sequence[pa.Table], batch: int) -> list[dict[str, Any]]:
        file = self.state.write(rows, __batch=pa.scalar(batch, pa.int32()))
        return [] if file is None else [file]


@dataclass(frozen=True)
class Half(Increment):
    """Folds an increment until Spark has to compute something; gives the rows for that, and a row with the report.

    gives  the schema of both
    """

    gives: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """For `mapInArrow`."""
        workers.settle()
        report = self.attempt(batches)
        rows = report.pop("for_sql", None)
        yield pa.RecordBatch.from_pylist([{REPORT: json.dumps(report)}], self.gives)
        if rows is not None:
            rows = rows.append_column(REPORT, pa.nulls(rows.num_rows, pa.string()))
            yield from rows.select(self.gives.names).cast(self.gives).to_batches(max_chunksize=SQL_ROWS)


@dataclass(frozen=True)
class OtherHalf(Work):
    """Writes what Spark has computed."""

    rows: pa.Schema
    fold: ComputedFold
    held: HeldFiles
    state: Target

    def report(self, rows: pa.Table) -> dict[str, Any]:
        """That of the first half, with one file more."""
        said = rows[REPORT].drop_null()
        report: dict[str, Any] = json.loads(said[0].as_py()) if len(said) else {"uncertain": "no rows"}
        if "uncertain" in report:
            return report
        try:
            mine = rows.filter(rows[REPORT].is_null()).drop_columns([REPORT])
            batch = pa.scalar(report["progress"]["batch"], pa.int32())
            file = self.state.write(self.fold.computed(mine, self.held), __batch=batch)
        except BaseException:
            for written in report["state"]:
                small_files.delete(f"{self.state.folder}/{written['path']}")
            raise
        return report | {"state": [*report["state"], *([] if file is None else [file])]}


@dataclass(frozen=True)
class Completion(Work):
    """Completes what is pending."""

    rows: pa.Schema
    fold: CompletedFold
    pending: str
    results: Target

    def report(self, rows: pa.Table) -> dict[str, Any]:
        """The file of the results."""
        found = self.fold.complete(rows, feather.read_table(self.pending, memory_map=False))
        return {"results": self.results.write([found])}


class ColumnarRunner:
    """Folds one node's increments by Arrow."""

    def __init__(
        self,
        spark: SparkSession,
        operator: Operator[Any],
        schemas: Schemas,
        results: str,
        state: LakeTable,
        parts: Mapping[str, LakeTable],
    ) -> None:
        """In: results  the path of the node's table."""
        self._operator, self._state, self._parts = operator, state, parts
        self._columnar: Columnar | None = None
        self._rows: pa.Schema | None = None  # of those that come to the task,
        self._computed: pa.Schema | None = None  # and of those that Spark computes in its midst
        if not all(path.startswith("file:") for path in (results, state.uri)):
            return
        self._columnar = operator.columnar(schemas)
        self._targets = _target(results, schemas.results), _target(state.uri, schemas.state)
        self._schemas = {part: arrow_schema(schema) for part, schema in schemas.parts.items()}
        one_task.settings(spark)

    def fold(
        self,
        logs: Mapping[str, DataFrame],
        upto_ms: Mapping[str, int],
        progress: Progress,
        folded: int,
        earlier: Earlier,
    ) -> FoldedFiles | None:
        """Fold an increment (see `Operator.fold`, and `Held` for `earlier`); None: Spark has to.

        In: folded  the micro-batch through which changes are in the parts at least
        """
        if self._columnar is None:
            return None
        fold, (to_results, to_state) = self._columnar.fold, self._targets
        held = self._held(folded)
        if sum(part.bytes for part in held.parts.values()) > PARTS_BYTES:
            return None
        increment: Callable[..., Work] = Increment
        then: Callable[..., Work] | None = None
        if self._columnar.sql is not None:
            assert isinstance(fold, ComputedFold)
            increment = partial(Half, gives=arrow_schema(self._columnar.sql.columns))
            then = partial(OtherHalf, fold=fold, held=held, state=to_state)
        work = partial(
            increment, fold=fold, upto_ms=upto_ms, held=held, progress=progress,
            results=to_results, state=to_state,
        )  # fmt: skip
        report = self._run(logs, work, then)
        if report is None:
            return None
        made = {"results": [report["results"]], "state": report["state"]}
        if report["pending"] is not None:
            assert isinstance(fold, CompletedFold)
            complete = self._complete(fold, report["pending"], earlier)
            if complete is None:
                self._discard(made)
                return None
            made["results"].append(complete)
        results, state = (
            [NewFile(**file) for file in made[name] if file is not None] for name in ("results", "state")
        )
        return FoldedFiles(results, state, Progress.from_json(report["progress"]))

    def _held(self, folded: int) -> HeldFiles:
        state = self._targets[1]
        parts = {
            name: TableFiles(_folder(part.uri), self._schemas[name], part.snapshot().files, PARTS_BYTES)
            for name, part in self._parts.items()
        }
        return HeldFiles(
            TableFiles(
                _folder(state.folder), state.schema, self._state.snapshot().files, one_task.ONE_TASK_BYTES
            ),
            parts,
            folded,
        )

    def _complete(
        self, fold: CompletedFold, pending: Mapping[str, Any], earlier: Earlier
    ) -> Mapping[str, Any] | None:
        """The file of the results that ask for rows that were folded before; None: Spark has to make them."""
        stretches = [(first, last) for first, last in pending["stretches"]]
        work = partial(Completion, fold=fold, pending=pending["path"], results=self._targets[0])
        report = self._run(earlier(stretches), work)
        Path(pending["path"]).unlink()
        return None if report is None else report["results"]

    def _discard(self, made: Mapping[str, Sequence[Mapping[str, Any] | None]]) -> None:
        for target, name in zip(self._targets, ("results", "state"), strict=True):
            for file in made[name]:
                if file is not None:
                    small_files.delete(f"{target.folder}/{file['path']}")

    def _run(
        self,
        logs: Mapping[str, DataFrame],
        work: Callable[..., Work],
        then: Callable[..., Work] | None = None,
    ) -> dict[str, Any] | None:
        """What the one task reports; None: it is Spark's turn.

        In: then  what it does with the rows that Spark has computed in its midst
        """
        if sum(map(bytes_read, logs.values())) > one_task.ONE_TASK_BYTES:
            return None
        assert self._columnar is not None
        rows = self._columnar.rows(logs)
        if self._rows is None:
            self._rows = arrow_schema(rows.schema)
        told = work(self._rows)
        if then is not None:
            rows, told = self._through_sql(rows, told, then)
        report = one_task.report_of(rows, told)
        if "uncertain" not in report:
            return report
        self._leave_to_spark(report)
        return None

    def _through_sql(self, rows: DataFrame, first: Work, then: Callable[..., Work]) -> tuple[DataFrame, Work]:
        """The rows that Spark has computed of those of the first half, and what is then to be done."""
        assert self._columnar is not None
        assert self._columnar.sql is not None
        sql = self._columnar.sql
        computed = sql.compute(one_task.mapped(rows.coalesce(1), first, first.rows.names, sql.columns))
        if self._computed is None:
            self._computed = arrow_schema(computed.schema)
        return computed, then(self._computed)

    def _leave_to_spark(self, report: Mapping[str, Any]) -> None:
        """This increment; what nobody thought of may come again, so then all of them."""
        node, reason = self._operator.node.name, report["uncertain"]
        if report.get("unexpected"):
            self._columnar = None
            logger.warning("node left to Spark until it is opened again", node=node, reason=reason)
        else:
            logger.debug("increment left to Spark", node=node, reason=reason)


def _target(path: str, schema: StructType) -> Target:
    return Target(path, table_schema(schema))


def _folder(path: str) -> str:
    return str(local_path(path))
