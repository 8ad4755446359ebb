"""How Spark folds an increment: tasks read its rows, or get them, fold, write files and report.

The driver folds a small increment by itself, and on a single machine each that has one bucket; if SQL computes its
rows, while they are few. On a single machine it folds a large increment of tables and joins, too, a bucket on each core: one
at a time, whichever node it is of. Others are folded in stages.
With one bucket a task runs all steps, except where SQL computes columns between two of them, which the driver computes by
itself if the expressions are covered. With several, a step that takes its rows from other buckets begins a stage: rows go
from the buckets of one stage to those of the next.

Law: that of `Run.increment`. Neither the number of buckets nor where tasks run shows in any table.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.description import Select, Where, WithColumn, parse_expression, quote
from headrace.engine.folding.bucket_tasks import run_in_threads
from headrace.engine.folding.exchange import exchanged, is_exchanged
from headrace.engine.folding.fold_increment import (
    Between,
    Distribution,
    FoldResult,
    Run,
    selections_of,
    together,
)
from headrace.engine.folding.fold_stages import (
    BUCKET,
    REPORT,
    REPORT_TYPE,
    Destination,
    FirstTask,
    Increment,
    Report,
    StageTask,
)
from headrace.engine.folding.operators import NodeOperator
from headrace.engine.folding.output_tables import nothing_computed
from headrace.engine.slices.feeds import NodeRows
from headrace.engine.slices.log_slices import LogSlice
from headrace.engine.state_files import StateSource
from headrace.engine.steps.arrow_selections import computed_in_arrow, is_computed_in_arrow
from headrace.engine.steps.unusable import Unusable
from headrace.fold.changes.deltas import PORT
from headrace.fold.changes.station import MADE, PASSES, Computing, Refinement, Selection
from headrace.fold.contract import Clock, Step, Times
from headrace.spark import one_task
from headrace.spark.errors.refusals import in_words, refusals_explained
from headrace.spark.on_demand import master_of
from headrace.spark.one_task import mapped
from headrace.spark.row_steps import expression_of
from headrace.spark.session import is_local

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.description.refined import RowStep

# Of Parquet: some 600,000 narrow records. Each task of a first stage reads all rows: of windows 0.65 CPU s a million, where
# folding them takes 0.74. So more buckets make an increment a little shorter, and take more CPU.
BUCKET_BYTES = 10 << 20
# Of the log's and of the state's Parquet. Spark takes a tenth of a second to start a task, which then folds for a hundredth.
HERE_BYTES, HERE_STATE_BYTES = 256 << 10, 8 << 20
# Of the log's Parquet. Below the first, some 60,000 narrow records, more files of the state cost more than threads gain. The
# second is twice what an increment of several commits has: a larger commit needs the memory of several tasks of Spark.
THREADS_BYTES, THREADS_BYTES_MAX, CORES_MAX = 1 << 20, 32 << 20, 4
SPREADING = threading.Lock()  # a second large increment meanwhile would take as much memory, and find no core
AS_ONE = Distribution()
_CARRIED, _PASSES = "__carried", "__passes"


class SparkFold:
    """Folds increments of one operator."""

    def __init__(self, operator: NodeOperator, rows: NodeRows) -> None:
        """Nothing is folded yet."""
        self.operator, self.rows = operator, rows

    def fold(
        self, spark: SparkSession, increment: Increment, unusable: Sequence[Unusable] | None = None
    ) -> tuple[FoldResult, Times]:
        """Fold an increment: what it leads to, and its clocks. In: unusable  see `NodeRows.computed_frame`."""
        buckets = buckets_for(increment.slices.values(), lambda: spark.sparkContext.defaultParallelism)
        with on_cores(increment, self.operator.steps, lambda: master_of(spark)) as how:
            if self._folds_here(increment, 1 if how.buckets > 1 else buckets, lambda: master_of(spark)):
                rows = self._computed_here(spark, increment, unusable)
                if rows is not None:
                    return self._fold_here(increment, rows, how)
        tasks = self._tasks(increment, buckets)
        one_task.settings(spark, pieces=len(tasks) > 1)
        frame = self.rows.computed_frame(spark, increment.slices, unusable)
        computed = None if frame is None else self.rows.computed
        spread = self._destination(tasks[0].steps[0], buckets) if computed and buckets > 1 else None
        work: Any = FirstTask(self.rows.packed, computed, self.operator.kernel, tasks[0], spread)
        names: Sequence[str] = ["id"] if computed is None else computed.names
        frame = spark.range(0, buckets, 1, buckets) if frame is None else frame.coalesce(1)
        for task in tasks[1:] if spread is None else tasks:
            frame = self._brought_together(
                mapped(frame, work, names, self._destination(task.steps[0], buckets).travelling), task
            )
            work, names = task, frame.columns
        reports = mapped(frame, work, names, StructType([REPORT_TYPE])).collect()
        if not reports:  # SQL had commit rows alone, and Spark makes no task of Python for no rows
            return self._fold_here(increment)
        found: list[Report] = [pickle.loads(row[REPORT]) for row in reports]
        return together([one for each in found for one in each.results], increment.batch), found[0].times

    def _brought_together(self, frame: DataFrame, task: StageTask) -> DataFrame:
        """The rows of each bucket of a stage in one task, with the columns that SQL computes."""
        if task.buckets > 1:
            frame = frame.repartitionById(task.buckets, BUCKET)
        selections = selections_of(task.steps[0])
        return computed_columns(selections, frame) if selections else frame

    def _tasks(self, increment: Increment, buckets: int, how: Distribution = AS_ONE) -> list[StageTask]:
        """One for each stage. In: how  each is spread within its process."""
        run = Run(increment.outputs, self.operator.kept, how, _is_computed)
        stages = self._stages(exchanging=buckets > 1)
        goes_to = [*(self._destination(steps[0], buckets) for steps in stages[1:]), None]
        return [
            StageTask(steps, then, run, increment, buckets)
            for steps, then in zip(stages, goes_to, strict=True)
        ]

    def _folds_here(self, increment: Increment, buckets: int, master: Callable[[], str]) -> bool:
        """True if the driver folds an increment."""
        if not any(each.files for each in increment.slices.values()):
            return True
        if not all(map(self._computes_here, self.operator.steps)):
            return False
        if self.rows.computed.feeds and increment.log_bytes > HERE_BYTES:
            return False
        return is_for_driver(increment, buckets, master)

    def _computed_here(
        self, spark: SparkSession, increment: Increment, unusable: Sequence[Unusable] | None
    ) -> Mapping[str, pa.Table] | None:
        """The rows that SQL computes, by feed; None: this failed, and tasks shall say why. Without a worker of Python."""
        frame = (
            self.rows.computed_frame(spark, increment.slices, unusable) if self.rows.computed.feeds else None
        )
        if frame is None:
            return self.rows.computed.empty()
        try:
            return self.rows.computed.unpacked(frame.coalesce(1).toArrow())
        except (PySparkException, Py4JJavaError):
            return None  # the error may lack its cause, by which an unusable record is told

    def _fold_here(
        self,
        increment: Increment,
        computed: Mapping[str, pa.Table] | None = None,
        how: Distribution = AS_ONE,
    ) -> tuple[FoldResult, Times]:
        """Fold an increment without a task of Python. In: computed  rows that SQL computes, by feed; None: no rows."""
        tasks = self._tasks(increment, 1, how)
        first = FirstTask(self.rows.packed, None, self.operator.kernel, tasks[0])
        times, rows = first.rows(self.rows.computed.empty() if computed is None else computed)
        report = Report((), times)
        for number, task in enumerate(tasks):
            if number:
                compute = computed_in_arrow if self._computes_here(task.steps[0]) else nothing_computed
                rows = compute(selections_of(task.steps[0]), rows)
            report, rows = task.fold(report, rows)
        return together(report.results, increment.batch), times

    def _computes_here(self, step: Step) -> bool:
        """True if the driver computes the columns that a step asks for, or there are none."""
        if step not in self._covered:
            before, selections = self._columns_before(step, 1), selections_of(step)
            covered = before is None or is_computed_in_arrow(selections, before)
            self._covered[step] = covered and (before is None or self.rows.in_arrow)
        return self._covered[step]

    @cached_property
    def _covered(self) -> dict[Step, bool]:
        return {}

    def _stages(self, *, exchanging: bool) -> Sequence[Sequence[Step]]:
        """The steps of each stage. In: exchanging  whether a step that takes rows from other buckets begins one."""
        stages: list[list[Step]] = []
        for step in self.operator.steps:
            stays = bool(stages) and not (exchanging and is_exchanged(stages[-1][-1], step))
            if not stays or selections_of(step):
                stages.append([])
            stages[-1].append(step)
        return stages

    def _destination(self, step: Step, buckets: int) -> Destination:
        if (step, buckets) not in self._known:
            self._known[step, buckets] = Destination(step, buckets, self._columns_before(step, buckets))
        return self._known[step, buckets]

    @cached_property
    def _known(self) -> dict[tuple[Step, int], Destination]:
        return {}

    def _columns_before(self, step: Step, buckets: int) -> pa.Schema | None:
        """The columns in which rows come to a step; None: SQL computes nothing of them."""
        if not selections_of(step):
            return None
        run = Run({}, self.operator.kept, AS_ONE, _is_computed)
        nothing = Times(Clock(), Clock())
        rows = self.operator.kernel.rows(self.rows.packed.empty())
        for before in self.operator.steps:
            if before is step:
                break
            rows = nothing_computed(selections_of(before), rows)
            rows = run.through([before], Between(rows), nothing, StateSource(""), 0)[1].rows
        return exchanged(step, rows, None, buckets)[0].schema


@contextmanager
def on_cores(
    increment: Increment, steps: Sequence[Step], master: Callable[[], str]
) -> Iterator[Distribution]:
    """How the driver spreads an increment: a large one on a single machine over its cores, any other one not at all.

    In: master  as `is_for_driver` takes it
    """
    cores = min(os.cpu_count() or 1, CORES_MAX)
    fits = THREADS_BYTES <= increment.log_bytes <= THREADS_BYTES_MAX and all(step.threads for step in steps)
    if cores == 1 or not fits or not is_local(master()) or not SPREADING.acquire(blocking=False):
        yield AS_ONE
        return
    try:
        yield Distribution(cores, run=run_in_threads)
    finally:
        SPREADING.release()


def is_for_driver(increment: Increment, buckets: int, master: Callable[[], str]) -> bool:
    """True if the driver folds an increment sooner than Spark.

    On a single machine it does so if there is one bucket: a task would wait for a slot that the log's tasks have. Elsewhere
    if the increment, and all of the state that it might touch, have few bytes.

    In: master  gives Spark's URL; it is asked last, so little work needs no Spark
    """
    state_bytes = sum(file.size for file in increment.source.files.values())
    if increment.log_bytes <= HERE_BYTES and state_bytes <= HERE_STATE_BYTES:
        return True
    return buckets == 1 and is_local(master())


def buckets_for(slices: Iterable[LogSlice], tasks: Callable[[], int]) -> int:
    """How many buckets an increment is spread over: one while it is small, else one for each of Spark's tasks at a time."""
    return 1 if sum(each.bytes for each in slices) <= BUCKET_BYTES else max(1, tasks())


