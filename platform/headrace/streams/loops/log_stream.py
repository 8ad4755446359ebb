"""The loop of one log: Kafka's records into the sequencer, and ticks while it is quiet."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import structlog

from headrace.errors import TerminalError
from headrace.lake import UnknownOutcomeError
from headrace.lake.notices import recent_names
from headrace.log.history.raw_records import require_same_reading
from headrace.log.sequencer import Sequencer
from headrace.log.site import Site
from headrace.nodes.descriptions.evolution import OtherDescriptionError
from headrace.nodes.node_tables import read_progress, require_log_reaches
from headrace.spark.kafka import (
    TOPIC_SECONDS,
    KafkaTopic,
    lost_offsets,
    require_no_loss,
    require_same_topic,
)
from headrace.streams.begin_log import begin_log
from headrace.streams.consumer_group import ConsumerGroup
from headrace.streams.loops.shared_log import SharedLog
from headrace.streams.loops.supervised import LEASE_ORPHAN_SECONDS, RATE_SECONDS
from headrace.streams.topic_reader import TopicReader
from headrace.writing.leases.lease import Lease, take_lease
from headrace.writing.leases.readers import Asked
from headrace.writing.leases.requests import carry_out
from headrace.writing.scheduling import Coming, CommitSchedule
from headrace.writing.topic_descriptions import note_description, require_one_description

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.description import Topic
    from headrace.spark.kafka import KafkaSettings
    from headrace.streams.loops.node_stream import NodeStream

logger = structlog.get_logger(__name__)
# The fixed cost of a micro-batch, in the log and in its node, is a tenth of the time that these records take. With more, the
# node would be idle while the log reads, and the log while the node folds.
RECORDS_PER_TRIGGER = 500_000
MANY_RECORDS = RECORDS_PER_TRIGGER // 2  # in one micro-batch: the log is catching up
REQUESTS_EVERY_MS = 2_000  # between looks at what people ask for


class LogStream(SharedLog):
    """Sequences one topic for as long as it runs."""

    kind = "log"

    def __init__(
        self,
        site: Site,
        topic: Topic,
        kafka: KafkaSettings,
        asked: Asked,
        *,
        trigger_ms: int,
        tick_every_ms: int,
    ) -> None:
        """In: trigger_ms between micro-batches; tick_every_ms between looks at the clock when the topic is quiet.

        The log looks for deadlines of wall-clock time (see `Sequencer`) four times per trigger, and commits at most once
        per trigger for them. `asked` are the requests of the nodes of this pipeline. If they are ordered, the log records
        once per trigger how far it is settled, while no record comes.
        """
        waits = tuple(dict.fromkeys(asked.wall_waits))
        super().__init__(replace(asked, wall_waits=waits, readers=()))
        self.name, self.topic = topic.name, topic
        self.records = self.dead_letters = self.replays = 0
        self.readers: list[NodeStream] = []  # woken by each commit
        self.schedule = CommitSchedule()
        self._spark, self._lake, self._clock, self._on_step = site.spark, site.lake, site.clock, site.on_step
        self._kafka = KafkaTopic.of(topic, kafka)
        self.trigger_ms, self._tick_every_ms = trigger_ms, tick_every_ms
        self._names = frozenset(asked.readers)
        self._ticking = threading.Event()
        self._tick_under_way = threading.Lock()
        self._arrivals: deque[tuple[float, int]] = deque()
        self._many = self._worked = False
        self._group = ConsumerGroup(self._kafka)
        self.reader = TopicReader(site.spark, topic, self._kafka, most=RECORDS_PER_TRIGGER)

    def open(self) -> None:
        """Recover the log's state, refuse a silent gap, and read on from the next offsets."""
        require_one_description(self._lake, self.topic, self._names, self._clock)
        partitions = self._kafka.partitions(patience_seconds=TOPIC_SECONDS)
        topic_id = self._kafka.topic_id()
        self.require_known(self._lake.log(self.name), topic_id)
        lease = take_lease(
            self._spark,
            self._lake.lease(f"log/{self.name}"),
            f"Log '{self.name}'",
            self._clock,
            orphan_seconds=LEASE_ORPHAN_SECONDS,
        )
        self._lease = lease
        require_same_reading(self._lake, self.topic)
        sequencer = Sequencer(
            self._spark,
            self.topic,
            self._lake.log(self.name),
            self._clock,
            longest_wait_ms=self.asked.longest_wait_ms,
            wall_waits=self.asked.wall_waits,
            calm_ms=self.trigger_ms,
            on_step=partial(self._before_commit, lease),
        )
        note_description(self._lake, self.topic)  # the log has taken it
        sequencer.reads_from(topic_id)
        self._require_readers_within()
        begin_log(self._spark, sequencer, self._kafka, partitions, ends=self._closing.is_set)
        next_offsets, ends = sequencer.state.next_offsets, self._kafka.ends(partitions)
        require_same_topic(self.name, next_offsets, ends)
        # A partition added since then is needed from its start.
        needed = dict.fromkeys(partitions, 0) | next_offsets
        require_no_loss(self.name, lost_offsets(needed, self._kafka.earliest(needed)))
        sequencer.read_first_to(ends)  # of a log that begins, or began before this was recorded
        self.sequencer = sequencer
        self.reader.begin(needed, ends)
        self._start_ticking()

    def _require_readers_within(self) -> None:
        """Nothing may be appended to a log that has lost what a node has read."""
        for reader in self.readers:
            with suppress(OtherDescriptionError):  # it is built anew from the log
                progress = read_progress(self._lake, reader.node)
                require_log_reaches(self._lake, reader.name, self.topic, progress)

    def due(self) -> bool:
        """Whether Kafka holds records that the log does not."""
        return self.reader.due()

    def work(self) -> int:
        """Append an increment to the log, as one commit."""
        assert self.sequencer is not None
        if not self.reader.due():
            return 0
        sequencer = self.sequencer

        def confirm() -> None:
            """Asked after the records have come, so they are this topic's."""
            sequencer.reads_from(self._kafka.topic_id())

        with self.schedule.at_work():
            appended = self.reader.append(sequencer, lambda: self._ends, confirm)
        self._many = appended.records >= MANY_RECORDS
        self.records += appended.records
        self.dead_letters += appended.dead_letters
        self.replays += appended.replays
        if self.reader.more:
            self.hurry()
        self._worked = True
        return appended.records

    def rest(self) -> None:
        """After a commit leave the cores to the nodes."""
        if self._worked and any(reader.state == "running" for reader in self.readers):
            self.schedule.rest(lambda: self._ends, hurried=self._many)
        self._worked = False

    def ask(self, *, spare_core: bool) -> Coming | None:
        """A node that reads it is ready to fold (see `CommitSchedule.ask`)."""
        return self.schedule.ask(self.trigger_ms / 1000, spare_core=spare_core)

    def record_last(self, record: Callable[[Sequencer], None]) -> None:
        """Let the sequencer record something between `halt` and `drain`; a failure is logged, and the drain goes on."""
        lease, sequencer = self._lease, self.sequencer
        if lease is None or sequencer is None or not sequencer.sound:
            return
        try:
            with self._tick_under_way:
                lease.check()
                record(sequencer)
        except Exception as error:
            logger.warning("not recorded", topic=self.name, error=str(error))

    def settled_ms(self) -> int:
        """No later row of the log will lie at or before this commit time; 0 when its sequencer is not open."""
        return 0 if self.sequencer is None or self._lease is None else self.sequencer.settled_ms

    def close(self) -> None:
        """Stop ticking, tell the consumer group how far the log is, give the lease back."""
        self._ticking.set()
        with self._tick_under_way:
            pass
        lease, sequencer = self._lease, self.sequencer
        try:
            if lease is not None and sequencer is not None and sequencer.sound:
                self._group.commit(sequencer.state.next_offsets, at_once=True)
        finally:
            self.reader.close()
            self._lease = None
            if lease is not None:
                lease.release()

    def lag_records(self) -> int:
        """Records that Kafka holds and the log does not; asks the broker."""
        assert self.sequencer is not None
        position = self.sequencer.state.next_offsets
        return sum(
            max(0, end - position.get(p, 0)) for p, end in self._kafka.ends(self._kafka.partitions()).items()
        )

    def input_rows_per_second(self, lag: int) -> float | None:
        """The records that came into the topic each second, over the last half minute; None until there are two looks at it.

        In: lag  as of now
        """
        now = time.monotonic()
        self._arrivals.append((now, self.records + lag))
        while len(self._arrivals) > 2 and now - self._arrivals[0][0] > RATE_SECONDS:
            self._arrivals.popleft()
        (since, had), seconds = self._arrivals[0], now - self._arrivals[0][0]
        return max(0.0, (self.records + lag - had) / seconds) if seconds >= 1 and since < now else None

    def committed_ms(self) -> int:
        """`ingested_at` of the log's last commit, in ms."""
        assert self.sequencer is not None
        return self.sequencer.state.ingested_at_ms

    def _before_commit(self, lease: Lease, step: str) -> None:
        """Each step is bound to the lease under which its sequencer was opened: one left over commits nothing."""
        if step == "before log commit":
            lease.check_now_and_then()
        self._on_step(step)
        if step == "after log commit":
            self._wake_readers()

    def _wake_readers(self) -> None:
        for reader in self.readers:
            reader.check_now()

    def _start_ticking(self) -> None:
        self._ticking = threading.Event()
        threading.Thread(
            target=self._tick_until, args=(self._ticking,), daemon=True, name=f"ticks-{self.name}"
        ).start()

    def _tick_until(self, stop: threading.Event) -> None:
        look_at = time.monotonic() + self._tick_every_ms / 1000
        ask_at = 0.0
        while not stop.wait(min(self.look_every_ms(self._tick_every_ms), REQUESTS_EVERY_MS) / 1000):
            try:
                sequencer = self.sequencer
                if sequencer is None:
                    continue
                if sequencer.in_doubt:  # no record may come for hours
                    doubt = f"Log '{self.name}': whether its last commit went through is not known."
                    self.give_up(UnknownOutcomeError(doubt, hint="It opens again by itself and finds out."))
                    return
                if time.monotonic() >= ask_at:
                    ask_at = time.monotonic() + REQUESTS_EVERY_MS / 1000
                    self._carry_out(sequencer, stop)
                if sequencer.deadline_passed():  # of a batch, whatever Kafka still holds
                    self._record(partial(sequencer.tick, frozenset()), stop)
                if self.asked.ordered and sequencer.now_ms() >= sequencer.settled_ms + self.trigger_ms:
                    self._record(partial(sequencer.promise, sequencer.now_ms()), stop)
                    self._wake_readers()
                self._group.commit(sequencer.state.next_offsets)
                if time.monotonic() >= look_at:
                    look_at = time.monotonic() + self._tick_every_ms / 1000
                    sequencer.reads_from(self._kafka.topic_id())
                    self.reader.see(self._kafka.partitions(patience_seconds=TOPIC_SECONDS))
                    if sequencer.ticks_due():
                        self._record(partial(sequencer.tick, partial(self._caught_up, sequencer)), stop)
            except TerminalError as error:
                self.give_up(error)
                return
            except Exception as error:
                logger.warning("tick failed, will be tried again", topic=self.name, error=str(error))

    def _carry_out(self, sequencer: Sequencer, stop: threading.Event) -> None:
        """Record what people ask for; the nodes find it in the log. A failure of the lake's files stops no tick."""
        with self._tick_under_way:
            if not stop.is_set():
                try:
                    carry_out(self._lake, sequencer, recent_names)
                except OSError as error:
                    logger.warning("requests not carried out", topic=self.name, error=str(error))

    def _record(self, record: Callable[[], object], stop: threading.Event) -> None:
        with self._tick_under_way:  # `close` waits here before it gives the lease back
            if not stop.is_set() and self._lease is not None:
                self._lease.check_now_and_then()
                record()

    def _caught_up(self, sequencer: Sequencer) -> frozenset[int] | None:
        """The partitions read to Kafka's end; None: one that the log does not know has records.

        Records of an open transaction count, although nobody may read them yet: Kafka has them, and they may come.
        """
        position = sequencer.state.next_offsets
        partitions = self._kafka.partitions(patience_seconds=TOPIC_SECONDS)
        ends = self._kafka.high_watermarks(partitions)
        unknown = [p for p in partitions if p not in position]
        first = self._kafka.earliest(unknown) if unknown else {}
        if any(ends[p] > first[p] for p in unknown):
            return None
        return frozenset(p for p, offset in position.items() if offset >= ends.get(p, 0))
