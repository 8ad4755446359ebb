"""The sequencer: the only stage that sees Kafka. It decides once and writes the decision into the row.

One log commit, in this order (the numbers are the crash marks of the tests):
  1. "before log commit"   everything is decided, nothing is written;
  2. "after log commit"    the rows and their commit record are durable; a repeated micro-batch adds nothing.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F

from headrace.errors import TransientError
from headrace.log.columns import CONTROL, DEAD_LETTER, PROPERTIES, TICK, log_schema
from headrace.log.decode import decode
from headrace.log.sequence import LAST, assign_stream_time, only_new
from headrace.log.state import LastRow, LogState, PartitionState
from headrace.log.ticks import due_ticks
from headrace.spark import tables
from headrace.spark.frames import local_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Set

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Topic
    from headrace.log.clock import Clock


@dataclass(frozen=True)
class Appended:
    """What one commit added: records (dead letters included) and, of these, dead letters."""

    records: int
    dead_letters: int


class Sequencer:
    """Writes one topic's log. Exactly one may be open for a topic; the caller holds the lease."""

    def __init__(
        self,
        spark: SparkSession,
        topic: Topic,
        path: str,
        clock: Clock,
        *,
        longest_wait_ms: int = 0,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        """Open the log at `path`, creating it if need be, and recover the state of its last commit.

        In: longest_wait_ms  the longest wait of the topic's nodes (ticks go on that long)
            on_step          called with each numbered step's name; it may raise to stop there
        """
        self.topic = topic
        self._spark, self._path, self._clock, self._on_step = spark, path, clock, on_step
        self._longest_wait_ms = longest_wait_ms
        self._writer = f"log/{topic.name}"
        self._schema = log_schema(topic)
        self._lock = threading.Lock()
        tables.create(spark, path, self._schema, PROPERTIES)
        self.state = self._recover()
        self.sound = True  # False while it is not known whether a commit went through

    def append(self, raw: DataFrame) -> Appended:
        """Commit one micro-batch of Kafka records.

        In: raw  as Spark's Kafka source delivers it (see `columns.KAFKA`); offsets already held are passed over
        """
        with self._alone():
            state = self.state
            at_ms = state.next_commit_ms(self._clock.now_ms())
            decoded = decode(only_new(raw, state), self.topic, at_ms)
            sequenced = assign_stream_time(decoded, state)
            seen = Observation()
            last = F.struct("partition", "offset", F.col("__stream_ms").alias("stream_ms"))
            observed = sequenced.observe(
                seen,
                F.count("*").alias("records"),
                F.count_if(F.col("kind") == DEAD_LETTER).alias("dead_letters"),
                F.collect_list(F.when(F.col(LAST), last)).alias("last_rows"),
            )
            self._commit(self._as_log_rows(observed, at_ms), at_ms, {"before": state.to_json()})
            found = seen.get
            rows = [LastRow(r["partition"], r["offset"], r["stream_ms"]) for r in found["last_rows"]]
            self._settle(state.after(at_ms, rows))
            return Appended(found["records"], found["dead_letters"])

    def ticks_due(self) -> bool:
        """Whether a tick would be written if every partition were read to Kafka's end."""
        return bool(self._due(self._clock.now_ms(), frozenset(self.state.partitions)))

    def tick(self, caught_up: Set[int]) -> int:
        """Write the ticks that are due.

        In:  caught_up  the partitions read to Kafka's end offsets
        Out: how many partitions were advanced
        """
        with self._alone():
            at_ms = self.state.next_commit_ms(self._clock.now_ms())
            ticks = self._due(at_ms, caught_up)
            if ticks:
                self._write_decisions(TICK, dict.fromkeys(ticks), at_ms, self.state.after(at_ms, ticks))
            return len(ticks)

    def _due(self, now_ms: int, caught_up: Set[int]) -> list[LastRow]:
        idle_timeout_ms, wait_ms = self.topic.idle_timeout_ms, self._longest_wait_ms
        return due_ticks(
            self.state, now_ms, idle_timeout_ms=idle_timeout_ms, longest_wait_ms=wait_ms, caught_up=caught_up
        )

    def start_at(self, offsets: Mapping[int, int]) -> None:
        """Record where a new log begins, so that a crash before its first records cannot move the start."""
        self._move_to(offsets, "start")

    def accept_gap(self, offsets: Mapping[int, int]) -> None:
        """Record that the records before these offsets are lost and that a person accepts it.

        In: offsets  the first offset still to be had, for each partition that lost some
        """
        self._move_to(offsets, "accept_gap")

    def pass_over(self, offsets: Mapping[int, int]) -> None:
        """Record how far Kafka was read beyond its last record: transaction markers have offsets, but are no loss.

        In: offsets  the next offset to read, for each partition; nothing is committed if the log knows all of them
        """
        with self._alone():
            known = self.state.partitions
            beyond = {
                p: replace(known.get(p, PartitionState(0)), next_offset=offset)
                for p, offset in offsets.items()
                if offset > known.get(p, PartitionState(0)).next_offset
            }
            if beyond:
                at_ms = self.state.next_commit_ms(self._clock.now_ms())
                after = replace(self.state, partitions={**known, **beyond}).after(at_ms, [])
                self._write_decisions(CONTROL, {}, at_ms, after)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            if not self.sound:
                raise TransientError(
                    f"Topic '{self.topic.name}': whether the last commit to its log went through is not known.",
                    hint="The log is read when its stream opens again, which it does by itself.",
                )
            yield

    def _settle(self, state: LogState) -> None:
        self.state, self.sound = state, True

    def _move_to(self, offsets: Mapping[int, int], action: str) -> None:
        with self._alone():
            at_ms = self.state.next_commit_ms(self._clock.now_ms())
            rows, partitions = {}, dict(self.state.partitions)
            for partition, offset in sorted(offsets.items()):
                before = partitions.get(partition, PartitionState(0))
                entry = {"action": action, "from_offset": before.next_offset, "to_offset": offset}
                rows[LastRow(partition, None, before.stream_ms)] = json.dumps(entry, sort_keys=True)
                partitions[partition] = replace(before, next_offset=offset)
            after = replace(self.state, partitions=partitions).after(at_ms, rows)
            self._write_decisions(CONTROL, rows, at_ms, after)

    def _write_decisions(
        self, kind: str, rows: Mapping[LastRow, str | None], at_ms: int, after: LogState
    ) -> None:
        values = [(row.partition, row.stream_ms, control) for row, control in rows.items()]
        frame = local_frame(self._spark, values, "partition INT, __stream_ms BIGINT, control STRING")
        frame = frame.select("*", F.lit(kind).alias("kind"), F.lit(self.topic.name).alias("topic"))
        self._commit(self._as_log_rows(frame, at_ms), at_ms, {"after": after.to_json()})
        self._settle(after)

    def _as_log_rows(self, frame: DataFrame, at_ms: int) -> DataFrame:
        decided = {
            "ingested_at": F.timestamp_millis(F.lit(at_ms)),
            "stream_time": F.timestamp_millis("__stream_ms"),
            "replay": F.lit(False),
        }
        columns = []
        for field in self._schema:
            present = decided.get(
                field.name, F.col(field.name) if field.name in frame.columns else F.lit(None)
            )
            columns.append(present.cast(field.dataType).alias(field.name))
        return frame.select(columns)

    def _commit(self, rows: DataFrame, at_ms: int, state: Mapping[str, Any]) -> None:
        record = {"writer": self._writer, "ingested_at_ms": at_ms, **state}
        self._on_step("before log commit")
        self.sound = False
        tables.append(rows, self._path, record)
        self._on_step("after log commit")

    def _recover(self) -> LogState:
        """The state after the last commit: what it recorded, and for a data commit the rows of that one commit."""
        commit = tables.last_commit(self._spark, self._path, self._writer)
        if commit is None:
            return LogState()
        if "after" in commit.record:
            return LogState.from_json(commit.record["after"])
        at_ms = commit.record["ingested_at_ms"]
        rows = (
            tables.read(self._spark, self._path)
            .where(F.col("ingested_at") == F.timestamp_millis(F.lit(at_ms)))
            .groupBy("partition")
            .agg(F.max("offset").alias("offset"), F.unix_millis(F.max("stream_time")).alias("stream_ms"))
            .collect()
        )
        last_rows = [LastRow(r["partition"], r["offset"], r["stream_ms"]) for r in rows]
        return LogState.from_json(commit.record["before"]).after(at_ms, last_rows)
