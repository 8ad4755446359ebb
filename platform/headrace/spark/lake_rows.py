"""Rows between Spark and the lake: tasks write the files that a commit then names, and read the files of a snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from headrace import lake
from headrace.description import quote
from headrace.errors import TerminalError
from headrace.lake import NewFile
from headrace.lake.storage import is_local, spark_uri
from headrace.spark.frames import in_one_task, local_frame
from headrace.spark.one_task import REPORT, Target, arrow_schema, mapped
from headrace.spark.rows.varying import varying
from headrace.spark.workers import in_worker

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.lake import DataFile, LakeTable, TableWriter

FILES_MAX = 32  # read by name: Spark asks for the status of each,
LOCAL_FILES_MAX = 256  # which a local disk knows at once
ROWS_MAX = 100_000  # of one group of rows in a file


@dataclass(frozen=True)
class WriteRows:
    """The work of a task: it writes its rows to one file of a table, and reports the file."""

    target: Target

    @in_worker
    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """For `mapInArrow`: rows in, one report out (JSON; null: there were no rows)."""
        file = self.target.write(_joined(batches))
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(file)]})


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.Table]:
    """Batches put together, so that groups of rows are not too small."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_MAX:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def write_rows(frame: DataFrame, uri: str) -> list[NewFile]:
    """Write the rows of a frame into files of a table that no commit names yet, one for each task that has rows.

    In: frame  with columns of the table
    """
    work = WriteRows(Target(uri, arrow_schema(frame.schema)))
    reports = mapped(frame, work, frame.columns, REPORT).collect()
    found = (json.loads(row["report"]) for row in reports)
    return [NewFile(**file) for file in found if file is not None]


def append_rows(writer: TableWriter, frame: DataFrame, record: Mapping[str, Any]) -> int:
    """Append rows and their commit record in one commit; a frame without rows still commits its record.

    Raises: TerminalError when the frame has a column that the table lacks, or one of another type
    """
    _require_columns(frame, writer.uri)
    return writer.append(write_rows(frame, writer.uri), record)


def overwrite(writer: TableWriter, frame: DataFrame, record: Mapping[str, Any]) -> int:
    """Put rows in the place of all that the table holds, in one commit with its record."""
    _require_columns(frame, writer.uri)
    added = write_rows(frame, writer.uri)
    return writer.replace(lake.open_table(writer.uri).snapshot().files, added, record, changes_data=True)


def _require_columns(frame: DataFrame, uri: str) -> None:
    """A file whose columns differ would break the table for its readers."""
    known = {field.name: field.type for field in lake.open_table(uri).columns}
    given = {field.name: field.type for field in arrow_schema(frame.schema)}
    odd = [n for n, t in given.items() if n not in known or (not pa.types.is_nested(t) and known[n] != t)]
    if odd:
        raise TerminalError(
            f"The table at {uri} has other columns than the rows to be written.",
            detail=f"given: {', '.join(f'{n} {given[n]}' for n in odd)}",
            hint="Run `headrace apply`, which builds tables of the changed description, or restore the old one.",
        )


def rewrite(
    spark: SparkSession,
    writer: TableWriter,
    concerned: Column,
    record: Mapping[str, Any],
    changed: Mapping[str, Column] | None = None,
    more: Sequence[NewFile] = (),
) -> int:
    """Delete the rows that a condition concerns, or change columns of theirs, in one commit.

    Files without such rows stay; a file that has only such rows goes unread.

    In:  changed  new values of columns; None: the rows are deleted
         more     files with rows that the commit adds, if the condition concerns any
    Out: how many rows the condition concerned
    """
    table = lake.open_table(writer.uri)
    while True:
        snapshot = table.snapshot()
        if not snapshot.files:
            return 0
        rows = read_table(spark, writer.uri, snapshot.version)
        hits = F.coalesce(concerned, F.lit(False))
        # Not `input_file_name`: Spark reads a batch ahead of a condition in Python, so it would name a later file.
        placed = rows.select("*", F.col("_metadata.file_name").alias("__file"))
        counted = placed.where(hits).groupBy(F.col("__file").alias("name")).count().collect()
        found = {row["name"]: row["count"] for row in counted}
        if not found:
            return 0
        gone = {name: snapshot.files[name] for name in found}
        partly = [name for name, file in gone.items() if changed is not None or found[name] != file.rows]
        added: list[NewFile] = []
        if partly:
            kept = rows_of_files(spark, writer.uri, partly, rows.schema)
            added = write_rows(_changed(kept, hits, changed), writer.uri)
        try:
            writer.replace(gone, [*added, *more], record, changes_data=True)
        except lake.ConflictError:
            continue  # a compaction came first
        return sum(found.values())


