"""Upkeep of a Delta table: fewer and larger files, and no file that nobody can read any more. Rows stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable

from headrace.spark import files, tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

FILE_BYTES_MAX = 128 * 1024 * 1024
DELTA = "spark.databricks.delta"
SETTINGS = {
    # Below this size a file is packed with others; larger ones are left, so that upkeep costs what is new.
    f"{DELTA}.optimize.minFileSize": str(FILE_BYTES_MAX // 2),
    f"{DELTA}.optimize.maxFileSize": str(FILE_BYTES_MAX),
    f"{DELTA}.optimize.maxThreads": "2",
    # Else the retention that is asked for is silently replaced by the table's property.
    f"{DELTA}.vacuum.retentionWindowIgnore.enabled": "false",
    # Two commits each time, whatever it finds: they would push the records of ours out of the history.
    f"{DELTA}.vacuum.logging.enabled": "false",
    # As many tasks as VACUUM lists folders with; ours hold no folders, and the default is ten thousand.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # The caller sees to a safe retention (see `runtime.maintenance`).
    f"{DELTA}.retentionDurationCheck.enabled": "false",
}


@dataclass(frozen=True)
class Size:
    """Files and what they hold."""

    files: int
    bytes: int


def current_size(spark: SparkSession, path: str) -> Size:
    """The files of the table's newest version."""
    row = DeltaTable.forPath(spark, path).detail().select("numFiles", "sizeInBytes").first()
    assert row is not None
    return Size(row["numFiles"], row["sizeInBytes"])


def stored_size(spark: SparkSession, path: str) -> Size:
    """All files below the table's folder: those of older versions and Delta's own log too."""
    return Size(*files.usage(spark, path))


def compact(spark: SparkSession, path: str, record: Mapping[str, Any]) -> None:
    """Pack small files into larger ones; commits nothing when there is nothing to pack.

    Law: the commit changes no data, so neither appends nor readers of changes notice it.
    In:  spark  a session with `SETTINGS`; `record`, of the commit
    """
    with tables.commit_record(spark, record):
        DeltaTable.forPath(spark, path).optimize().executeCompaction()


def vacuum(spark: SparkSession, path: str, retention_hours: float) -> None:
    """Delete the files that left the newest version, or were written for none, longer ago than the retention.

    In: spark  a session with `SETTINGS`
    """
    DeltaTable.forPath(spark, path).vacuum(retention_hours)
