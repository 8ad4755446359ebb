"""How Spark folds an increment: tasks read its rows, or get them, fold, write files and report.

The steps of an operator run one after the other in one task, but where SQL computes columns between two of them: there the
rows go back to Spark, and then to a second task.

Law: that of `fold_increment`. Which task folds does not show in any table.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from headrace.description import quote
from headrace.engine.bucket_tasks import BucketResult
from headrace.engine.clocks import times_of
from headrace.engine.feeds import NodeRows, PackedFeeds
from headrace.engine.fold_increment import Between, Distribution, FoldResult, Run, selections_of, together
from headrace.engine.log_slices import LogSlice
from headrace.engine.operators import NodeOperator, rows_for
from headrace.engine.output_tables import nothing_computed
from headrace.engine.state_files import StateSource
from headrace.fold.changes.station import Selection
from headrace.fold.contract import Clock, Step, Times
from headrace.spark import workers
from headrace.spark.one_task import mapped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORT = "__report"
REPORT_TYPE = StructField(REPORT, BinaryType())


@dataclass(frozen=True)
class Increment:
    """What tasks have to know of an increment, beside its rows.

    before   the clock before it
    slices   of each topic's log the rows
    upto_ms  the commit time through which each topic is read
    limits   see `times_of`
    source   the state before it
    batch    BATCH of what it writes
    outputs  for each output that goes into files the URI of its table
    """

    before: Clock
    slices: Mapping[str, LogSlice]
    upto_ms: Mapping[str, int]
    limits: Sequence[tuple[int, str]]
    source: StateSource
    batch: int
    outputs: Mapping[str, str]


@dataclass(frozen=True)
class Report:
    """What the tasks of an increment have found so far."""

    results: Sequence[BucketResult]
    times: Times


@dataclass(frozen=True)
class LaterTask:
    """What a later task does: it goes on with what SQL has computed."""

    steps: Sequence[Step]
    run: Run
    told: Increment
    goes_on: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`: the rows and the report of the task before in; rows for the next step and a report out."""
        workers.settle()
        came = pa.Table.from_batches(batches).combine_chunks()
        before: Report = pickle.loads(came[REPORT].drop_null()[0].as_py())
        rows = came.filter(came[REPORT].is_null()).drop_columns([REPORT])
        yield from _sent(*self.fold(before, rows), goes_on=self.goes_on)

    def fold(self, before: Report, rows: pa.Table) -> tuple[Report, pa.Table]:
        """The report so far, and rows for the next step."""
        told = self.told
        found, left = self.run.through(self.steps, Between(rows), before.times, told.source, told.batch)
        return Report([*before.results, *found], before.times), left.rows


