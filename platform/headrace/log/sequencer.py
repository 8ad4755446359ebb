"""The sequencer: the only stage that sees Kafka. It decides once and writes the decision into the row.

One log commit, in this order (the numbers are the crash marks of the tests):
  1. "before log commit"   the commit time is chosen, nothing is written;
  2. "after log commit"    the rows and their commit record are durable; a repeated micro-batch adds nothing.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace import lake
from headrace.errors import TransientError
from headrace.log.commit_row import CommitRow, write_commit_row
from headrace.log.deadlines import Deadlines, waits_now
from headrace.log.decision_rows import Decision, LogFolder, write_decisions
from headrace.log.decisions.guard import GuardStore
from headrace.log.decisions.limits import limits_rows
from headrace.log.decisions.moves import anywhere, completion, ends_entry, idleness, moved, passed_over
from headrace.log.decisions.promise import read_promise, write_promise
from headrace.log.decisions.resets import control_entry, roots_to_forget
from headrace.log.decisions.topic_identity import require_known_topic
from headrace.log.history.added_columns import log_table
from headrace.log.history.raw_records import keeping_raw
from headrace.log.record_writer import NOTHING, Records, RecordWriter, WrittenRecords
from headrace.log.recovery import commits_during, recover
from headrace.log.ticks import Due, due_now
from headrace.sequence.log_columns import CONTROL, DRAIN, TICK, log_schema
from headrace.sequence.log_state import LastRow, LogState
from headrace.spark.one_task import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set

    from pyspark.sql import SparkSession

    from headrace.description import Topic
    from headrace.description.clocks import WallWait
    from headrace.description.limits import Limits
    from headrace.lake import NewFile
    from headrace.log.clock import Clock
    from headrace.sequence.replays.guards import Guard
    from headrace.sequence.seed_pieces import SeedState


@dataclass(frozen=True)
class Appended:
    """The number of records that one commit added; dead letters and replays are some of them."""

    records: int
    dead_letters: int
    replays: int


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
        wall_waits: Collection[WallWait | int] = (),
        calm_ms: int = 1,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        """Open the log at `path`, creating it if need be, and recover the state of its last commit.

        In: longest_wait_ms  the longest wait of the topic's nodes for stream time (ticks go on that long)
            wall_waits       the waits of its nodes for wall-clock time; each deadline that passes gets a tick
            calm_ms          such a tick is left out while the last commit is younger: the next one does as well
            on_step          called with each numbered step's name; it may raise to stop there
        """
        self.topic = topic
        self._spark, self._path, self._clock, self._on_step = spark, path, clock, on_step
        self._longest_wait_ms = longest_wait_ms
        self._writer = f"log/{topic.name}"
        self._schema = arrow_schema(log_schema(topic))
        self._records = RecordWriter(topic, path, self._schema, keeps_open=True)
        self._lock = threading.Lock()
        table = log_table(path, topic, self._schema)
        self._table = lake.TableWriter(table, lake.APPENDER, carries=[self._writer])
        self._guard_store = GuardStore(path)
        state, self._guard = recover(spark, path, topic, self._writer, self._guard_store)
        self.state = keeping_raw(state, topic)
        self._wall_waits = tuple(wall_waits)
        self._deadlines = self._open_deadlines()
        self._calm_ms = calm_ms
        self._opened_ms = clock.now_ms()
        self._promised_ms = read_promise(path)
        # On the steady clock: when the time of the last commit was chosen (or the log opened), and of the one under way.
        self._steady_ms = self._began_ms = clock.steady_ms()
        self.sound = True  # False while it is not known whether a commit went through

    def wait_longer(self, longest_wait_ms: int, wall_waits: Collection[WallWait | int]) -> None:
        """Tick for other waits from here on, as they are given at the beginning."""
        if (longest_wait_ms, tuple(wall_waits)) != (self._longest_wait_ms, self._wall_waits):
            with self._alone():
                self._longest_wait_ms, self._wall_waits = longest_wait_ms, tuple(wall_waits)
                self._deadlines = self._open_deadlines()

    def append(
        self,
        raw: Records,
        *,
        ends: Mapping[int, int] | None = None,
        in_order: bool = False,
        one_task: bool = False,
    ) -> Appended:
        """Commit one micro-batch of Kafka records, and where it ends; nothing, if the log knows all of that.

        In: raw       see `RecordWriter.write`; offsets already held are passed over
            ends      for each partition the next offset, which may lie after the last record: markers of transactions
                      have offsets, too, and retention deletes them. None: not known
            in_order  each partition lies in one task, in the order of its offsets
            one_task  they are few: one task is enough
        """
        with self._alone():
            at_ms = self._next_commit_ms()
            self._on_step("before log commit")
            written = self._records.write(
                raw, self.state, self._guard, at_ms, in_order=in_order, one_task=one_task
            )
            after = passed_over(self.state.after(at_ms, written.ends), ends or {})
            if written.records:
                self._commit(written.files, after, written.guard, written)
            elif after.next_offsets != self.state.next_offsets:
                self._commit_time(after)
            return Appended(written.records, written.dead_letters, written.replays)

    @property
    def in_doubt(self) -> bool:
        """True if nobody commits now and it is not known whether the last commit went through."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return not self.sound
        finally:
            self._lock.release()

    def ticks_due(self) -> bool:
        """Whether a tick would be written if every partition were read to Kafka's end."""
        return self._due(self.now_ms(), frozenset(self.state.partitions)).is_something

    def deadline_passed(self) -> bool:
        """Whether a tick is due because somebody waits for wall-clock time, wherever Kafka's end may be."""
        now_ms, frontier_ms = self.now_ms(), self.state.ingested_at_ms
        return now_ms >= frontier_ms + self._calm_ms and self._deadlines.passed(frontier_ms, now_ms)

    def tick(self, caught_up: Set[int] | Callable[[], Set[int] | None]) -> int:
        """Write the ticks that are due: of idle partitions, else one that records the time alone; and that a topic is idle.

        In:  caught_up  the partitions read to Kafka's end offsets; a function is asked once no append is under way.
                        None: a partition that the log does not know has records, so nothing is idle
        Out: how many partitions were advanced
        """
        with self._alone():
            at_ms, state = self._next_commit_ms(), self.state
            read_to_end = caught_up() if callable(caught_up) else caught_up
            due = Due() if read_to_end is None else self._due(at_ms, read_to_end)
            rows: list[LastRow] = [*due.ticks]
            if not rows and (due.at_wall_time or self.deadline_passed()):
                rows = [anywhere(state)]
            if rows or due.idle:
                self._on_step("before log commit")
                after = replace(state.after(at_ms, due.ticks), idle=due.idle or state.idle)
                files = self._decided(TICK, dict.fromkeys(rows), at_ms)
                files += self._decided(CONTROL, idleness(after) if due.idle else {}, at_ms)
                self._commit(files, after, self._guard, time_alone=not due.is_something)
            return len(due.ticks)

    def drain(self) -> None:
        """Record that batches still open close here, because a person stops the stream; an empty log has none."""
        with self._alone():
            if self.state.partitions:
                at_ms = self._next_commit_ms()
                entry = {anywhere(self.state): json.dumps({"action": DRAIN})}
                self._control(entry, at_ms, self.state.after(at_ms, []))

    def set_limits(self, node: str, limits: Limits, request: str = "", *, elsewhere: bool = False) -> None:
        """Record other limits of a suppressed node, in force from here on; or that another log sets them (`elsewhere`)."""
        with self._alone():
            at_ms, rows = self._next_commit_ms(), limits_rows(self.state, node, limits, request, elsewhere)
            self._control(rows, at_ms, self.state.with_limits(node, limits, at_ms).after(at_ms, []))
            self._deadlines = self._open_deadlines()

    def _open_deadlines(self) -> Deadlines:
        waits = waits_now(self._wall_waits, self.state.limits_ms)
        return Deadlines(waits, *commits_during(self._path, self.state, Deadlines(waits).known_ms))

    def _due(self, now_ms: int, caught_up: Set[int]) -> Due:
        # A reader waits beyond the limit of the node that it reads, however long that was ever made.
        wait_ms = self._longest_wait_ms + self.state.longest_limits_ms
        began_ms = self.state.began_ms or self._opened_ms
        return due_now(self.state, now_ms, began_ms, self.topic.idle_timeout_ms, wait_ms, caught_up)

    def start_at(self, offsets: Mapping[int, int], seed: SeedState | None = None) -> None:
        """Record where a new log begins, and with which seed, so that a crash before its first records moves nothing."""
        self._move_to(offsets, "start" if seed is None else "seed", seed)

    def read_first_to(self, ends: Mapping[int, int]) -> None:
        """Record where Kafka's records ended when the log was first begun, unless that is recorded already.

        A control row says in which log commit they are all read (`COMPLETE`). A log with a seed has read that first.

        In: ends  for each partition the offset after its last record
        """
        with self._alone():
            if self.state.knows_first_ends:
                return
            at_ms = self._next_commit_ms()
            after = replace(self.state, first_ends=dict(ends)).after(at_ms, [])
            self._control({anywhere(self.state): ends_entry(ends)}, at_ms, after)

    def reads_from(self, topic_id: str | None) -> None:
        """Note Kafka's id of the topic; the next commit records it.

        In:     topic_id  None: the broker has none
        Raises: TerminalError when the log was read from another topic of the same name
        """
        require_known_topic(self.topic.name, self.state.topic_id, topic_id)
        if self.state.topic_id is None and topic_id is not None:
            with self._lock:
                self.state = replace(self.state, topic_id=topic_id)

    def accept_gap(self, offsets: Mapping[int, int]) -> None:
        """Record that the records before these offsets are lost and that a person accepts it; no log goes back.

        In: offsets  the first offset still to be had, for each partition that lost some
        """
        self._move_to(offsets, "accept_gap")

    def reset_guard(self, root_topic: str, root_partition: int | None = None) -> list[int]:
        """Record that a root begins anew: from here on the guard knows nothing of it.

        In:     root_partition  None: every partition of the root topic
        Out:    the root partitions that the guard has forgotten
        Raises: TerminalError when the topic has no guard, or its guard has never seen that root.
        """
        with self._alone():
            roots = roots_to_forget(self.topic.name, self._guard, root_topic, root_partition)
            assert self._guard is not None
            at_ms = self._next_commit_ms()
            control = {anywhere(self.state): control_entry(root_topic, root_partition)}
            self._control(control, at_ms, self.state.after(at_ms, []), self._guard.without(roots))
            return sorted(partition for _, partition in roots)

    def promise(self, through_ms: int) -> None:
        """Promise that no later row will lie at or before a commit time (see `headrace.log.decisions.promise`).

        It ends before a deadline that no commit has reached: then nodes have rows, and their logs promise the same.
        """
        with self._alone():
            if self._deadlines.passed(self.state.ingested_at_ms, min(through_ms, self.now_ms())):
                at_ms = self._next_commit_ms()
                self._on_step("before log commit")
                self._commit_time(self.state.after(at_ms, []))
            next_ms = self._deadlines.next_ms(self.state.ingested_at_ms)
            through_ms = through_ms if next_ms is None else min(through_ms, next_ms - 1)
            if through_ms > self.settled_ms:
                write_promise(self._path, through_ms)
                self._promised_ms = through_ms

    @property
    def settled_ms(self) -> int:
        """No later row will lie at or before this commit time."""
        return max(self.state.ingested_at_ms, self._promised_ms)

    def now_ms(self) -> int:
        """The log's wall-clock time: the machine's, unless that was set back.

        Then it goes on from the last commit at 0.9 of the steady clock's speed: what waits for wall-clock time does not wait
        until the machine's clock has caught up, and meanwhile the two come together again.
        """
        passed_ms = self._clock.steady_ms() - self._steady_ms
        return max(self._clock.now_ms(), self.state.ingested_at_ms + max(0, passed_ms) * 9 // 10)

    def _next_commit_ms(self) -> int:
        """The commit time of a commit that begins now."""
        self._began_ms = self._clock.steady_ms()
        return max(self.state.next_commit_ms(self.now_ms()), self._promised_ms + 1)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            if not self.sound:
                raise TransientError(
                    f"Topic '{self.topic.name}': whether the last commit to its log went through is not known.",
                    hint="The log is read when its stream opens again, which it does by itself.",
                )
            yield

    def _move_to(self, offsets: Mapping[int, int], action: str, seed: SeedState | None = None) -> None:
        with self._alone():
            offsets = self.state.not_read(offsets)
            at_ms = self._next_commit_ms()
            rows, after = moved(self.state, offsets, action, at_ms, seed)
            self._control(rows, at_ms, after)

    def _control(
        self, rows: Mapping[LastRow, str | None], at_ms: int, after: LogState, guard: Guard | None = None
    ) -> None:
        """Commit control rows alone."""
        self._on_step("before log commit")
        self._commit(self._decided(CONTROL, rows, at_ms), after, guard or self._guard)

    def _decided(self, kind: str, rows: Mapping[LastRow, str | None], at_ms: int) -> list[NewFile]:
        decisions = [Decision(row.partition, row.stream_ms, control) for row, control in rows.items()]
        if not decisions:
            return []
        return [write_decisions(LogFolder(self._path, self._schema), self.topic.name, kind, at_ms, decisions)]

    def _commit_time(self, after: LogState) -> None:
        """Commit that time has passed, or offsets without a record."""
        files = self._decided(TICK, {anywhere(self.state): None}, after.ingested_at_ms)
        due = self._due(after.ingested_at_ms, frozenset())
        self._commit(files, after, self._guard, time_alone=not due.is_something)

    def _commit(
        self,
        files: Sequence[NewFile],
        after: LogState,
        guard: Guard | None,
        records: WrittenRecords = NOTHING,
        time_alone: bool = False,
    ) -> None:
        """Commit files that are written, with the row that says where the log stands after them (see `CommitRow`)."""
        completes = completion(after) if after.is_newly_complete else {}
        after = after.completed() if completes else after
        said = CommitRow(after, self.state.next_offsets, records.records, time_alone and not completes)
        row = write_commit_row(self._path, self._schema, self.topic.name, said, records.open)
        files = [*files, *self._decided(CONTROL, completes, after.ingested_at_ms)]
        entry = self._guard_store.entry(guard)
        record = {"writer": self._writer, "ingested_at_ms": after.ingested_at_ms, "after": after.to_json()}
        self.sound = False
        self._table.append([*files, row], record | entry)
        self._guard_store.settled(entry)
        self.state, self._guard, self.sound = after, guard, True
        self._deadlines.committed(after.ingested_at_ms, said.records > 0, said.time_alone)
        self._steady_ms = self._began_ms
        self._on_step("after log commit")