def _is_computed(selections: Mapping[str, Computing], rows: pa.Table) -> pa.Table:
    """SQL has added the columns before the task got the rows."""
    return rows


def computed_columns(selections: Mapping[str, Computing], rows: DataFrame) -> DataFrame:
    """Add the columns that SQL computes. In: rows  those of all relations; the columns of other ones are null."""
    for part, each in selections.items():
        rows = refined(each, rows) if isinstance(each, Refinement) else _selected(part, each, rows)
    return rows


def _selected(part: str, selection: Selection, rows: DataFrame) -> DataFrame:
    """Add the columns of a join's select. In: rows  with those of both sides; all may be null."""
    names = rows.columns
    sides = {"right": selection.right, "left": selection.left}
    structs = (
        F.struct(*(F.col(quote(carried)).alias(name) for name, carried in side.items())).alias(which)
        for which, side in sides.items()
    )
    plain = {
        name.lower(): F.col(quote(carried)).alias(name)
        for side in (*sides.values(), selection.key)
        for name, carried in side.items()
        if name.lower() not in sides
    }
    values = (expression_of(sql).alias(f"{part}:{name}") for name, sql in selection.values.items())
    both = rows.select("*", *structs, *plain.values())
    with refusals_explained(f"join: select={[*selection.values.values()]}"):
        return both.select(*(F.col(quote(name)) for name in names), *values)


