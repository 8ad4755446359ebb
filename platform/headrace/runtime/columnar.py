"""Fold increments by Arrow where a node, its lake and the increment's size allow it (see `headrace.operators.columnar`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import structlog
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.description import Transform
from headrace.operators.columnar import HeldFile, HeldFiles, NotCertainError
from headrace.operators.progress import Progress
from headrace.spark import files
from headrace.spark.actions import NewFile
from headrace.spark.frames import Selection, bytes_read
from headrace.spark.part_file import Encoding, PartFile
from headrace.spark.tables import is_mapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.operators.columnar import ColumnarFold
    from headrace.operators.operator import Operator, Schemas
    from headrace.spark.newest import Followed

logger = structlog.get_logger(__name__)
# Of Parquet, three million narrow records of a log: some hundred MiB in a Python worker. More is Spark's.
ONE_TASK_BYTES = 64 << 20
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


@dataclass(frozen=True)
class Work:
    """What the task is told.

    rows  their schema
    """

    fold: ColumnarFold
    rows: pa.Schema
    upto_ms: Mapping[str, int]
    held: HeldFiles
    progress: Progress
    results: Target
    state: Target

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """For `mapInArrow`: an increment in, one report out (JSON)."""
        try:
            report = self._report(pa.Table.from_batches(batches, self.rows))
        except NotCertainError as uncertain:
            report = {"uncertain": str(uncertain)}
        except (pa.ArrowException, ArithmeticError, ValueError, LookupError, OSError) as error:
            # Of this nobody thought; but no record stops a stream.
            report = {"uncertain": f"{type(error).__name__}: {error}", "unexpected": True}
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})

    def _report(self, rows: pa.Table) -> dict[str, Any]:
        found = self.fold.fold(rows, self.upto_ms, self.held, self.progress)
        batch = pa.repeat(pa.scalar(found.progress.batch, pa.int32()), found.state.num_rows)
        return {
            "state": self.state.write(found.state, {"__batch": batch}),
            "results": None if found.results is None else self.results.write(found.results, {}),
            "progress": found.progress.to_json(),
        }


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
        self._operator, self._followed, self._state = operator, followed, state
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
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], progress: Progress
    ) -> FoldedFiles | None:
        """Fold an increment (see `Operator.fold`); None: Spark has to, and nothing was written."""
        if self._fold is None or sum(map(bytes_read, logs.values())) > ONE_TASK_BYTES:
            return None
        rows = self._columns.of(self._operator.decide(logs))
        to_results, to_state = self._targets
        schema = to_arrow_schema(rows.schema, timestamp_utc=True)
        column = self._fold.by_column
        held = HeldFiles(to_state.folder, to_state.schema, column, self._held(column))
        work = Work(self._fold, schema, upto_ms, held, progress, to_results, to_state)
        reports = rows.coalesce(1).mapInArrow(work, REPORT).collect()
        if not reports:
            return None
        report = json.loads(reports[0]["report"])
        if "uncertain" in report:
            self._leave_to_spark(report)
            return None
        results, state = (
            [] if report[name] is None else [NewFile(**report[name])] for name in ("results", "state")
        )
        return FoldedFiles(results, state, Progress.from_json(report["progress"]))

    def _leave_to_spark(self, report: Mapping[str, Any]) -> None:
        """This increment; what nobody thought of may come again, so then all of them."""
        node, reason = self._operator.node.name, report["uncertain"]
        if report.get("unexpected"):
            self._fold = None
            logger.warning("node left to Spark until it is opened again", node=node, reason=reason)
        else:
            logger.debug("increment left to Spark", node=node, reason=reason)

    def _held(self, column: str) -> list[HeldFile]:
        known = self._followed.files()
        return [HeldFile(name, *file.bounds(column)) for name, file in known.items()]


def _branches(operator: Operator[Any]) -> Sequence[Any]:
    stream = getattr(operator.node, "stream", None)
    return () if stream is None else stream.branches


def _target(path: str, schema: StructType) -> Target:
    return Target(str(files.local_path(path)), to_arrow_schema(schema, timestamp_utc=True))
