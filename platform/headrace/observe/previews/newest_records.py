"""The newest records of a topic, put into a lake of their own: to be looked at, and to be folded by themselves.

In the copy stands what the log holds of its last commits: ticks and control rows, too. So windows close in it where they
close in the log. Older records are missing, and with them what they would have added. Topics of Kafka are complete from
their first commit on: no lookup waits for what is not copied.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace import lake as lakes
from headrace.changing.comparing.compare_topics import compare_topic
from headrace.changing.plan_topics import plan_topic
from headrace.description import is_of_kafka
from headrace.engine.slices.log_slices import INGESTED_AT, LogSlice
from headrace.errors import TerminalError
from headrace.lake import kinds
from headrace.lake.files.sorted_rows import all_rows
from headrace.lifecycle.log_repair.fill_columns import cast_values
from headrace.log.clock import SystemClock
from headrace.log.commit_row import CommitRow
from headrace.log.decision_rows import LogFolder, write_rows
from headrace.log.sequencer import Sequencer
from headrace.nodes.descriptions.evolution import REFUSED
from headrace.sequence.log_columns import COMPLETE, CONTROL, DEAD_LETTER, RECORD, SKIPPING, log_schema
from headrace.spark.brokers.kafka_client import KafkaReader
from headrace.spark.kafka import BrokerUnreachableError, KafkaTopic
from headrace.spark.one_task import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from headrace.description import Topic
    from headrace.lake import Commit
    from headrace.lake.paths import Lake
    from headrace.spark.kafka import KafkaSettings

FILES_FIRST = 16  # of a log, that are looked at first


def copy_newest(
    spark: SparkSession, topic: Topic, records: int, source: Lake, target: Lake, kafka: KafkaSettings
) -> int:
    """Put the newest records of a topic into another lake: from its log, or from Kafka if it has none.

    In:     records  how many of the log; of Kafka, of each partition
    Out:    commit time of the last log commit in the copy, in ms; 0: there is none
    Raises: TerminalError when the topic has no log, and Kafka does not answer or has no such topic; or when `headrace apply`
            would not write its log again under the columns that the topic has now
    """
    table = lakes.open_table(source.log(topic.name))
    last = lakes.last_commit(table, _writer(topic)) if table.exists else None
    if last is None:
        return _from_kafka(spark, topic, records, source, target, kafka)
    plan = plan_topic(source, topic, kafka)
    if plan.outcome == REFUSED or plan.from_bytes or plan.from_kafka:
        raise TerminalError(
            f"Topic '{topic.name}': its log has no records under this description.",
            detail=plan.detail or "; ".join(plan.lines),
            hint=plan.way_out or "Run headrace apply, which reads them anew.",
        )
    changes = compare_topic(table, topic)
    filled = cast_values(spark, topic, changes.filled)
    return _from_log(topic, records, source, target, last, _OtherColumns(changes.renamed or {}, filled))


@dataclass(frozen=True)
class _OtherColumns:
    """The columns of a topic's value that its log does not have yet, as `rewrite_log` writes them.

    renamed  new names to former ones
    filled   the values of new columns; others are null
    """

    renamed: Mapping[str, str]
    filled: Mapping[str, pa.Scalar]

    def before(self, schema: pa.Schema) -> pa.Schema:
        """The schema by the names that the log has."""
        at = schema.get_field_index("value")
        fields = [
            field.with_name(self.renamed.get(field.name, field.name)) for field in schema.field(at).type
        ]
        return schema.set(at, schema.field(at).with_type(pa.struct(fields)))

    def of(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows under the names of the schema."""
        at = schema.get_field_index("value")
        value, fields = rows["value"].combine_chunks(), [*schema.field(at).type]
        if not fields or not rows.num_rows:
            return rows.cast(schema)
        parts = [
            pa.repeat(self.filled[field.name].cast(field.type), len(value))
            if field.name in self.filled
            else part
            for field, part in zip(fields, value.flatten(), strict=True)
        ]
        made = pa.StructArray.from_arrays(parts, fields=fields, mask=value.is_null())
        return rows.set_column(at, schema.field(at), made)


