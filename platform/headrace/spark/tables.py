"""Delta tables by path: create, append with our commit record, find the last record.

A *commit record* is a small JSON document kept in Delta's `userMetadata`. It is atomic with the rows that it
describes and costs nothing to write; Delta's own transaction identifiers cost 0.4 s a commit (see docs).
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headrace.description.schema import quote
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.spark.jvm import java_class, scala_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Row, SparkSession

DELTA = "org.apache.spark.sql.delta"
# Checkpoints are written beside the commits (`runtime.checkpoints`). Where nobody does, Delta writes them in commits.
# Commits are kept as long as Delta keeps files that left the newest version, which is the least that it allows.
# A commit a second makes millions in the thirty days of its own, and it lists all of them for whoever opens the table.
PROPERTIES = {"delta.checkpointInterval": "2000", "delta.logRetentionDuration": "interval 7 days"}
# Parquet cannot hold these in a column's name; where a user's column has one, Delta maps names to ids.
NOT_IN_PARQUET = frozenset(" ,;{}()\n\t=")
OF_PROTOCOL = (
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.feature.",
    "delta.columnMapping.maxColumnId",
)
MAPPED_NAMES = {"delta.columnMapping.mode": "name"}

_ONE_RECORD_AT_A_TIME = threading.Lock()
_SEEN: dict[str, int] = {}  # the newest version of each table at the last look


@dataclass(frozen=True)
class Commit:
    """One commit of ours: the table's version and the record it carried."""

    version: int
    record: Mapping[str, Any]


def forget(spark: SparkSession) -> None:
    """Let Delta forget every table that it has read in this JVM, and this module too; they are read anew when asked for."""
    java_class(spark, f"{DELTA}.DeltaLog").clearCache()
    _SEEN.clear()


def exists(spark: SparkSession, path: str) -> bool:
    """Whether a Delta table stands at this path."""
    return latest_version(spark, path) >= 0


def create(
    spark: SparkSession,
    path: str,
    schema: StructType,
    properties: Mapping[str, str] | None = None,
    *,
    grows: str | None = None,
) -> None:
    """Create an empty table if there is none; an existing table must have these columns and types.

    In: grows  a struct column to which fields may have been added since; older rows have nulls there
    """
    if exists(spark, path):
        found = read(spark, path).schema
        if grows is not None:
            _add_fields(spark, path, found, schema, grows)
            found = read(spark, path).schema
        _require_same_columns(path, found, schema)
        return
    builder = DeltaTable.createIfNotExists(spark).location(path).addColumns(schema)
    mapped = MAPPED_NAMES if is_mapped(schema) else {}
    for key, value in (PROPERTIES | mapped | dict(properties or {})).items():
        builder = builder.property(key, value)
    builder.execute()


def _names(data_type: DataType) -> Iterator[str]:
    """The names of all fields, however deep they lie."""
    match data_type:
        case StructType():
            for field in data_type.fields:
                yield field.name
                yield from _names(field.dataType)
        case ArrayType():
            yield from _names(data_type.elementType)
        case MapType():
            yield from _names(data_type.keyType)
            yield from _names(data_type.valueType)


def _add_fields(spark: SparkSession, path: str, found: StructType, wanted: StructType, column: str) -> None:
    """Add the fields of a struct column that the table lacks, each in its place."""
    has, needs = found[column].dataType, wanted[column].dataType
    assert isinstance(has, StructType)
    assert isinstance(needs, StructType)
    if is_mapped(wanted) and not is_mapped(found):
        return
    for number, field in enumerate(needs.fields):
        if field.name not in has.names:
            place = f"AFTER {quote(needs.names[number - 1])}" if number else "FIRST"
            name = f"{quote(column)}.{quote(field.name)}"
            spark.sql(
                f"ALTER TABLE delta.{quote(path)} ADD COLUMNS ({name} {field.dataType.simpleString()} {place})"
            )


