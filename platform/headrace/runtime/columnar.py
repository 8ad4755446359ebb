"""Fold increments by Arrow where a node, its lake and the increment's size allow it (see `headrace.operators.columnar`)."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import structlog
from pyarrow import feather
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.operators.columnar import HeldFiles, NotCertainError, TableFiles
from headrace.operators.progress import Progress
from headrace.spark import files, workers
from headrace.spark.actions import NewFile
from headrace.spark.frames import bytes_read
from headrace.spark.part_file import Encoding, PartFile, leaves
from headrace.spark.tables import is_mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.operators.columnar import Columnar, ColumnarFold
    from headrace.operators.operator import Operator, Schemas
    from headrace.spark.newest import Followed

    Earlier = Callable[[Sequence[tuple[int, int]]], Mapping[str, DataFrame]]

logger = structlog.get_logger(__name__)
# Of Parquet, of the log and of the state: two million narrow records, a GiB in a Python worker. More is Spark's.
ONE_TASK_BYTES = 32 << 20
# Of the parts of a relation, of which only keys are read but where they match: some millions of rows.
PARTS_BYTES = 4 * ONE_TASK_BYTES
REPORT = "report STRING"
DIFFERENT = {"__timestamp", "__event_ms", "__stream_ms", "__offset"}
# Rows go to Python in batches. To end one by its bytes Spark counts these after each row, as much work as all else that it
# does here; a few hundred rows are not many bytes, and cost no more each than thousands.
ARROW = {
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}


@dataclass(frozen=True)
class FoldedFiles:
    """What an increment leads to, in files that no commit names yet."""

    results: Sequence[NewFile]
    state: Sequence[NewFile]
    progress: Progress


@dataclass(frozen=True)
class Target:
    """A table to which a task adds a file."""

    folder: str
    schema: pa.Schema

    def write(self, tables: Sequence[pa.Table], **same: pa.Scalar) -> dict[str, Any] | None:
        """Write rows to a file of their own; what `NewFile` says of it, None if there are no rows.

        In: tables  with any of the table's columns; others are passed over
            same    values of columns that are the same in all rows
        """
        file = PartFile(Path(self.folder), self.schema, self._encoding)
        try:
            for rows in tables:
                if rows.num_rows:
                    columns = dict(zip(rows.column_names, rows.columns, strict=True))
                    columns |= {name: pa.repeat(value, rows.num_rows) for name, value in same.items()}
                    there = (field for field in self.schema if field.name in columns)
                    columns = {field.name: columns[field.name].cast(field.type) for field in there}
                    file.write(columns, rows.num_rows)
                    file.bound_numbers(columns)
        except BaseException:
            file.remove()
            raise
        return file.close()

    @property
    def _encoding(self) -> Encoding:
        different = (path for path in leaves(self.schema) if path.rpartition(".")[2] in DIFFERENT)
        return Encoding(different=frozenset(different))


class Work(ABC):
    """What a task is told."""

    rows: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """For `mapInArrow`: rows in, one report out (JSON)."""
        workers.settle()
        try:
            came = pa.Table.from_batches(batches, self.rows).combine_chunks()
            # Made anew any column may have nulls; tables that differ in that alone do not go together.
            report = self.report(pa.table(dict(zip(came.column_names, came.columns, strict=True))))
        except NotCertainError as uncertain:
            report = {"uncertain": str(uncertain)}
        except (pa.ArrowException, ArithmeticError, ValueError, LookupError, OSError) as error:
            # Of this nobody thought; but no record stops a stream.
            report = {"uncertain": f"{type(error).__name__}: {error}", "unexpected": True}
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})

    @abstractmethod
    def report(self, rows: pa.Table) -> dict[str, Any]:
        """What was written for these rows."""


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
            path = Path(self.results.folder) / f"pending-{uuid4()}.arrow"
            feather.write_feather(found.pending.results, str(path), compression="uncompressed")
            pending = {"path": str(path), "stretches": found.pending.stretches}
        return {
            "state": self.state.write(found.state, __batch=pa.scalar(found.progress.batch, pa.int32())),
            "results": None if found.results is None else self.results.write([found.results]),
            "pending": pending,
            "progress": found.progress.to_json(),
        }


@dataclass(frozen=True)
class Completion(Work):
    """Completes what is pending."""

    rows: pa.Schema
    fold: ColumnarFold
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
        state: Followed,
        parts: Mapping[str, Followed],
    ) -> None:
        """In: results  the path of the node's table."""
        self._operator, self._state, self._parts = operator, state, parts
        self._columnar: Columnar | None = None
        self._rows: pa.Schema | None = None
        if not all(path.startswith("file:") for path in (results, state.path)) or any(
            is_mapped(schema) for schema in (schemas.results, schemas.state)
        ):
            return
        self._columnar = operator.columnar(schemas)
        self._targets = _target(results, schemas.results), _target(state.path, schemas.state)
        self._schemas = {part: _arrow_schema(schema) for part, schema in schemas.parts.items()}
        for name, value in ARROW.items():
            spark.conf.set(name, value)

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
        work = partial(
            Increment, fold=fold, upto_ms=upto_ms, held=held, progress=progress,
            results=to_results, state=to_state,
        )  # fmt: skip
        report = self._run(logs, work)
        if report is None:
            return None
        made = {"results": [report["results"]], "state": [report["state"]]}
        if report["pending"] is not None:
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
            name: TableFiles(_folder(part.path), self._schemas[name], part.files(), PARTS_BYTES)
            for name, part in self._parts.items()
        }
        return HeldFiles(
            TableFiles(state.folder, state.schema, self._state.files(), ONE_TASK_BYTES), parts, folded
        )

    def _complete(
        self, fold: ColumnarFold, pending: Mapping[str, Any], earlier: Earlier
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
                    (Path(target.folder) / file["path"]).unlink()

    def _run(self, logs: Mapping[str, DataFrame], work: Callable[..., Work]) -> dict[str, Any] | None:
        """What the one task reports; None: it is Spark's turn."""
        if sum(map(bytes_read, logs.values())) > ONE_TASK_BYTES:
            return None
        assert self._columnar is not None
        rows = self._columnar.rows(logs)
        if self._rows is None:
            self._rows = _arrow_schema(rows.schema)
        reports = rows.coalesce(1).mapInArrow(work(self._rows), REPORT).collect()
        report: dict[str, Any] = json.loads(reports[0]["report"]) if reports else {"uncertain": "no rows"}
        if "uncertain" not in report:
            return report
        self._leave_to_spark(report)
        return None

    def _leave_to_spark(self, report: Mapping[str, Any]) -> None:
        """This increment; what nobody thought of may come again, so then all of them."""
        node, reason = self._operator.node.name, report["uncertain"]
        if report.get("unexpected"):
            self._columnar = None
            logger.warning("node left to Spark until it is opened again", node=node, reason=reason)
        else:
            logger.debug("increment left to Spark", node=node, reason=reason)


def _target(path: str, schema: StructType) -> Target:
    return Target(_folder(path), _arrow_schema(schema))


def _folder(path: str) -> str:
    return str(files.local_path(path))


def _arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timestamp_utc=True)
