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

from headrace.description import Transform
from headrace.operators.columnar import HeldFiles, NotCertainError
from headrace.operators.progress import Progress
from headrace.spark import files
from headrace.spark.actions import NewFile
from headrace.spark.frames import Selection, bytes_read
from headrace.spark.part_file import Encoding, PartFile
from headrace.spark.tables import is_mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.operators.columnar import ColumnarFold
    from headrace.operators.operator import Operator, Schemas
    from headrace.spark.newest import Followed

    Earlier = Callable[[Sequence[tuple[int, int]]], Mapping[str, DataFrame]]

logger = structlog.get_logger(__name__)
# Of Parquet, of the log and of the state: two million narrow records, a GiB in a Python worker. More is Spark's.
ONE_TASK_BYTES = 32 << 20
REPORT = "report STRING"
ENCODING = Encoding(different=frozenset({"__timestamp", "__event_ms", "__stream_ms"}))
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

    def write(self, rows: pa.Table, more: Mapping[str, pa.Array]) -> dict[str, Any] | None:
        """Write rows to a file of their own; what `NewFile` says of it, None if there are no rows."""
        if not rows.num_rows:
            return None
        columns = {name: rows[name] for name in rows.column_names} | dict(more)
        file = PartFile(Path(self.folder), self.schema, ENCODING)
        columns = {field.name: columns[field.name].cast(field.type) for field in self.schema}
        try:
            file.write(columns, rows.num_rows)
            file.bound_numbers(columns)
        except BaseException:
            file.remove()
            raise
        return file.close()


class Work(ABC):
    """What a task is told."""

    rows: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """For `mapInArrow`: rows in, one report out (JSON)."""
        try:
            report = self.report(pa.Table.from_batches(batches, self.rows))
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
        batch = pa.repeat(pa.scalar(found.progress.batch, pa.int32()), found.state.num_rows)
        pending = None
        if found.pending is not None:
            path = Path(self.results.folder) / f"pending-{uuid4()}.arrow"
            feather.write_feather(found.pending.results, str(path), compression="uncompressed")
            pending = {"path": str(path), "stretches": found.pending.stretches}
        return {
            "state": self.state.write(found.state, {"__batch": batch}),
            "results": None if found.results is None else self.results.write(found.results, {}),
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
        return {"results": self.results.write(found, {})}


class ColumnarRunner:
    """Folds one node's increments by Arrow."""

    def __init__(
        self,
        spark: SparkSession,
        operator: Operator[Any],
        schemas: Schemas,
        results: str,
        state: str,
        followed: Followed,
    ) -> None:
        """In: results, state  paths of the node's tables; followed: the state."""
        self._operator, self._followed = operator, followed
        self._fold: ColumnarFold | None = None
        steps = [step for topic in _branches(operator) for step in topic.steps]
        if (
            not all(path.startswith("file:") for path in (results, state))
            or any(is_mapped(schema) for schema in (schemas.results, schemas.state))
            or any(isinstance(step, Transform) for step in steps)
        ):
            return
        found = operator.columnar(schemas.inputs)
        if found is None:
            return
        self._fold, columns = found
        self._columns = Selection(*columns)
        self._targets = _target(results, schemas.results), _target(state, schemas.state)
        for name, value in ARROW.items():
            spark.conf.set(name, value)

    def fold(
        self,
        logs: Mapping[str, DataFrame],
        upto_ms: Mapping[str, int],
        progress: Progress,
        earlier: Earlier,
    ) -> FoldedFiles | None:
        """Fold an increment (see `Operator.fold`, and `Held` for `earlier`); None: Spark has to."""
        if self._fold is None:
            return None
        to_results, to_state = self._targets
        known, column = self._followed.files(), self._fold.by_column
        held = HeldFiles(to_state.folder, to_state.schema, column, known, ONE_TASK_BYTES)
        work = partial(
            Increment, fold=self._fold, upto_ms=upto_ms, held=held, progress=progress,
            results=to_results, state=to_state,
        )  # fmt: skip
        report = self._run(logs, work)
        if report is None:
            return None
        made = {"results": [report["results"]], "state": [report["state"]]}
        if report["pending"] is not None:
            complete = self._complete(self._fold, report["pending"], earlier)
            if complete is None:
                self._discard(made)
                return None
            made["results"].append(complete)
        results, state = (
            [NewFile(**file) for file in made[name] if file is not None] for name in ("results", "state")
        )
        return FoldedFiles(results, state, Progress.from_json(report["progress"]))

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
        rows = self._columns.of(self._operator.decide(logs))
        schema = to_arrow_schema(rows.schema, timestamp_utc=True)
        reports = rows.coalesce(1).mapInArrow(work(schema), REPORT).collect()
        report: dict[str, Any] = json.loads(reports[0]["report"]) if reports else {"uncertain": "no rows"}
        if "uncertain" not in report:
            return report
        self._leave_to_spark(report)
        return None

    def _leave_to_spark(self, report: Mapping[str, Any]) -> None:
        """This increment; what nobody thought of may come again, so then all of them."""
        node, reason = self._operator.node.name, report["uncertain"]
        if report.get("unexpected"):
            self._fold = None
            logger.warning("node left to Spark until it is opened again", node=node, reason=reason)
        else:
            logger.debug("increment left to Spark", node=node, reason=reason)


def _branches(operator: Operator[Any]) -> Sequence[Any]:
    stream = getattr(operator.node, "stream", None)
    return () if stream is None else stream.branches


def _target(path: str, schema: StructType) -> Target:
    return Target(str(files.local_path(path)), to_arrow_schema(schema, timestamp_utc=True))