def _require_same_columns(path: str, found: StructType, wanted: StructType) -> None:
    found_types = {field.name: field.dataType.simpleString() for field in found}
    wanted_types = {field.name: field.dataType.simpleString() for field in wanted}
    if found_types == wanted_types:
        return
    changed = sorted(
        n for n in found_types.keys() | wanted_types.keys() if found_types.get(n) != wanted_types.get(n)
    )
    listing = "; ".join(
        f"{n}: {found_types.get(n, 'absent')} -> {wanted_types.get(n, 'absent')}" for n in changed
    )
    raise TerminalError(
        f"The table at {path} has other columns than the description.",
        detail=f"stored -> described: {listing}",
        hint="Give the changed description a new name, or restore the old one.",
    )


def read(spark: SparkSession, path: str, version: int | None = None) -> DataFrame:
    """The table as of now, or as it was at a version."""
    reader = spark.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(path)


def is_mapped(schema: StructType) -> bool:
    """Whether the columns have other names in the files than in the table."""
    return any(NOT_IN_PARQUET & set(name) for name in _names(schema))


def overwrite(frame: DataFrame, path: str, record: Mapping[str, Any]) -> None:
    """Put rows in place of all that the table holds, in one commit with its record."""
    text = json.dumps(record, sort_keys=True)
    frame.write.format("delta").mode("overwrite").option("userMetadata", text).save(path)


@contextmanager
def rewritable(spark: SparkSession, path: str) -> Iterator[None]:
    """Let the commits made inside change rows of a table that else is only appended to."""
    _alter(spark, path, append_only=False)
    try:
        yield
    finally:
        _alter(spark, path, append_only=True)


def _alter(spark: SparkSession, path: str, *, append_only: bool) -> None:
    spark.sql(
        f"ALTER TABLE delta.{quote(path)} SET TBLPROPERTIES ('delta.appendOnly' = '{str(append_only).lower()}')"
    )


def replace(spark: SparkSession, source: str, target: str, record: Mapping[str, Any]) -> None:
    """Put a table's rows, columns and properties in the place of another's, in one commit with a record.

    The versions before stay readable; a table that is not there is created.
    """
    kept = spark.sql(f"SHOW TBLPROPERTIES delta.{quote(source)}").collect()
    writer = read(spark, source).writeTo(f"delta.{quote(target)}").using("delta")
    for key, value in ((row["key"], row["value"]) for row in kept):
        if key.startswith("delta.") and not key.startswith(OF_PROTOCOL):
            writer = writer.tableProperty(key, value)
    with commit_record(spark, record):
        writer.createOrReplace()


@contextmanager
def commit_record(spark: SparkSession, record: Mapping[str, Any]) -> Iterator[None]:
    """Give the commits made inside (MERGE, DELETE, OPTIMIZE: they take no option) this record.

    Law: one at a time in a process. The record is a setting of the session, which the queries of a stream run share:
    two at once would sign each other's commits.
    """
    key = "spark.databricks.delta.commitInfo.userMetadata"
    with _ONE_RECORD_AT_A_TIME:
        spark.conf.set(key, json.dumps(record, sort_keys=True))
        try:
            yield
        finally:
            spark.conf.unset(key)


def last_commit(spark: SparkSession, path: str, writer: str, *, through: int | None = None) -> Commit | None:
    """The newest commit, through a version, whose record names this writer; None if the table has none.

    Reads the commit files of the Delta log (public protocol) from the newest backwards: a few milliseconds,
    while `DeltaTable.history` launches a Spark job. A commit of maintenance repeats what was the last one before
    it (see `carried`), so the history may be cleaned behind it.
    """
    known: Mapping[str, Any] | None = None
    for version, record in _records(spark, path, latest_version(spark, path) if through is None else through):
        if record is not None and record.get("writer") == writer:
            return Commit(version, record)
        known = known or _carried_for(record or {}, writer)
        if known is not None and known["as_of"] >= version - 1:
            last = known["last"][writer]
            return None if last is None else Commit(last["version"], last["record"])
    return None


