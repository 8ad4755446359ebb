"""What plain Spark does with the same topics: W2 in Structured Streaming, and the copy of a topic that a log is at least.

W2: windows that its own watermark closes, state in RocksDB, results in Delta. What its results are depends on the cut: which
records are late is decided by the watermark of the micro-batch before.
"""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle  # type: ignore[attr-defined]

from benchmarks.catch_up import Measured
from benchmarks.processes import Meter
from benchmarks.spark_source import source_options
from headrace.spark.session import pipeline_session
from headrace.streams.loops.log_stream import RECORDS_PER_TRIGGER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from pyspark.sql.streaming.stateful_processor import TimerValues

    from headrace.spark.kafka import KafkaSettings

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def native_windows(
    spark: SparkSession, folder: Path, kafka: KafkaSettings, topic: str, records: int
) -> tuple[Measured, DataFrame]:
    """Fold a whole topic of readings; what it took, and its windows (`key`, `count`, `sum`) as the peer writes them.

    In: folder  a new one, for table and checkpoint
    """
    session, reader = _opened(spark, kafka, topic)
    value = F.from_json(F.col("value").cast("string"), "sensorId STRING, value BIGINT").alias("value")
    windows = (
        reader.load()
        .select("timestamp", value)
        .withWatermark("timestamp", "2 minutes")
        .groupBy(F.window("timestamp", "2 minutes").alias("window"), "value.sensorId")
        .agg(F.count("*").alias("count"), F.sum("value.value").alias("sum"))
    )
    measured = _measured(windows, folder, records)
    start = F.unix_millis("window.start").cast("string")
    rows = session.read.format("delta").load(f"file:{folder}/table")
    rows = rows.select(F.concat_ws("@", "sensorId", start).alias("key"), "count", "sum")
    return measured, rows


def native_counts(
    spark: SparkSession, folder: Path, kafka: KafkaSettings, topic: str, records: int
) -> tuple[Measured, DataFrame]:
    """Number the readings of each sensor by `transformWithStateInPandas`; what it took, and its rows (`sensor_id`, `n`).

    In: folder  a new one, for table and checkpoint
    """

    class Count(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.count = handle.getValueState("count", "n BIGINT")

        def handleInputRows(  # noqa: N802  # Spark's name
            self, key: Any, rows: Iterator[pd.DataFrame], timer_values: TimerValues
        ) -> Iterator[pd.DataFrame]:
            known = self.count.get()
            n = 0 if known is None else known[0]
            for frame in rows:
                yield pd.DataFrame({"sensor_id": key[0], "n": np.arange(n + 1, n + 1 + len(frame))})
                n += len(frame)
            self.count.update((n,))

    session, reader = _opened(spark, kafka, topic)
    value = F.from_json(F.col("value").cast("string"), "sensor_id STRING, value BIGINT").alias("value")
    numbered = (
        reader.load()
        .select(value)
        .select("value.sensor_id")
        .groupBy("sensor_id")
        .transformWithStateInPandas(Count(), "sensor_id STRING, n BIGINT", "append", "none")
    )
    measured = _measured(numbered, folder, records)
    rows = session.read.format("delta").load(f"file:{folder}/table")
    return measured, rows


def _opened(spark: SparkSession, kafka: KafkaSettings, topic: str) -> tuple[SparkSession, DataStreamReader]:
    """A session that keeps state in RocksDB, and what reads a whole topic."""
    session = pipeline_session(spark)
    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    reader = session.readStream.format("kafka").options(**source_options(kafka), subscribe=topic)
    return session, reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=str(RECORDS_PER_TRIGGER))


def _measured(rows: DataFrame, folder: Path, records: int) -> Measured:
    """Append all rows of a stream to a new table in a folder; what it took."""
    with Meter() as meter:
        query = (
            rows.writeStream.format("delta")
            .outputMode("append")
            .option("checkpointLocation", f"file:{folder}/checkpoint")
            .trigger(availableNow=True)
            .start(f"file:{folder}/table")
        )
        query.awaitTermination()
        began, ended = _first_record_at(query), time.time()
    written = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20
    cpu = meter.cpu_between(began, ended)
    return Measured(records, ended - began, cpu, written, meter.highest)


def _first_record_at(query: StreamingQuery) -> float:
    """When the trigger began that read the query's first records, in seconds since 1970."""
    progress = (json.loads(each.json) for each in query.recentProgress)
    first = next(each for each in progress if each["numInputRows"])
    return datetime.fromisoformat(first["timestamp"]).timestamp()
