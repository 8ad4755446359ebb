"""Upkeep of a Delta table: fewer and larger files, and no file that nobody can read any more. It says what it said."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from delta.tables import DeltaTable

from headrace.lake import small_files
from headrace.spark import tables
from headrace.spark.actions import active, begin, parsed, removal, say
from headrace.spark.jvm import java_class, scala_option, scala_seq

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from headrace.spark.newest import File

FILE_BYTES_MAX = 128 * 1024 * 1024
SETTING = "spark.databricks.delta"
SETTINGS = {
    # Below this size a file is packed with others; larger ones are left, so that upkeep costs what is new.
    f"{SETTING}.optimize.minFileSize": str(FILE_BYTES_MAX // 2),
    f"{SETTING}.optimize.maxFileSize": str(FILE_BYTES_MAX),
    f"{SETTING}.optimize.maxThreads": "2",
    # Else the retention that is asked for is silently replaced by the table's property.
    f"{SETTING}.vacuum.retentionWindowIgnore.enabled": "false",
    # Two commits each time, whatever it finds: they would push the records of ours out of the history.
    f"{SETTING}.vacuum.logging.enabled": "false",
    # As many tasks as VACUUM lists folders with; ours hold no folders, and the default is ten thousand.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # The caller sees to a safe retention (see `runtime.maintenance`).
    f"{SETTING}.retentionDurationCheck.enabled": "false",
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
    return Size(*small_files.usage(path))


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


def checkpoint(spark: SparkSession, path: str) -> None:
    """Write Delta's checkpoint of the table's newest version; others may commit meanwhile."""
    with active(spark):
        snapshot = tables.newest_snapshot(spark, path)
        tables.delta_log(spark, path).checkpoint(snapshot, scala_option(spark))


def rearrange(
    frame: DataFrame, path: str, gone: Mapping[str, File], version: int, alone: AbstractContextManager[object]
) -> None:
    """Put rows in the place of some files, for all in these that is read again, in one commit; not if others did meanwhile.

    As beside OPTIMIZE, Delta lets others append. But who commits between another's look at the table and its commit makes
    it read the whole list of files anew, a second or more: so the rows are written first, and then committed in a moment.

    In: gone  the files by name; version: of the table, as of which these were in it
        alone  held for that moment; who appends takes it too
    """
    spark = frame.sparkSession
    with active(spark):
        written = begin(spark, path).writeFiles(frame._jdf)
        with alone:
            _exchange(spark, path, gone, version, [written.apply(number) for number in range(written.size())])


def drop(spark: SparkSession, path: str, gone: Mapping[str, File], version: int) -> None:
    """Take files out of a table with their rows, in one commit; not if others did meanwhile. Nothing is read.

    In: gone  the files by name; version: of the table, as of which these were in it
    """
    if gone:
        with active(spark):
            _exchange(spark, path, gone, version, [])


def _exchange(
    spark: SparkSession, path: str, gone: Mapping[str, File], version: int, added: Sequence[Any]
) -> None:
    """Delta has no such command: the actions are those of its protocol, by the name of the command that does the like.

    Delta knows what a table holds after a commit by the one before it and these actions, if they say the sizes of files
    and the operation is not "manual"; else the next commit reads all of the table's log. Its transaction raises an error
    when a file was taken out since it began.
    """
    transaction = begin(spark, path)
    if len(_lasting(spark, path, gone, version, int(transaction.snapshot().version()))) < len(gone):
        return
    now_ms = time.time_ns() // 1_000_000
    actions = [json.loads(file.json()) for file in added]
    for action in actions:
        action["add"]["dataChange"] = False
    for name, file in gone.items():
        actions.append(removal(name, file.size, now_ms, changes_data=not added))
    nothing, empty = scala_option(spark), scala_seq(spark)
    if added:
        operation = _class(spark, "DeltaOperations$Optimize")(empty, empty, False, nothing, False)
    else:
        operation = _class(spark, "DeltaOperations$Delete")(empty)
        rows = sum(file.rows for file in gone.values())
        metrics = {"numRemovedFiles": len(gone), "numDeletedRows": rows}  # which a DELETE has to say
        say(spark, transaction, metrics)
    transaction.commit(parsed(spark, actions), operation)


def _class(spark: SparkSession, name: str) -> Any:
    return java_class(spark, f"{tables.DELTA}.{name}")


def _lasting(spark: SparkSession, path: str, names: Collection[str], version: int, until: int) -> set[str]:
    """Those of the files that no commit between two versions took out; none if its history is gone."""
    left = set(names)
    for number in range(version + 1, until + 1):
        actions = tables.found_actions(spark, path, number)
        if actions is None:
            return set()
        left -= {unquote(action["remove"]["path"]) for action in actions if "remove" in action}
    return left
