"""Fold increments by Arrow where a node, its lake and the increment's size allow it (see `headrace.operators.columnar`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import structlog
from pyarrow import feather

from headrace.operators.columnar import HeldFiles, TableFiles
from headrace.operators.progress import Progress
from headrace.spark import files, one_task
from headrace.spark.actions import NewFile
from headrace.spark.frames import bytes_read
from headrace.spark.one_task import Target, Work, arrow_schema
from headrace.spark.tables import is_mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.operators.columnar import Columnar, ColumnarFold
    from headrace.operators.operator import Operator, Schemas
    from headrace.spark.newest import Followed

    Earlier = Callable[[Sequence[tuple[int, int]]], Mapping[str, DataFrame]]

logger = structlog.get_logger(__name__)
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
            TableFiles(state.folder, state.schema, self._state.files(), one_task.ONE_TASK_BYTES),
            parts,
            folded,
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
        if sum(map(bytes_read, logs.values())) > one_task.ONE_TASK_BYTES:
            return None
        assert self._columnar is not None
        rows = self._columnar.rows(logs)
        if self._rows is None:
            self._rows = arrow_schema(rows.schema)
        report = one_task.report_of(rows, work(self._rows))
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
    return Target(_folder(path), arrow_schema(schema))


def _folder(path: str) -> str:
    return str(files.local_path(path))
