"""What Delta's MERGE does with rows by identity, in one task by Arrow, for tables that one task can read.

Delta joins the changes to the table twice, in three jobs or more, and reads its own log again behind each commit. Here the
files that hold a changed row are read once and written anew, with what the table's change feed wants to know.
Law: the table's rows, and those of its feed, are the ones to which MERGE leads.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import structlog
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description import quote
from headrace.lake.storage import local_path
from headrace.spark import tables
from headrace.spark.actions import active, begin, parsed, removal, say
from headrace.spark.jvm import scala_object, scala_option, scala_seq
from headrace.spark.keys import among
from headrace.spark.one_task import (
    CARRIED,
    COMPARED,
    ONE_TASK_BYTES,
    Target,
    Work,
    arrow_schema,
    report_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.spark.newest import File, Followed

logger = structlog.get_logger(__name__)
FEED, FEED_FOLDER = "delta.enableChangeDataFeed", "_change_data"
CHANGE = "_change_type"


def merge_files(
    table: Followed, changes: DataFrame, identity: Sequence[str], record: Mapping[str, Any]
) -> bool:
    """Update, insert or delete rows in one commit (see `merge.upsert`); False: nothing was done, it is Delta's turn.

    In: identity  columns that are never null
        changes   of them Spark computes all, and each identity has one row
    """
    spark, schema, path = changes.sparkSession, table.schema, table.path
    compared = all(isinstance(schema[name].dataType, COMPARED) for name in identity)
    if not path.startswith("file:") or tables.is_mapped(schema) or not compared or not _is_flat(schema):
        return False
    version, held = table.now()
    if sum(file.size for file in held.values()) > ONE_TASK_BYTES:
        return False
    rows = changes.select(*_flat(schema), F.col("__deleted"))
    target = Target(str(local_path(path)), arrow_schema(schema))
    fed = _has_feed(spark, path)
    report = report_of(rows, Merge(arrow_schema(rows.schema), target, (*held,), (*identity,), fed))
    if "uncertain" in report:
        logger.warning("merge left to Delta", table=path, reason=report["uncertain"])
        return False
    gone = {name: held[name] for name in report["gone"]}
    if not _commit(spark, path, version, gone, report, record):
        _discard(target, report)
        return False
    return True


def _is_flat(schema: T.StructType) -> bool:
    """Whether columns have fields, and these none."""
    within = [
        field
        for column in schema
        for field in (column.dataType if isinstance(column.dataType, T.StructType) else [column])
    ]
    return all(isinstance(field.dataType, CARRIED) for field in within)


def _flat(schema: T.StructType) -> Iterator[Column]:
    """Fields as columns: Arrow's Java library takes several times as long to write structs."""
    for column in schema:
        name = quote(column.name)
        if isinstance(column.dataType, T.StructType):
            yield F.col(name).isNotNull().alias(column.name)
            for field in column.dataType:
                yield F.col(f"{name}.{quote(field.name)}").alias(f"{column.name}:{field.name}")
        else:
            yield F.col(name)


def _has_feed(spark: SparkSession, path: str) -> bool:
    """Whether the table tells what each commit changed."""
    settings = tables.delta_log(spark, path).unsafeVolatileSnapshot().metadata().configuration()
    return bool(settings.contains(FEED) and settings.apply(FEED) == "true")


