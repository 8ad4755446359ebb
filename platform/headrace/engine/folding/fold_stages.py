"""The tasks of one increment, stage by stage, and the reports that they pass on.

Law: that of `Run.increment`. Neither the number of buckets nor where tasks run shows in any table.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from headrace.engine.clocks import raised, times_of
from headrace.engine.folding.bucket_tasks import BucketResult
from headrace.engine.folding.exchange import exchanged, of_bucket
from headrace.engine.folding.fold_increment import Between, Run
from headrace.engine.slices.feed_rows import PackedFeeds
from headrace.engine.slices.log_slices import LogSlice
from headrace.engine.state_files import StateSource
from headrace.fold.contract import Clock, Step, Times
from headrace.fold.kernel import Kernel
from headrace.spark.one_task import spark_schema
from headrace.spark.workers import in_worker

REPORT, BUCKET = "__report", "__bucket"
# Rows travel in values of this size, because the JVM doubles the memory of a column as it fills.
PIECE_BYTES = 16 << 20
REPORT_TYPE, BUCKET_TYPE = StructField(REPORT, BinaryType()), StructField(BUCKET, IntegerType())


@dataclass(frozen=True)
class Increment:
    """All that tasks need of an increment, except its rows.

    before   the clock before it
    slices   the rows of each topic's log
    upto_ms  the commit time through which each topic is read
    limits   see `times_of`
    source   the state before it
    batch    BATCH of the rows that it writes
    outputs  the URI of the table of each output that goes into files
    driving  the topics by whose stream time the node goes
    """

    before: Clock
    slices: Mapping[str, LogSlice]
    upto_ms: Mapping[str, int]
    limits: Sequence[tuple[int, str]]
    source: StateSource
    batch: int
    outputs: Mapping[str, str]
    driving: Sequence[str]

    @property
    def log_bytes(self) -> int:
        """The size of the log's files."""
        return sum(each.bytes for each in self.slices.values())


@dataclass(frozen=True)
class Report:
    """The message that a task sends to a task of the next stage along with its rows. The last stage sends it to the driver.

    results  the results of the earlier tasks, without rows; only the first bucket gets them
    times    the clocks of the increment
    shared   rows that every bucket of the next step gets
    rows     rows of one bucket, as bytes, if SQL has nothing to compute of them; a large bucket has several reports
    has_rows False if the step gave no rows: then `rows` is empty, and has the columns of the rows that the step got
    """

    results: Sequence[BucketResult]
    times: Times
    shared: pa.Table | None = None
    rows: bytes | None = None
    has_rows: bool = True