def carried(spark: SparkSession, path: str, writers: Sequence[str]) -> dict[str, Any]:
    """What the record of a commit by none of these writers says, so that theirs are found behind it.

    Out: `carried`: the last commit of each writer as of a version. What was committed after that version, and before the
         commit that carries this, is not in it: who looks for a record reads those commits too.
    """
    as_of = latest_version(spark, path)
    found = {writer: last_commit(spark, path, writer, through=as_of) for writer in writers}
    last = {
        w: None if c is None else {"version": c.version, "record": dict(c.record)} for w, c in found.items()
    }
    return {"carried": {"as_of": as_of, "last": last}}


def _carried_for(record: Mapping[str, Any], writer: str) -> Mapping[str, Any] | None:
    known: Mapping[str, Any] | None = record.get("carried")
    return known if known is not None and writer in known["last"] else None


def _records(spark: SparkSession, path: str, through: int) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    for version in range(through, -1, -1):
        yield version, record_of(_actions(spark, path, version))


def _actions(spark: SparkSession, path: str, version: int) -> list[Mapping[str, Any]]:
    """What one commit did, by the protocol of Delta."""
    actions = found_actions(spark, path, version)
    if actions is None:
        raise TerminalError(
            f"The table at {path} has lost the history that names its last commit (version {version}).",
            hint="Rebuild it from the log, or restore the table's _delta_log from a backup.",
        )
    return actions


def found_actions(spark: SparkSession, path: str, version: int) -> list[Mapping[str, Any]] | None:
    """The same; None when Delta has cleaned its history as far as that."""
    text = small_files.read_text(_commit_file(path, version))
    return None if text is None else [json.loads(line) for line in text.splitlines()]


def record_of(actions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The commit record among the actions of a commit; None: it has none of ours."""
    for action in actions:
        if "commitInfo" in action:
            metadata = action["commitInfo"].get("userMetadata")
            try:
                record = json.loads(metadata) if metadata else None
            except ValueError:
                return None
            return record if isinstance(record, dict) else None
    return None


def files_of(spark: SparkSession, path: str) -> tuple[int, list[Row]]:
    """The table's newest version, and its files: `path` as commits name it, `size` in bytes, Delta's `stats` (JSON)."""
    snapshot = newest_snapshot(spark, path)
    listed = DataFrame(snapshot.allFiles().toDF(), spark).select("path", "size", "stats")
    return int(snapshot.version()), listed.collect()


def latest_version(spark: SparkSession, path: str) -> int:
    """The table's newest version; -1 when there is no table.

    Delta lists all commits that it keeps. Here those since the last look are looked for by name, unless the one that was the
    newest then is gone: its history was cleaned, or another table stands there.
    """
    version = _SEEN.get(path, -1)
    if not _is_there(spark, path, version):
        version = int(newest_snapshot(spark, path).version())
    else:
        while _is_there(spark, path, version + 1):
            version += 1
    _SEEN[path] = version
    return version


def commits_since_checkpoint(spark: SparkSession, path: str) -> int:
    """How many small files whoever opens the table has to read; none where there is no table."""
    last = small_files.read_json(f"{path}/_delta_log/_last_checkpoint")
    return latest_version(spark, path) - (0 if last is None else int(last["version"]))


def _commit_file(path: str, version: int) -> str:
    return f"{path}/_delta_log/{version:020d}.json"


def _is_there(spark: SparkSession, path: str, version: int) -> bool:
    return version >= 0 and small_files.exists(_commit_file(path, version))


def delta_log(spark: SparkSession, path: str) -> Any:
    """Delta's own view of the table, one for all of this process."""
    return java_class(spark, f"{DELTA}.DeltaLog").forTable(spark._jsparkSession, path)


def newest_snapshot(spark: SparkSession, path: str) -> Any:
    """Delta's snapshot of the newest version.

    Delta lists all commits that it keeps to find out whether it has it: a tenth of a second for a few thousand. Here the
    commit after the one that it has is looked for by name.
    """
    log = delta_log(spark, path)
    known = log.unsafeVolatileSnapshot()
    version = int(known.version())
    if _is_there(spark, path, version) and not _is_there(spark, path, version + 1):
        return known
    return log.update(False, scala_option(spark), scala_option(spark))
