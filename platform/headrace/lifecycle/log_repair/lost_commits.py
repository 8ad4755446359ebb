"""The commits that a log has lost, made again of what Kafka still has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.lifecycle.log_repair.guard_at_gap import GuardAtGap
from headrace.lifecycle.log_repair.read_kafka_again import KafkaAgain
from headrace.log.commit_row import CommitRow, write_commit_row
from headrace.log.decision_rows import Decision, LogFolder, write_decisions
from headrace.log.decisions.control import control_rows
from headrace.log.decisions.moves import completion, idleness
from headrace.log.decisions.resets import resets_in, since_last_reset
from headrace.log.record_writer import RecordWriter
from headrace.sequence.log_columns import COMPLETE, CONTROL, IDLE, log_schema
from headrace.sequence.log_state import LastRow, PartitionState
from headrace.spark.brokers.kafka_client import KafkaReader
from headrace.spark.brokers.kafka_ranges import KafkaRanges
from headrace.spark.kafka import KafkaTopic
from headrace.spark.lake_rows import read
from headrace.spark.one_task import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from headrace.description import Topic
    from headrace.lake import NewFile
    from headrace.lake.paths import Lake
    from headrace.log.history.chain import Gap
    from headrace.log.record_writer import Records, WrittenRecords
    from headrace.sequence.log_state import LogState
    from headrace.sequence.replays.guards import Guard
    from headrace.spark.kafka import KafkaSettings


class LostCommits:
    """Sequences the records of a gap again, as the log stood there."""

    def __init__(self, spark: SparkSession, lake: Lake, topic: Topic, kafka: KafkaSettings) -> None:
        """Nothing is read yet."""
        self._spark, self._topic, self._path = spark, topic, lake.log(topic.name)
        self._settings, self._kafka = kafka, KafkaTopic.of(topic, kafka)
        self._schema = arrow_schema(log_schema(topic))

    def from_kafka(self, gap: Gap) -> tuple[list[NewFile], int]:
        """Files of the commits that are gone; the first of them gets all records."""
        before, files, records = gap.before.after, [], 0
        times = _commit_times(gap)
        after = before.after(times[0], [])
        if gap.offsets:
            written = self._resequence(gap, before, times[0])
            files, records = list(written.files), written.records
            after = before.after(times[0], written.ends)
        ends = {
            p: replace(after.partitions[p], next_offset=offset)
            if p in after.partitions
            else PartitionState(offset)
            for p, offset in gap.later.previous.items()
        }
        after = replace(after, partitions={**after.partitions, **ends})
        if self._was_completed(gap):
            files.append(self._decided(after, completion(after)))
            after = after.completed()
        if self._was_idle(gap, after):
            files.append(self._decided(after, idleness(after)))
            after = replace(after, idle=True)
        previous = gap.before.next
        for number, at_ms in enumerate(times):
            row = CommitRow(
                after if number == 0 else after.after(at_ms, []), previous, 0 if number else records
            )
            files.append(write_commit_row(self._path, self._schema, self._topic.name, row))
            previous, after = row.next, row.after
        return files, records

    def _was_completed(self, gap: Gap) -> bool:
        """Whether a commit that is gone said that the log is complete."""
        if gap.before.after.complete or not gap.later.after.complete:
            return False
        return not control_rows(read(self._spark, self._path), COMPLETE)

    def _was_idle(self, gap: Gap, after: LogState) -> bool:
        """Whether a commit that is gone said that the topic is idle."""
        later = gap.later.after
        if after.idle or not later.idle:
            return False
        return later.ingested_at_ms not in {ms for ms, _ in control_rows(read(self._spark, self._path), IDLE)}

    def _decided(self, after: LogState, entries: Mapping[LastRow, str | None]) -> NewFile:
        rows = [Decision(row.partition, row.stream_ms, entry) for row, entry in entries.items()]
        name, at_ms = self._topic.name, after.ingested_at_ms
        return write_decisions(LogFolder(self._path, self._schema), name, CONTROL, at_ms, rows)

    def _resequence(self, gap: Gap, before: LogState, at_ms: int) -> WrittenRecords:
        work, guard = RecordWriter(self._topic, self._path, self._schema), self._guard_at(gap.after_ms)
        return work.write(self._records(gap.offsets), before, guard, at_ms)

    def _records(self, offsets: Mapping[int, tuple[int, int]]) -> Records:
        return KafkaRanges(self._spark, KafkaReader.of(self._topic, self._settings), offsets)

    def _guard_at(self, at_ms: int) -> Guard | None:
        """The replay guard as it was after a commit."""
        log = read(self._spark, self._path).where(F.col("ingested_at") <= F.timestamp_millis(F.lit(at_ms)))
        guard = GuardAtGap(self._topic, self._path, self._still_in_kafka)
        return guard.after(log.where(since_last_reset(resets_in(log))))

    def _still_in_kafka(self, offsets: Mapping[int, tuple[int, int]]) -> pa.Table:
        """The records of these stretches that Kafka still has."""
        earliest = self._kafka.earliest(set(offsets))
        left = {p: (max(first, earliest.get(p, first)), last) for p, (first, last) in offsets.items()}
        stretches = {p: each for p, each in left.items() if each[0] <= each[1]}
        return KafkaAgain(self._topic, self._settings).stretches(stretches)


def _commit_times(gap: Gap) -> list[int]:
    """Commit times for what is gone: what later commits remember of one, else the last moments before the next commit."""
    end_ms = gap.later.after.ingested_at_ms
    rows = (state.row_at_ms for state in gap.later.after.partitions.values())
    known = [at_ms for at_ms in rows if gap.after_ms < at_ms < end_ms]
    if gap.commits == 1 and known:
        return [max(known)]
    return [end_ms - number for number in range(gap.commits, 0, -1)]
