"""Upkeep of a Delta table: fewer and larger files, and no file that nobody can read any more. It says what it said."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from delta.tables import DeltaTable

from headrace.spark import files, tables
from headrace.spark.jvm import java_class, scala_object

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

CLASSES = "org.apache.spark.sql.delta"
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


def rearrange(frame: DataFrame, path: str, names: Collection[str], version: int) -> None:
    """Put rows in the place of those of some files, which they stand for, in one commit; not if others did meanwhile.

    As beside OPTIMIZE, Delta lets others append.

    In: names  of the files; version: of the table, as of which these were in it
    """
    _exchange(frame.sparkSession, frame, path, names, version)


def drop(spark: SparkSession, path: str, names: Collection[str], version: int) -> None:
    """Take some files out with all their rows, in one commit that reads none of them; not if others did meanwhile.

    In: names  of the files; version: of the table, as of which these were in it
    """
    if names:
        _exchange(spark, None, path, names, version)


def _exchange(
    spark: SparkSession, frame: DataFrame | None, path: str, names: Collection[str], version: int
) -> None:
    """Delta has no such command: the actions are those of its protocol.

    Its transaction writes the rows, commits, and raises an error when a file was taken out since it began.
    """
    now_ms = time.time_ns() // 1_000_000
    parse = scala_object(spark, f"{CLASSES}.actions.Action").fromJson
    with _active(spark):
        log = java_class(spark, f"{CLASSES}.DeltaLog").forTable(spark._jsparkSession, path)
        transaction = log.startTransaction()
        begun = int(transaction.snapshot().version())
        if len(_lasting(spark, path, names, version, begun)) < len(names):
            return
        actions = []
        if frame is not None:
            written = transaction.writeFiles(frame._jdf)
            actions = [json.loads(written.apply(number).json()) for number in range(written.size())]
        for action in actions:
            action["add"]["dataChange"] = False
        for name in names:
            gone = {"path": quote(name), "deletionTimestamp": now_ms, "dataChange": frame is None}
            actions.append({"remove": gone})
        parsed = java_class(spark, "PythonUtils").toSeq([parse(json.dumps(action)) for action in actions])
        transaction.commit(parsed, scala_object(spark, f"{CLASSES}.DeltaOperations$ManualUpdate"))


def _lasting(spark: SparkSession, path: str, names: Collection[str], version: int, until: int) -> set[str]:
    """Those of the files that no commit between two versions took out; none if its history is gone."""
    left = set(names)
    for number in range(version + 1, until + 1):
        actions = tables.found_actions(spark, path, number)
        if actions is None:
            return set()
        left -= {unquote(action["remove"]["path"]) for action in actions if "remove" in action}
    return left


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Let what is called inside find this session as that of its thread, as Delta's own commands do."""
    sessions = java_class(spark, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