@dataclass(frozen=True)
class Destination:
    """The first step of a stage, and how rows travel to its buckets.

    columns  in which SQL finds what it computes; None: it computes nothing, and the rows of a bucket travel as bytes
    """

    step: Step
    buckets: int
    columns: pa.Schema | None

    def sent(self, report: Report, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """A report and rows on their way. The first bucket alone is told what was found."""
        schema = pa.schema([*(self.columns or ()), (REPORT, pa.binary()), (BUCKET, pa.int32())])
        for number, mine in enumerate(exchanged(self.step, rows, None, self.buckets)):
            told = report if number == 0 else replace(report, results=())
            reports = _with_rows(told, mine) if self.columns is None else [told]
            for each in reports:
                yield pa.RecordBatch.from_pylist([{REPORT: pickle.dumps(each), BUCKET: number}], schema)
            if self.columns is not None and mine.num_rows:
                columns = mine.select(self.columns.names).cast(self.columns).columns
                bucket = pa.array(np.full(mine.num_rows, number, np.int32))
                marked = [*columns, pa.nulls(mine.num_rows, pa.binary()), bucket]
                yield from pa.table(marked, schema=schema).to_batches()

    @property
    def travelling(self) -> StructType:
        """The columns of the frame."""
        columns = [] if self.columns is None else spark_schema(self.columns).fields
        return StructType([*columns, REPORT_TYPE, BUCKET_TYPE])


@dataclass(frozen=True)
class StageTask:
    """The work of a task in one stage: it folds one bucket of some steps, and sends rows to the buckets of the next stage.

    steps    the steps; if there are several buckets, those that need no exchange between them
    then     where the rows go next; None: this is the last stage
    buckets  the number of buckets
    """

    steps: Sequence[Step]
    then: Destination | None
    run: Run
    increment: Increment
    buckets: int

    @in_worker
    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`: rows and reports of the tasks before in; rows for the next stage and reports out."""
        came = pa.Table.from_batches(batches).combine_chunks()
        reports: list[Report] = [pickle.loads(each.as_py()) for each in came[REPORT].drop_null()]
        sharing = [each.shared for each in reports if each.shared is not None]
        shared = pa.concat_tables(sharing) if sharing else None
        before = Report([found for each in reports for found in each.results], reports[0].times, shared)
        if reports[0].rows is None:
            rows = came.filter(came[REPORT].is_null()).drop_columns([REPORT, BUCKET])
        else:
            giving = [each for each in reports if each.has_rows] or reports[:1]
            rows = pa.concat_tables([pa.ipc.open_stream(each.rows).read_all() for each in giving])
        yield from self.sent(*self.fold(before, rows, came[BUCKET][0].as_py()))

    def fold(self, before: Report, rows: pa.Table, bucket: int = 0) -> tuple[Report, pa.Table]:
        """The report, and rows for the next stage. In: rows  of the bucket, with their keys if there are several buckets."""
        came, times, increment = Between(rows, before.shared), before.times, self.increment
        place = None if self.buckets == 1 else (bucket, self.buckets)
        results, left = self.run.through(self.steps, came, times, increment.source, increment.batch, place)
        return Report([*before.results, *results], times, left.shared, has_rows=left.has_rows), left.rows

    def sent(self, report: Report, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """The report, and rows for the next stage, as they travel."""
        if self.then is None:
            yield pa.RecordBatch.from_pydict({REPORT: pa.array([pickle.dumps(report)], pa.binary())})
            return
        yield from self.then.sent(report, rows)


def _with_rows(report: Report, rows: pa.Table) -> Iterator[Report]:
    """A report with rows; if they are many, more of it, each with a piece of them, the first with all else."""
    each = max(1, PIECE_BYTES * rows.num_rows // max(rows.nbytes, 1))
    for begin in range(0, max(rows.num_rows, 1), each):
        yield replace(report, rows=_as_bytes(rows.slice(begin, each)))
        report = replace(report, results=(), shared=None)


def _as_bytes(rows: pa.Table) -> bytes:
    """Rows on their way to another task; a part of larger columns takes no more than itself."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found


@dataclass(frozen=True)
class FirstTask:
    """The work of a task in the first stage: it reads or gets its rows, computes the clocks, and folds.

    feeds     how all feeds travel
    computed  how the feeds travel that come to the task; None: the task reads all feeds by itself
    stage     the work on the rows
    spread    where one task sends the rows, if there are several buckets
    """

    feeds: PackedFeeds
    computed: PackedFeeds | None
    kernel: Kernel
    stage: StageTask
    spread: Destination | None = None

    @in_worker
    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`: rows of `computed` in, or the number of a bucket; rows for the next stage and reports out."""
        came, stage, bucket, computed = [*batches], self.stage, 0, {}
        if self.computed is None:
            bucket = came[0]["id"][0].as_py()
        else:
            computed = self.computed.unpacked(pa.Table.from_batches(came)) if came else self.computed.empty()
        times, rows = self.rows(computed)
        if self.spread is not None:
            yield from self.spread.sent(Report((), times), rows)
            return
        if stage.buckets > 1:
            rows = of_bucket(stage.steps[0], rows, bucket, stage.buckets)
        yield from stage.sent(*stage.fold(Report((), times), rows, bucket))

    def rows(self, computed: Mapping[str, pa.Table]) -> tuple[Times, pa.Table]:
        """The clocks, and the rows of all feeds as the first step takes them. In: computed  those that SQL has computed."""
        told, feeds = self.stage.increment, self.feeds.empty()
        for name, feed in self.feeds.feeds.items():
            if feed.origins is not None:
                feeds[name] = feed.read(told.slices)
        feeds |= computed
        times = times_of([*feeds.values()], told.before, told.upto_ms, told.limits, told.driving)
        feeds = {name: raised(rows, times, told.driving) for name, rows in feeds.items()}
        return times, self.kernel.rows(feeds)
