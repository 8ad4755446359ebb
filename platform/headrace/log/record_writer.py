"""The driver's side of a log commit with records: the Spark job that sequences them, and what its tasks report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.lake import DataFileWriter, NewFile, small_files
from headrace.log.record_task import COLUMNS, RecordTask, merge_guards
from headrace.log.schema_store import SchemaStore
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LastRow
from headrace.sequence.replays.exact import ExactGuard
from headrace.sequence.sequence_records import NAMES, VALUES
from headrace.spark.brokers.kafka_ranges import NOT_READ, KafkaRanges
from headrace.spark.brokers.kafka_refusals import not_read
from headrace.spark.frames import Selection
from headrace.spark.one_task import batches_of, reports_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import SparkSession

    from headrace.description import Topic
    from headrace.sequence.log_state import LogState
    from headrace.sequence.replays.guards import Guard

SMALL_RECORD_BYTES = 16 << 10
# Where records are small, a batch of rows for Python ends by its rows.
BY_BYTES, BY_ROWS = batches_of(10_000, by_bytes=True), batches_of(1_000, by_bytes=False)

# Ranges, which tasks read and sequence; rows in the form of Spark's Kafka source, as seeds have, which tasks sequence; or
# batches as `RECORDS`, by partition and offset, which this process sequences.
Records = KafkaRanges | DataFrame | Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class WrittenRecords:
    """The rows of a commit, in files that no commit names yet.

    open   a file that takes more rows, and has to be closed or removed; None: all are closed
    ends   the last row of each partition
    guard  after the commit; None: the topic has none
    """

    files: Sequence[NewFile]
    records: int
    dead_letters: int
    replays: int
    ends: Sequence[LastRow]
    guard: Guard | None
    open: DataFileWriter | None = None


NOTHING = WrittenRecords([], 0, 0, 0, [], None)


class RecordWriter:
    """Writes the records of one topic."""

    def __init__(self, topic: Topic, path: str, schema: pa.Schema, *, keeps_open: bool = False) -> None:
        """Nothing is written yet.

        In: path, schema  of the log's table
            keeps_open    the file that this process writes is left open, for the commit row
        """
        self._keeps_open = keeps_open
        self._topic, self._path, self._schema = topic, path, schema
        self._store = SchemaStore(path, topic)
        self._is_small = False
        self._batches: Mapping[str, str] = {}
        self._open: DataFileWriter | None = None

    @cached_property
    def _columns(self) -> Selection:
        return Selection(*columns_delivered())

    def write(
        self,
        raw: Records,
        state: LogState,
        guard: Guard | None,
        at_ms: int,
        *,
        in_order: bool = False,
        one_task: bool = False,
    ) -> WrittenRecords:
        """Sequence and write the records of a commit.

        In: raw           see `Records`; offsets that the log holds are passed over
            state, guard  before the commit
            in_order      each partition lies in one task, in the order of its offsets
            one_task      the records are few: use one task
        Raises: RecordsNotReadError
        """
        self._open = None
        if isinstance(raw, KafkaRanges):
            alone = one_task or isinstance(guard, ExactGuard)
            tasks = 1 if alone else raw.spark.sparkContext.defaultParallelism
            reports = self._reports(state, guard, at_ms, lambda task: raw.reports(task, tasks))
        elif isinstance(raw, DataFrame):
            self._end_batches(raw.sparkSession, BY_ROWS if self._is_small else BY_BYTES)
            rows = self._distributed(raw, guard, in_order=in_order, one_task=one_task)
            reports = self._reports(state, guard, at_ms, lambda task: reports_of(rows, task, COLUMNS))
            self._require_whole_partitions(reports)
        else:
            batches = [*raw] if self._store.asks else raw  # they may be read twice
            reports = self._reports(state, guard, at_ms, lambda task: [self._here(task, batches)])
        if any(each["records"] for each in reports):
            self._is_small = max(each["largest"] for each in reports) <= SMALL_RECORD_BYTES
        closed = [each["file"] for each in reports if each.get("file") is not None]
        if self._open is not None and not self._keeps_open:
            closed, self._open = [file for file in [self._open.close()] if file is not None], None
        return WrittenRecords(
            [NewFile(**file) for file in closed],
            sum(each["records"] for each in reports),
            sum(each["dead_letters"] for each in reports),
            sum(each["replays"] for each in reports),
            [LastRow(*end) for each in reports for end in each["ends"]],
            merge_guards(guard, (each["guard"] for each in reports)),
            self._open,
        )

    def _here(self, task: RecordTask, batches: Iterable[pa.RecordBatch]) -> Mapping[str, Any]:
        report, self._open = task.sequence(batches)
        return report

    def _reports(
        self,
        state: LogState,
        guard: Guard | None,
        at_ms: int,
        run: Callable[[RecordTask], Sequence[Mapping[str, Any]]],
    ) -> Sequence[Mapping[str, Any]]:
        """The reports of tasks that knew each schema that their records name."""
        while True:
            of = RecordFormat.of(self._topic, self._store.known)
            reports = run(RecordTask(of, state, guard, at_ms, self._schema, self._path))
            if unread := [each[NOT_READ] for each in reports if NOT_READ in each]:
                self._remove_files(reports)
                raise not_read(self._topic.name, unread[0])
            asked = {(url, number) for each in reports for url, number in each["asked"]}
            if not asked:
                return reports
            self._remove_files(reports)
            self._store.learn(asked)

    def _remove_files(self, reports: Sequence[Mapping[str, Any]]) -> None:
        if self._open is not None:
            self._open.remove()
        files = [each["file"] for each in reports if each.get("file") is not None]
        small_files.delete_files(f"{self._path}/{file['path']}" for file in files)

    def _distributed(
        self, raw: DataFrame, guard: Guard | None, *, in_order: bool, one_task: bool
    ) -> DataFrame:
        """The records with COLUMNS, in the tasks that sequence them."""
        rows, tasks = self._columns.of(raw), raw.sparkSession.sparkContext.defaultParallelism
        if isinstance(guard, ExactGuard):
            return rows.coalesce(1).sortWithinPartitions("partition", "offset")
        if in_order:
            return rows.coalesce(1 if one_task else tasks)
        rows = rows.repartition(1 if one_task else tasks, "partition")
        return rows.sortWithinPartitions("partition", "offset")

    def _end_batches(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        """Each query has a session of its own."""
        if settings is not self._batches:
            for name, value in settings.items():
                spark.conf.set(name, value)
            self._batches = settings

    def _require_whole_partitions(self, reports: Sequence[Mapping[str, Any]]) -> None:
        """A partition that lies in several tasks has no order among them."""
        tasks = Counter(partition for each in reports for partition, *_ in each["ends"])
        scattered = sorted(partition for partition, number in tasks.items() if number > 1)
        if not scattered:
            return
        self._remove_files(reports)
        raise ValueError(
            f"Topic '{self._topic.name}': records of partitions {scattered} came in several tasks although `in_order` "
            "was set."
        )


def columns_delivered() -> list[Expr]:
    """COLUMNS of rows in the form of Spark's Kafka source. Needs a running Spark."""
    return [
        *(F.col(name) for name in COLUMNS[:4]),
        F.unix_millis("timestamp").alias("timestamp"),
        # Arrow's Java library takes several times as long for lists of structs, and for lists that are null.
        _headers("key", "array<string>").alias(NAMES),
        _headers("value", "array<binary>").alias(VALUES),
    ]


def _headers(part: str, of: str) -> Any:
    """One field of all headers of a record."""
    return F.coalesce(F.col("headers")[part], F.array().cast(of))