def _from_log(
    topic: Topic, records: int, source: Lake, target: Lake, last: Commit, other: _OtherColumns
) -> int:
    uri, through_ms = source.log(topic.name), int(last.record["ingested_at_ms"])
    after_ms = _beginning(uri, through_ms, records)
    schema = arrow_schema(log_schema(topic))
    part = LogSlice.of(uri, after_ms, through_ms)
    before = other.before(schema)
    read = all_rows([f"{uri}/{name}" for name in part.files], before)
    rows = pa.concat_tables([before.empty_table(), *(each.filter(part.within(each)) for each in read)])
    rows = other.of(rows, schema)
    is_record = pc.is_in(rows["kind"], value_set=pa.array([RECORD, DEAD_LETTER]))
    newest = [(name, "descending") for name in (INGESTED_AT, "partition", "offset")]
    kept = [rows.filter(pc.invert(is_record)), rows.filter(is_record).sort_by(newest).slice(0, records)]
    _write(topic, target.log(topic.name), _complete(pa.concat_tables(kept), topic), schema, last)
    return through_ms


def _write(topic: Topic, uri: str, rows: pa.Table, schema: pa.Schema, last: Commit) -> None:
    """Make a log of these rows, which ends where the other one does."""
    table = lakes.create(uri, schema, kinds.log(SKIPPING), grows="value")
    files = []
    for kind in pc.unique(rows["kind"]).to_pylist():
        some = rows.filter(pc.equal(rows["kind"], kind)).combine_chunks()
        columns = {name: some[name] for name in some.column_names}
        files.append(write_rows(LogFolder(uri, schema), kind, columns, some.num_rows))
    names = ("ingested_at_ms", "after")
    record = {name: last.record[name] for name in names if name in last.record}
    lakes.TableWriter(table, lakes.APPENDER).append(files, {"writer": _writer(topic), **record})


def _complete(rows: pa.Table, topic: Topic) -> pa.Table:
    """The rows, with one in their first commit that says that the topic is complete."""
    if not rows.num_rows or not is_of_kafka(topic):
        return rows
    said = json.dumps({"action": COMPLETE})
    row = {"kind": CONTROL, "topic": topic.name, "partition": 0, "replay": False, "control": said}
    first = pc.min(rows[INGESTED_AT]).as_py()
    return pa.concat_tables([rows, pa.Table.from_pylist([row | {INGESTED_AT: first}], rows.schema)])


def _beginning(uri: str, through_ms: int, records: int) -> int:
    """The commit time after which a log has so many records, at least, or all that it has; files tell, the newest first."""
    files = lakes.open_table(uri).snapshot().files.values()
    starts = sorted((int(file.lowest.get(INGESTED_AT, 0)) // 1_000 for file in files), reverse=True)
    looked = FILES_FIRST
    while looked < len(starts):
        after_ms, found = starts[looked - 1] - 1, 0
        for at_ms, said in reversed(LogSlice.of(uri, after_ms, through_ms).commit_rows()):
            found += CommitRow.from_json(said).records
            if found >= records:
                return at_ms - 1
        looked *= 4
    return 0


def _from_kafka(
    spark: SparkSession, topic: Topic, records: int, source: Lake, target: Lake, settings: KafkaSettings
) -> int:
    kafka = KafkaTopic.of(topic, settings)
    try:
        partitions = kafka.partitions()
        first, ends = kafka.earliest(partitions), kafka.ends(partitions)
    except (BrokerUnreachableError, TerminalError) as error:
        raise TerminalError(
            f"Topic '{topic.name}': there is no log of it in {source.root}, and it cannot be read from Kafka.",
            detail=str(error),
            hint="Set HEADRACE_LAKE to the lake that has its log, or HEADRACE_KAFKA_BOOTSTRAP_SERVERS to a broker.",
        ) from error
    offsets = {p: (max(first[p], ends[p] - records), ends[p] - 1) for p in partitions if ends[p] > first[p]}
    sequencer = Sequencer(spark, topic, target.log(topic.name), SystemClock())
    sequencer.read_first_to({})
    if offsets:
        sequencer.append(KafkaReader.of(topic, settings).read(offsets), in_order=True)
    return sequencer.state.ingested_at_ms


def _writer(topic: Topic) -> str:
    return f"log/{topic.name}"
