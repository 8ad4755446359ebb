"""The floor of catching up: the reader that streams use copies whole topics to Parquet, values decoded, in Spark's tasks.

No verdict, no stream time, no commit, and nobody reads what it writes.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.catch_up import Measured
from benchmarks.processes import Meter
from headrace.log.record_task import in_chunks
from headrace.sequence.decode import Decoder
from headrace.sequence.formats import RecordFormat
from headrace.spark.brokers.kafka_client import KafkaReader
from headrace.spark.brokers.kafka_ranges import KafkaRanges
from headrace.spark.kafka import KafkaTopic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Topic
    from headrace.spark.kafka import KafkaSettings


@dataclass(frozen=True)
class _CopyTask:
    """Copies the records of some partitions to a file of a local folder."""

    of: RecordFormat
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `KafkaRanges.reports`."""
        decoder, rows, writer = Decoder(self.of), 0, None
        now_ms = int(time.time() * 1000)  # no record lies so far ahead that it needs a reason
        for records in in_chunks(batches):
            columns = {name: records[name].combine_chunks() for name in records.column_names}
            kafka_ms = columns["timestamp"].cast("int64")
            decoded = decoder.decode(columns["key"], columns["value"], kafka_ms, now_ms)
            kept = {name: columns[name] for name in ("partition", "offset", "timestamp", "key")}
            copied = pa.table(kept | {"value": decoded.values})
            writer = writer or pq.ParquetWriter(f"{self.folder}/{uuid.uuid4()}.parquet", copied.schema)
            writer.write_table(copied)
            rows += records.num_rows
        if writer is not None:
            writer.close()
        yield pa.RecordBatch.from_pydict({"report": [json.dumps({"records": rows})]})


def copied_topics(
    spark: SparkSession, folder: Path, kafka: KafkaSettings, topics: Sequence[Topic], records: int
) -> Measured:
    """Copy whole topics by as many tasks as there are cores; `records` is required to be their number."""
    tasks = spark.sparkContext.defaultParallelism
    with Meter() as meter:
        reports = []
        for topic in topics:
            (place := folder / topic.name).mkdir(parents=True)
            ranges = KafkaRanges(spark, KafkaReader.of(topic, kafka), _offsets(kafka, topic))
            reports += ranges.reports(_CopyTask(RecordFormat.of(topic), str(place)), tasks)
    copied = sum(report["records"] for report in reports)
    if copied != records:
        raise ValueError(f"{copied:,} records were copied of {records:,}.")
    written = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20
    return Measured(records, *meter.used, written, meter.highest)


def _offsets(kafka: KafkaSettings, topic: Topic) -> dict[int, tuple[int, int]]:
    """The first and the last offset of each partition that has records."""
    read = KafkaTopic.of(topic, kafka)
    firsts = read.earliest(numbers := read.partitions())
    return {
        number: (firsts[number], end - 1)
        for number, end in read.ends(numbers).items()
        if end > firsts[number]
    }