def _changed(rows: DataFrame, hits: Column, changed: Mapping[str, Column] | None) -> DataFrame:
    if changed is None:
        return rows.where(~hits)
    marked, types = rows.withColumn("__hit", hits), rows.schema
    values = {
        name: F.when(F.col("__hit"), value.cast(types[name].dataType))
        .otherwise(F.col(quote(name)))
        .alias(name)
        for name, value in changed.items()
        if name in types.names
    }
    return marked.select(*(values.get(name, F.col(quote(name))) for name in rows.columns))


def read(spark: SparkSession, uri: str, version: int | None = None) -> DataFrame:
    """The table as of now, or as it was at a version, by Delta's own reader. Jobs of Spark find out the files."""
    reader = spark.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(spark_uri(uri))


def read_table(spark: SparkSession, uri: str, version: int | None = None) -> DataFrame:
    """The same rows; of a table with few files by the files that its snapshot names."""
    table = lake.open_table(uri)
    snapshot = table.snapshot() if version is None else table.snapshot_at(version)
    if snapshot is None or not _few(uri, snapshot.files):
        return read(spark, uri, version)
    return rows_of_files(spark, uri, snapshot.files, spark_schema(table))


def read_between(
    spark: SparkSession, table: LakeTable, schema: StructType, column: str, after: int, through: int | None
) -> DataFrame:
    """The rows where a column lies beyond `after` and not beyond `through` (None: no bound).

    In: column  a BIGINT or INT, or a TIMESTAMP with bounds in ms since 1970; files are left out by its statistics
    """
    is_time = schema[column].dataType.typeName() == "timestamp"
    scale = 1_000 if is_time else 1
    first, last = (after + 1) * scale, None if through is None else through * scale + scale - 1
    files = table.snapshot().within(column, first, last)
    value = F.unix_millis(column) if is_time else F.col(column)
    if not _few(table.uri, files):
        rows = read(spark, table.uri)
        rows = rows.where(F.col(column) > _literal(after, is_time=is_time))
        return rows if through is None else rows.where(F.col(column) <= _literal(through, is_time=is_time))
    rows = rows_of_files(spark, table.uri, files, schema)
    wholly = all(_lies_within(file, column, first, last) for file in files.values())
    if wholly:
        return rows
    kept = value > varying(after)
    return rows.where(kept if through is None else kept & (value <= varying(through)))


def _literal(value: int, *, is_time: bool) -> Column:
    """Delta leaves files out by literals alone."""
    return F.timestamp_millis(F.lit(value)) if is_time else F.lit(value)


def rows_of_files(spark: SparkSession, uri: str, names: Iterable[str], schema: StructType) -> DataFrame:
    """The rows of some files of a table, by their names; there may be none."""
    paths = [spark_uri(f"{uri}/{name}") for name in names]
    if not paths:
        return local_frame(spark, [], schema)
    return in_one_task(spark.read.schema(schema).option("__globPaths__", "false").parquet(*paths))


def spark_schema(table: LakeTable) -> StructType:
    """The columns of a table's newest version as Spark's types."""
    from pyspark.sql.types import StructType as Struct

    return Struct.fromJson(table.metadata.json_schema)


def _lies_within(file: DataFile, column: str, first: int, last: int | None) -> bool:
    lowest, highest = file.lowest.get(column), file.highest.get(column)
    if lowest is None or highest is None:
        return False
    return lowest >= first and (last is None or highest <= last)  # type: ignore[operator]


def _few(uri: str, files: Mapping[str, object]) -> bool:
    return len(files) <= (LOCAL_FILES_MAX if is_local(uri) else FILES_MAX)
