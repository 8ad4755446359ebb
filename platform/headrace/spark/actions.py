"""Commits by Delta's transactions: of rows, and of actions for files that somebody else than Delta has written.

Whoever asks Delta for a transaction has it list all commits that it keeps, which takes the longer the more there are. Here a
transaction begins with the snapshot that Delta has, if that is of the newest version.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.spark import tables
from headrace.spark.jvm import java_class, scala_object, scala_option, scala_seq

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class NewFile:
    """A Parquet file in a table's folder that no commit names yet: its name, its bytes, Delta's statistics (JSON)."""

    path: str
    size: int
    stats: str


def begin(spark: SparkSession, path: str) -> Any:
    """A transaction on the newest version."""
    snapshot = tables.newest_snapshot(spark, path)
    return snapshot.deltaLog().startTransaction(scala_option(spark), scala_option(spark, snapshot))


def append_rows(frame: DataFrame, path: str, record: Mapping[str, Any]) -> None:
    """Append rows and their commit record in one atomic commit; an empty frame still commits its record.

    By the command of Delta's writer, which checks the columns.
    """
    spark, text = frame.sparkSession, json.dumps(record, sort_keys=True)
    session, nothing = spark._jsparkSession, scala_option(spark)
    mapping = java_class(spark, "PythonUtils").toScalaMap
    options = java_class(spark, f"{tables.DELTA}.DeltaOptions")(
        mapping({"userMetadata": text}), session.sessionState().conf()
    )
    command = java_class(spark, f"{tables.DELTA}.commands.WriteIntoDelta")
    with active(spark):
        transaction = begin(spark, path)
        write = command(
            transaction.deltaLog(),
            _append_mode(spark),
            options,
            scala_seq(spark),
            mapping({}),
            frame._jdf,
            nothing,
            nothing,
            False,
        )
        written = write.writeAndReturnCommitData(transaction, session, nothing, False)
        transaction.commit(written.actions(), _write(spark, text))


def append_files(spark: SparkSession, path: str, added: Sequence[NewFile], record: Mapping[str, Any]) -> None:
    """Append the rows of files that lie in the table's folder and their commit record in one atomic commit."""
    now_ms = time.time_ns() // 1_000_000
    actions = [
        {
            "path": file.path,
            "size": file.size,
            "stats": file.stats,
            "partitionValues": {},
            "modificationTime": now_ms,
        }
        for file in added
    ]
    with active(spark):
        begin(spark, path).commit(
            parsed(spark, [{"add": action | {"dataChange": True}} for action in actions]),
            _write(spark, json.dumps(record, sort_keys=True)),
        )


def _write(spark: SparkSession, record: str) -> Any:
    """The operation that the table's history names."""
    nothing, unpartitioned = scala_option(spark), scala_option(spark, scala_seq(spark))
    operation = java_class(spark, f"{tables.DELTA}.DeltaOperations$Write")
    return operation(
        _append_mode(spark), unpartitioned, nothing, scala_option(spark, record), *(nothing for _ in range(5))
    )


def _append_mode(spark: SparkSession) -> Any:
    return java_class(spark, "org.apache.spark.sql.SaveMode").Append


def removal(name: str, size: int, now_ms: int, *, changes_data: bool) -> dict[str, Any]:
    """The action that takes a file out of a table. Without its size Delta would read all of the table's log again."""
    known = {"size": size, "partitionValues": {}, "extendedFileMetadata": True}
    return {
        "remove": {
            "path": quote(name),
            "deletionTimestamp": now_ms,
            "dataChange": changes_data,
            **known,
        }
    }


def parsed(spark: SparkSession, actions: Iterable[Mapping[str, Any]]) -> Any:
    """Actions as Delta's transactions take them, from JSON."""
    parse = scala_object(spark, f"{tables.DELTA}.actions.Action").fromJson
    return scala_seq(spark, *(parse(json.dumps(action)) for action in actions))


def say(spark: SparkSession, transaction: Any, numbers: Mapping[str, int]) -> None:
    """Let the table's history say these numbers of the commit that the transaction will make."""
    metrics = java_class(spark, "org.apache.spark.sql.execution.metric.SQLMetrics")
    said = {}
    for name, value in numbers.items():
        said[name] = metrics.createMetric(spark._jsparkSession.sparkContext(), name)
        said[name].set(value)
    transaction.registerSQLMetrics(spark._jsparkSession, java_class(spark, "PythonUtils").toScalaMap(said))


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
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