@dataclass(frozen=True)
class Merge(Work):
    """Puts changes in the place of rows.

    files  of the table, by name
    fed    whether the changes are told to readers of the table's feed
    """

    rows: pa.Schema
    table: Target
    files: tuple[str, ...]
    identity: tuple[str, ...]
    fed: bool

    def report(self, rows: pa.Table) -> dict[str, Any]:
        """The names of the files that are replaced, the file of all their rows, and that of the feed."""
        schema, deleted = self.table.schema, rows["__deleted"]
        changes = pa.table({field.name: _nested(rows, field) for field in schema}, schema)
        kept, before, gone = [], [], []
        for name in self.files:
            held = pq.ParquetFile(Path(self.table.folder) / name).read(columns=schema.names)
            held = held.select(schema.names).cast(schema)
            touched = among(self._key(held), self._key(changes))
            if touched.any():
                gone.append(name)
                kept.append(held.filter(pa.array(~touched)))
                before.append(held.filter(pa.array(touched)))
        there = changes.filter(pa.array(~deleted.to_numpy()))
        was = pa.concat_tables([schema.empty_table(), *before])
        known = among(self._key(there), self._key(was))
        updated = int(known.sum())
        found = {
            "gone": gone,
            "added": self.table.write([*kept, there]),
            "feed": None,
            "numbers": {
                "operationNumSourceRows": rows.num_rows,
                "numTargetRowsCopied": sum(each.num_rows for each in kept),
                "numTargetRowsUpdated": updated,
                "numTargetRowsDeleted": was.num_rows - updated,
                "numTargetRowsInserted": there.num_rows - updated,
            },
        }
        if self.fed:
            feed = Target(f"{self.table.folder}/{FEED_FOLDER}", schema.append(pa.field(CHANGE, pa.string())))
            Path(feed.folder).mkdir(exist_ok=True)
            found["feed"] = feed.write([*self._told(was, there, known)])
        return found

    def _told(self, was: pa.Table, now: pa.Table, known: np.ndarray) -> Iterator[pa.Table]:
        """The rows of the feed: of what was, and of what is now, of which some were `known`."""
        stays = among(self._key(was), self._key(now))
        for rows, mask, yes, no in (
            (was, stays, "update_preimage", "delete"),
            (now, known, "update_postimage", "insert"),
        ):
            yield rows.append_column(CHANGE, pa.array(np.where(mask, yes, no), pa.string()))

    def _key(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        return [rows[name] for name in self.identity]


def _nested(rows: pa.Table, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    """A column of the table, made of those that `_flat` gives."""
    if not pa.types.is_struct(field.type):
        return rows[field.name].cast(field.type)
    parts = [rows[f"{field.name}:{part.name}"].cast(part.type).combine_chunks() for part in field.type]
    there = rows[field.name].combine_chunks()
    parts = [part.chunk(0) if isinstance(part, pa.ChunkedArray) else part for part in parts]
    return pa.StructArray.from_arrays(parts, fields=[*field.type], mask=pa.compute.invert(there))


def _commit(
    spark: SparkSession,
    path: str,
    version: int,
    gone: Mapping[str, File],
    report: Mapping[str, Any],
    record: Mapping[str, Any],
) -> bool:
    """False: others committed since the files were looked at."""
    now_ms = time.time_ns() // 1_000_000
    known = {"partitionValues": {}, "dataChange": True}
    actions = [removal(name, file.size, now_ms, changes_data=True) for name, file in gone.items()]
    if report["added"] is not None:
        actions.append({"add": known | {"modificationTime": now_ms} | report["added"]})
    if report["feed"] is not None:
        of_feed = {"path": f"{FEED_FOLDER}/{report['feed']['path']}", "size": report["feed"]["size"]}
        actions.append({"cdc": known | of_feed | {"dataChange": False}})
    nothing, empty = scala_option(spark), scala_seq(spark)
    merge = scala_object(spark, f"{tables.DELTA}.DeltaOperations$Merge")
    with active(spark), tables.commit_record(spark, record):
        transaction = begin(spark, path)
        if int(transaction.snapshot().version()) != version:
            return False
        say(spark, transaction, report["numbers"])
        transaction.commit(parsed(spark, actions), merge.apply(nothing, empty, empty, empty))
    return True


def _discard(target: Target, report: Mapping[str, Any]) -> None:
    for name, folder in (("added", ""), ("feed", FEED_FOLDER)):
        if report[name] is not None:
            (Path(target.folder) / folder / report[name]["path"]).unlink()
