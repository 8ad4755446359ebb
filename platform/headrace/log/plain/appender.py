"""Plain micro-batches, from the driver's side: which topics can have such, the job, and what its tasks report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog
from pyspark.sql import functions as F

from headrace.lake import NewFile, small_files
from headrace.log.monotone import MonotoneGuard
from headrace.log.plain.decode import TYPES
from headrace.log.plain.records import Reader
from headrace.log.plain.sequence import Known
from headrace.log.plain.task import HEADER_NAMES, HEADER_VALUES, Work
from headrace.spark.frames import Selection
from headrace.spark.one_task import arrow_schema, reports_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.description import Topic
    from headrace.log.guard import Guard
    from headrace.log.state import LogState

logger = structlog.get_logger(__name__)
COLUMNS = ("partition", "offset", "key", "value", "ms", HEADER_NAMES, HEADER_VALUES)
SMALL_RECORD_BYTES = 16 << 10
ARROW = "spark.sql.execution.arrow"
# Rows go to Python in batches. To end one by its bytes Spark counts these after each row, a sixth of a log's tasks: where
# records are small, a batch ends by its rows.
PLAIN_TYPES = {f"{ARROW}.useLargeVarTypes": "false"}
BY_BYTES = PLAIN_TYPES | {f"{ARROW}.maxRecordsPerBatch": "10000", f"{ARROW}.maxBytesPerBatch": str(64 << 20)}
BY_ROWS = PLAIN_TYPES | {f"{ARROW}.maxRecordsPerBatch": "1000", f"{ARROW}.maxBytesPerBatch": str(2**31 - 1)}
REST_MAX = 32  # micro-batches that Spark decides, after some that were odd, before the next is looked at


def is_plain(topic: Topic) -> bool:
    """Whether a topic can have plain micro-batches: by its types and by its guard."""
    columns = (*topic.key_columns, *topic.value_columns)
    by_value = topic.timestamp is None or topic.types[topic.timestamp].type == "BIGINT"
    guard = topic.replay_guard
    return (
        all(column.type in TYPES for column in columns)
        and by_value
        and bool(topic.value_columns)
        and (guard is None or guard.mode == MonotoneGuard.mode)
    )


@dataclass(frozen=True)
class Written:
    """A micro-batch whose rows lie in files that no commit names yet.

    found  what `headrace.log.sequence.observed` would have counted and kept of it
    """

    files: Sequence[NewFile]
    found: Mapping[str, Any]


class PlainAppender:
    """Writes plain micro-batches of one topic."""

    def __init__(self, topic: Topic, path: str, schema: StructType) -> None:
        """Needs a running Spark, and a topic that `is_plain`. `odd`: how many micro-batches were, since one was not."""
        self._topic, self._path = topic, path
        self._schema = arrow_schema(schema)
        self._records = Selection(
            *(F.col(name) for name in COLUMNS[:4]),
            F.unix_millis("timestamp").alias("ms"),
            # Of a list that is null, or of structs, Arrow's Java library takes several times as long to write.
            *(
                F.coalesce(F.col("headers")[part], F.array().cast(of_part)).alias(name)
                for part, of_part, name in (
                    ("key", "array<string>", HEADER_NAMES),
                    ("value", "array<binary>", HEADER_VALUES),
                )
            ),
        )
        self.odd, self._rest, self._small = 0, 0, False
        self._batches: Mapping[str, str] = {}

    def rests(self) -> bool:
        """Whether the next micro-batch is left to Spark, because some before were odd; asked once for each."""
        rests = self._rest > 0
        self._rest -= rests
        return rests

    def write(
        self, raw: DataFrame, state: LogState, guard: Guard | None, at_ms: int, *, one_task: bool = False
    ) -> Written | None:
        """Write the rows of a micro-batch; None: something in it is odd, and nothing was written.

        In: raw  as Spark's Kafka source delivers it, each partition in one task and in order
        """
        work = self._work(state, guard, at_ms)
        self._end_batches(raw.sparkSession, BY_ROWS if self._small else BY_BYTES)
        tasks = 1 if one_task else raw.sparkSession.sparkContext.defaultParallelism
        found = reports_of(self._records.of(raw).coalesce(tasks), work, COLUMNS)
        odd = [report for report in found if "odd" in report] or _scattered(found)
        if odd:
            self._leave_to_spark(odd[0])
            for name in (report["file"]["path"] for report in found if report.get("file")):
                small_files.delete(f"{self._path}/{name}")
            return None
        self.odd = 0
        self._small = max((report["largest"] for report in found), default=0) <= SMALL_RECORD_BYTES
        return _summed(found)

    def _leave_to_spark(self, report: Mapping[str, Any]) -> None:
        """This micro-batch, and some of the next: twice as many each time."""
        self.odd = min(self.odd + 1, REST_MAX.bit_length())
        self._rest = 1 << (self.odd - 1)
        say = logger.warning if report.get("unexpected") else logger.debug
        say("odd micro-batch", topic=self._topic.name, reason=report["odd"])

    def _end_batches(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        """Each query has a session of its own."""
        if settings is not self._batches:
            for name, value in settings.items():
                spark.conf.set(name, value)
            self._batches = settings

    def _work(self, state: LogState, guard: Guard | None, at_ms: int) -> Work:
        topic = self._topic
        return Work(
            topic=topic.name,
            reader=Reader(
                topic.key_columns,
                topic.value_columns,
                scalar_key=topic.scalar_key,
                timestamp=topic.timestamp,
                latest_ms=at_ms + topic.max_future_ms,
                max_future_ms=topic.max_future_ms,
            ),
            header=None if topic.replay_guard is None else topic.replay_guard.header,
            schema=self._schema,
            folder=self._path,
            at_ms=at_ms,
            known=Known(
                next_offsets={p: s.next_offset for p, s in state.partitions.items()},
                stream_ms={p: s.stream_ms for p, s in state.partitions.items() if s.stream_ms is not None},
                lowest_ms=state.lowest_stream_ms(),
            ),
            highest=guard.highest if isinstance(guard, MonotoneGuard) else {},
        )


def _scattered(reports: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A partition that lies in several tasks has no order among them."""
    partitions = [partition for report in reports for partition, _, _ in report["last"]]
    return [{"odd": "a partition in several tasks"}] if len(set(partitions)) < len(partitions) else []


def _summed(reports: Sequence[Mapping[str, Any]]) -> Written:
    last_rows = (last for report in reports for last in report["last"])
    seen = (at for report in reports for at in report["seen"])
    return Written(
        [NewFile(**report["file"]) for report in reports if report["file"] is not None],
        {
            "records": sum(report["records"] for report in reports),
            "dead_letters": sum(report["dead_letters"] for report in reports),
            "replays": sum(report["replays"] for report in reports),
            "last_rows": [
                dict(zip(("partition", "offset", "stream_ms"), last, strict=True)) for last in last_rows
            ],
            "seen": [dict(zip(("path", "root_offset", "ordinals"), at, strict=True)) for at in seen],
        },
    )
