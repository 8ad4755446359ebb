"""A topic's log, made anew from the bytes of its records (see `log.history.resequence`): those that it keeps, or Kafka's.

Law: the log is the one that the described topic would have had from the beginning, at the same commit times. Nodes that read
it have another fingerprint then. So no stream takes their tables for those of the new log: `headrace apply` rebuilds them.

Erased rows have no bytes, and Kafka may still have theirs. A log with erased rows is not made anew: no erased key returns.

Nothing may write meanwhile. The rows are written beside the log and put in its place in one commit; a crash before it leaves
the log as it was. The log is fenced before it is read, so that commit is refused if somebody has appended or erased since.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake import NewFile, kinds, small_files
from headrace.lake.care.alter import rewritable
from headrace.lake.care.swap import replace_table
from headrace.lake.files.data_file import DataFileWriter
from headrace.lifecycle.log_repair.kafka_holds import WAY_OUT
from headrace.lifecycle.log_repair.read_kafka_again import KafkaAgain
from headrace.lifecycle.log_repair.rereadable_rows import why_not_reread
from headrace.log.decision_rows import ENCODING
from headrace.log.decisions.guard import GuardStore
from headrace.log.history.filled_columns import noting
from headrace.log.history.raw_records import kept_by
from headrace.log.history.resequence import Resequencer
from headrace.log.schema_store import SchemaStore
from headrace.log.site import Site
from headrace.nodes.descriptions.topics import names_of, nodes_below
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_columns import DEAD_LETTER, RECORD, SKIPPING
from headrace.spark.lake_rows import read
from headrace.spark.session import pipeline_session
from headrace.writing.leases.lease import require_leases
from headrace.writing.leases.lease_waits import nothing_writes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import DataFrame

    from headrace.description import Node, Topic
    from headrace.lake import LakeTable
    from headrace.settings.kafka import KafkaSettings

ROWS_MAX = 200_000  # that are read, and written to one file, at once; whole commits
BYTES_MAX = 256 << 20  # of their keys and values, as Kafka had them
GROUP_BYTES = (
    32 << 20
)  # of rows that are written at once; compressed records may hold far more than they take


def remake_log(
    site: Site,
    topic: Topic,
    nodes: Sequence[Node],
    *,
    kafka: KafkaSettings | None = None,
    rows_max: int = ROWS_MAX,
) -> None:
    """Put the log of the topic as described in the place of the one that the lake has.

    In:     nodes    all of the pipeline
            kafka    reads the records from Kafka; None: the log has their bytes
    Raises: LeaseTakenError while a stream, backfill, rebuild or maintenance of these tables runs;
            TerminalError, before anything is changed, when rows were erased, or have no bytes, or Kafka lacks their records
    """
    spark, lake, clock, on_step = pipeline_session(site.spark), site.lake, site.clock, site.on_step
    uri, beside = lake.log(topic.name), lake.log_scratch(topic.name)
    with nothing_writes(spark, lake, topic, names_of(nodes_below(topic, nodes)), clock) as leases:
        _require_readable(lakes.open_table(uri), topic, from_kafka=kafka is not None)
        small_files.delete(beside)
        lakes.forget(beside)
        log, writer = lakes.open_table(uri), f"log/{topic.name}"
        appender = lakes.TableWriter(log, lakes.APPENDER, carries=[writer])  # before any row is read
        maintainer = lakes.TableWriter(log, lakes.MAINTAINER, carries=[writer])
        store = SchemaStore(uri, topic)

        def learn(asked: Collection[tuple[str, int]]) -> RecordFormat:
            store.learn(asked)
            return RecordFormat.of(topic, store.known)

        anew = Resequencer(RecordFormat.of(topic, store.known), learn if store.asks else None)
        made = lakes.create(beside, anew.schema, kinds.log(SKIPPING))
        again = None if kafka is None else KafkaAgain(topic, kafka)
        files = [*_files(read(spark, uri, log.version), anew, topic, beside, rows_max, again)]
        lakes.TableWriter(made, lakes.APPENDER).append(files, {"writer": "anew"})
        on_step("after rows")
        after = {"ingested_at_ms": anew.state.ingested_at_ms, "after": anew.state.to_json()}
        record = {"writer": writer, **after, **GuardStore(uri).entry(anew.guard)}
        signed = {**lakes.carried(log, [writer]), "writer": f"anew/{writer}"}
        with rewritable(maintainer, signed):
            require_leases(leases.values())
            # Columns hold what the records bring now, also those that had other values in older records.
            replace_table(appender, made, record, other_role=maintainer, remarks=noting({}))
    small_files.delete(beside)
    lakes.forget(beside)


def _require_readable(log: LakeTable, topic: Topic, *, from_kafka: bool) -> None:
    """Refuse a log of which a record has no bytes, or must not be read."""
    if why := why_not_reread(log, from_kafka=from_kafka):
        raise TerminalError(
            f"Topic '{topic.name}': its log cannot be made again from the bytes of its records.",
            detail=f"{why}.",
            hint=WAY_OUT,
        )


def _files(
    log: DataFrame,
    resequencer: Resequencer,
    topic: Topic,
    folder: str,
    rows_max: int,
    again: KafkaAgain | None,
) -> Iterator[NewFile]:
    """The files of the new log, each of whole commits in order. In: again  None: the rows have the bytes."""
    kept = kept_by(topic)
    sizes = F.count("*").alias("rows"), F.coalesce(F.sum("size_bytes"), F.lit(0)).alias("bytes")
    commits = log.groupBy(F.unix_micros("ingested_at").alias("at")).agg(*sizes).orderBy("at").collect()
    for first, last in stretches_of([(row["at"], row["rows"], row["bytes"]) for row in commits], rows_max):
        at = F.unix_micros("ingested_at")
        between = (F.col("ingested_at") >= F.timestamp_micros(F.lit(first))) & (
            F.col("ingested_at") <= F.timestamp_micros(F.lit(last))
        )
        rows = log.where(between).withColumn("__at", at).orderBy("__at", "partition", "offset").toArrow()
        yield from _written(_commits(rows, resequencer, kept, again), resequencer.schema, folder)


def stretches_of(
    commits: Sequence[tuple[int, int, int]], rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX
) -> Iterator[tuple[int, int]]:
    """The first and the last commit time of stretches, each of which ends with the commit that fills it.

    In: commits  the time of each, its rows and their bytes
    """
    first, rows, size = None, 0, 0
    for number, (at, more_rows, more_bytes) in enumerate(commits):
        first, rows, size = at if first is None else first, rows + more_rows, size + more_bytes
        if rows >= rows_max or size >= bytes_max or number == len(commits) - 1:
            yield first, at
            first, rows, size = None, 0, 0


def _commits(
    rows: pa.Table, resequencer: Resequencer, kept: Mapping[str, Any], again: KafkaAgain | None
) -> Iterator[pa.Table]:
    """Commit by commit, made anew. In: rows  by commit time, partition and offset."""
    times = rows["__at"].to_numpy()
    is_record = np.isin(rows["kind"].to_numpy(zero_copy_only=False), (RECORD, DEAD_LETTER))
    upto = np.concatenate([[0], np.cumsum(is_record)])  # records before each row
    delivered = None if again is None else again.delivered(rows.filter(pa.array(is_record)))
    begins = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist()]
    for begin, end in zip(begins, [*begins[1:], len(times)], strict=True):
        of_it = None if delivered is None else delivered.slice(upto[begin], upto[end] - upto[begin])
        yield from resequencer.take(rows.slice(begin, end - begin).combine_chunks(), kept, of_it)


def _written(tables: Iterator[pa.Table], schema: pa.Schema, folder: str) -> Iterator[NewFile]:
    """One file with these rows."""
    file = DataFileWriter(folder, schema, ENCODING)
    try:
        for rows in _joined(tables):
            columns = {name: rows[name].combine_chunks() for name in rows.column_names}
            file.write(columns, rows.num_rows)
            file.bound_numbers({name: columns[name] for name in SKIPPING if name != "kind"})
            kinds_of = sorted(set(columns["kind"].unique().to_pylist()))
            file.bound_by("kind", kinds_of[0], kinds_of[-1])
    except BaseException:
        file.remove()
        raise
    report = file.close()
    if report is not None:
        yield NewFile(**report)


def _joined(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in fewer tables, each a group of rows in the file."""
    waiting, size = list[pa.Table](), 0
    for table in tables:
        waiting.append(table)
        size += table.nbytes
        if size >= GROUP_BYTES:
            yield pa.concat_tables(waiting)
            waiting, size = [], 0
    if sum(table.num_rows for table in waiting):
        yield pa.concat_tables(waiting)