def refined(refinement: Refinement, rows: DataFrame) -> DataFrame:
    """Add what steps make of the rows of one relation.

    In:  rows  of this relation, and of others, in which its columns are null
    Law: row by row. Nothing is computed of rows of other relations, nor of rows that an earlier `where` refuses.
    """
    own = F.lit(True) if refinement.port is None else F.col(PORT) == refinement.port
    source = (F.col(quote(carried)).alias(name) for name, carried in refinement.source.items())
    whole = F.struct(*(F.col(quote(name)) for name in rows.columns))
    frame = rows.select(whole.alias(_CARRIED), own.alias(_PASSES), *source)
    for step in refinement.steps:
        with refusals_explained(in_words(step)):
            frame = _applied(frame, step, refinement.key)
    carried = (F.col(_CARRIED).getField(name).alias(name) for name in rows.columns)
    made = (F.col(quote(name)).alias(f"{refinement.part}:{MADE}{name}") for name in refinement.made)
    passes = F.col(_PASSES).alias(f"{refinement.part}:{PASSES}")
    has_where = any(isinstance(step, Where) for step in refinement.steps)
    return frame.select(*carried, *made, *((passes,) if has_where else ()))


def _applied(frame: DataFrame, step: RowStep, key: Sequence[str]) -> DataFrame:
    match step:
        case Where(expression):
            return frame.withColumn(_PASSES, F.coalesce(_if_passes(expression), F.lit(False)))
        case WithColumn(name, expression):
            return frame.withColumn(name, _if_passes(expression))
        case Select(expressions):
            parsed = [parse_expression(sql, "select") for sql in expressions]
            names = {name.lower() for name in key}
            made = (
                _if_passes(each.sql).alias(each.name) for each in parsed if each.name.lower() not in names
            )
            return frame.select(_CARRIED, _PASSES, *(F.col(quote(name)) for name in key), *made)


def _if_passes(expression: str) -> Column:
    return F.when(F.col(_PASSES), expression_of(expression))
