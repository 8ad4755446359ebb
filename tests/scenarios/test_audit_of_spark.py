"""An audit finds the rows that Structured Streaming gets wrong, each with the late record behind it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.scenarios.audited_windows import WINDOWS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.conftest import Drive

MINUTE, BEGIN_MS = 60_000, 1_700_000_040_000
# Partition, minute and value. The fifth and the sixth are late: both partitions have passed minute 2.
TWO_PARTITIONS = (
    (0, 0.2, 1),
    (1, 0.4, 2),
    (0, 2.0, 4),
    (1, 2.2, 8),
    (0, 0.6, 16),
    (1, 0.7, 32),
    (0, 4.5, 64),
    (1, 4.0, 128),
    (0, 9.0, 256),
    (1, 9.0, 512),
)


@pytest.mark.spark
def test_structured_streaming_counts_late_records_of_a_micro_batch(
    drive: Drive, spark: SparkSession, tmp_path: Path
) -> None:
    driver = drive(WINDOWS)
    for partition, minute, value in TWO_PARTITIONS:
        at_ms = BEGIN_MS + round(minute * MINUTE)
        driver.pipe(
            "readings", key="ab"[partition], value={"value": value}, timestamp_ms=at_ms, partition=partition
        )
        driver.cut()
    appended_by_spark(spark, tmp_path, [TWO_PARTITIONS[:6], TWO_PARTITIONS[6:]])
    wrong = driver.audit("windows", f"{tmp_path}/table")
    stored = DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
    theirs = {(row["sensor"], row["window_start"]): row["total"] for row in stored}
    differing = [r for r in driver.rows("windows") if theirs[r["sensor"], r["window_start"]] != r["total"]]
    assert (wrong.wrong, wrong.missing, wrong.surplus) == (len(differing), 0, 0)
    found = {row.log["sensor"]: row for row in wrong.examples if row.log is not None}
    assert sorted(found) == sorted(row["sensor"] for row in differing) == ["a", "b"]
    for sensor, partition, totals in (("a", 0, (1, 17)), ("b", 1, (2, 34))):
        log, table, (cause,) = found[sensor].log, found[sensor].table, found[sensor].causes
        assert log is not None
        assert table is not None
        assert (log["total"], table["total"]) == totals
        assert [(each.partition, each.offset, each.fate) for each in cause.uncounted] == [
            (partition, 2, "late")
        ]


def appended_by_spark(spark: SparkSession, folder: Path, batches: list[Any]) -> None:
    """Fold the records by windows with Spark's own watermark into the Delta table `table`, each batch in a micro-batch."""
    from pyspark.sql import functions as F

    log = folder / "log"
    log.mkdir(parents=True)
    for number, batch in enumerate(batches):
        rows = [
            {"sensor": "ab"[partition], "ms": BEGIN_MS + round(minute * MINUTE), "value": value}
            for partition, minute, value in batch
        ]
        file = log / f"{number}.json"
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # the order of the micro-batches
    reader = spark.readStream.schema("sensor STRING, ms BIGINT, value BIGINT").option("maxFilesPerTrigger", 1)
    windows = (
        reader.json(f"file:{log}")
        .withColumn("time", F.timestamp_millis("ms"))
        .withWatermark("time", "30 seconds")
        .groupBy("sensor", F.window("time", "1 minute").alias("window"))
        .agg(F.sum("value").alias("total"))
        .select("sensor", F.col("window.start").alias("window_start"), "total")
    )
    query = (
        windows.writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", f"file:{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"file:{folder}/table")
    )
    query.awaitTermination()