@dataclass(frozen=True)
class FirstTask:
    """What the first task does: it tells the clocks, and then does the same as a later one."""

    feeds: PackedFeeds
    computed: PackedFeeds | None
    kernel: Any
    then: LaterTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`: rows of `computed` in; rows for the next step and a report out."""
        workers.settle()
        came = [*batches]
        computed = self.computed if came else None
        feeds = computed.unpacked(pa.Table.from_batches(came)) if computed is not None else {}
        yield from _sent(*self.fold(feeds), goes_on=self.then.goes_on)

    def fold(self, computed: Mapping[str, pa.Table]) -> tuple[Report, pa.Table]:
        """The report, and rows for the next step. In: computed  rows of the feeds that SQL has computed."""
        told, feeds = self.then.told, self.feeds.empty()
        for name, feed in self.feeds.feeds.items():
            if feed.origins is not None:
                feeds[name] = feed.read(told.slices)
        feeds |= computed
        times = times_of([*feeds.values()], told.before, told.upto_ms, told.limits)
        return self.then.fold(Report((), times), rows_for(self.kernel, feeds))


def _sent(report: Report, rows: pa.Table, *, goes_on: bool) -> Iterator[pa.RecordBatch]:
    """The report, and the rows if there is a next step."""
    if not goes_on:
        yield pa.RecordBatch.from_pydict({REPORT: pa.array([pickle.dumps(report)], pa.binary())})
        return
    schema = pa.schema([*rows.schema, (REPORT, pa.binary())])
    yield pa.RecordBatch.from_pylist([{REPORT: pickle.dumps(report)}], schema)
    if rows.num_rows:
        yield from rows.append_column(schema.field(REPORT), pa.nulls(rows.num_rows, pa.binary())).to_batches()


class SparkFold:
    """Folds increments of one operator."""

    def __init__(self, operator: NodeOperator, rows: NodeRows) -> None:
        """Nothing is folded yet."""
        self.operator, self.rows = operator, rows

    def fold(self, spark: SparkSession, told: Increment) -> tuple[FoldResult, Times]:
        """Fold an increment: what it leads to, and its clocks."""
        run = Run(told.outputs, self.operator.kept, Distribution(), _is_computed)
        stages = self._stages
        last = len(stages) - 1
        frame = self.rows.computed_frame(spark, told.slices)
        computed = None if frame is None else self.rows.computed
        then = LaterTask(stages[0], run, told, last > 0)
        first = FirstTask(self.rows.packed, computed, self.operator.kernel, then)
        if not any(each.files for each in told.slices.values()):
            report = self._of_nothing(first, run, told)
            return together(report.results, told.batch), report.times
        names = ["id"] if computed is None else computed.names
        frame = spark.range(0, 1, 1, 1) if frame is None else frame.coalesce(1)
        work: Any = first
        for number, steps in enumerate(stages[1:], 1):
            frame = mapped(frame, work, names, self._given[number - 1])
            frame = computed_columns(selections_of(steps[0]), frame)
            work, names = LaterTask(steps, run, told, number < last), frame.columns
        reports = mapped(frame, work, names, StructType([REPORT_TYPE])).collect()
        report = pickle.loads(reports[0][REPORT])
        return together(report.results, told.batch), report.times

    def _of_nothing(self, first: FirstTask, run: Run, told: Increment) -> Report:
        """An increment without rows needs no task of Spark."""
        report, rows = first.fold({})
        for steps in self._stages[1:]:
            rows = nothing_computed(selections_of(steps[0]), rows)
            report, rows = LaterTask(steps, run, told, goes_on=False).fold(report, rows)
        return report

    @cached_property
    def _stages(self) -> Sequence[Sequence[Step]]:
        """The steps of each task."""
        stages: list[list[Step]] = [[]]
        for step in self.operator.steps:
            if selections_of(step):
                stages.append([])
            stages[-1].append(step)
        return stages

    @cached_property
    def _given(self) -> Sequence[StructType]:
        """The columns of what each task but the last gives."""
        run = Run({}, self.operator.kept, Distribution(), _is_computed)
        nothing = Times(Clock(), Clock())
        rows, found = self.operator.rows(self.rows.packed.empty()), []
        for steps in self._stages[:-1]:
            rows = nothing_computed(selections_of(steps[0]), rows)
            rows = run.through(steps, Between(rows), nothing, StateSource(""), 0)[1].rows
            found.append(StructType([*from_arrow_schema(rows.schema).fields, REPORT_TYPE]))
        return found


def _is_computed(selections: Mapping[str, Selection], rows: pa.Table) -> pa.Table:
    """SQL has added the columns before the task got the rows."""
    return rows


def computed_columns(selections: Mapping[str, Selection], rows: DataFrame) -> DataFrame:
    """Add the columns of selections. In: rows  with those of both sides; all may be null."""
    for part, selection in selections.items():
        names = rows.columns
        sides = {"right": selection.right, "left": selection.left}
        structs = (
            F.struct(*(F.col(quote(carried)).alias(name) for name, carried in side.items())).alias(which)
            for which, side in sides.items()
        )
        plain = {
            name.lower(): F.col(quote(carried)).alias(name)
            for side in sides.values()
            for name, carried in side.items()
            if name.lower() not in sides
        }
        values = (F.expr(sql).alias(f"{part}:{name}") for name, sql in selection.values.items())
        both = rows.select("*", *structs, *plain.values())
        rows = both.select(*(F.col(quote(name)) for name in names), *values)
    return rows
