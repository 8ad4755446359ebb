"""The running query of one node: a commit to a log wakes it, and it folds whatever the logs hold beyond its progress.

A log that the same process writes wakes the node itself, the moment its commit is durable. Any other is watched by Spark's
query, through Delta's streaming source, which costs a tenth of a second and more each time.
"""

from __future__ import annotations

import threading
import time
from functools import partial, reduce
from typing import TYPE_CHECKING

import structlog
from pyspark.sql import functions as F

from headrace.log.columns import DEAD_LETTER, RECORD
from headrace.operators.bounds import FullError
from headrace.operators.rows import NOT_RECORDS
from headrace.runtime.background import BackgroundTask
from headrace.runtime.buffered import BufferFigures
from headrace.runtime.figures import RateLimited
from headrace.runtime.lease import Lease, LeaseHeldError, LeaseLostError, take_lease
from headrace.runtime.limits import limits_known
from headrace.runtime.node_tables import frontier_ms, read_increment
from headrace.runtime.rebuild import Rebuild, rebuild_due
from headrace.runtime.runner import NodeRunner
from headrace.runtime.supervised import SupervisedQuery
from headrace.spark import tables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headrace.description import Node, Topic
    from headrace.log.clock import Clock
    from headrace.runtime.lake import Lake
    from headrace.runtime.log_stream import LogStream
    from headrace.runtime.scheduling import Turns

logger = structlog.get_logger(__name__)
PACK_EVERY = 100  # micro-batches between two times that the state is put into fewer files
PACK_WHOLE_EVERY = 1_000  # and that the files which outweigh the others are among them
LAG_COUNTED_EVERY_SECONDS, STATE_MEASURED_EVERY_SECONDS = 10.0, 60.0
LIMITS_READ_EVERY_SECONDS = 3.0  # while the node is full
WATCH_EVERY_MS = 30_000  # how often Spark's query looks at logs that wake the node themselves
WORK_SECONDS = 5.0  # of one trigger, while there always is more: what it did is counted at its end
FOLD_SECONDS = 60.0  # at least, between two folds of current results into their table;
FOLD_REST = 4  # and as many times as long as the last one took


class NodeStream(SupervisedQuery):
    """Advances one node for as long as it runs."""

    kind = "stream"

    def __init__(
        self,
        spark: SparkSession,
        node: Node,
        lake: Lake,
        clock: Clock,
        *,
        trigger_ms: int,
        turns: Turns,
        upkeep: Turns,
        woken: bool = False,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        """Nothing runs yet.

        In: trigger_ms  between looks at the logs
            turns       at folding, and at `upkeep` beside it, of all nodes of a session
            woken       whether each commit to any of its logs calls `wake`
        """
        super().__init__()
        self.name, self.node = node.required_name, node
        self.runner: NodeRunner | None = None
        self._spark, self._lake, self._clock = spark, lake, clock
        self.trigger_ms, self._on_step = trigger_ms, on_step
        self._lease: Lease | None = None
        self._rebuild: Rebuild | None = None
        self._fold_at = time.monotonic() + FOLD_SECONDS
        self._roused = False  # whether the logs were looked at since the query was opened
        self.logs: list[LogStream] = []  # those of the same session that it reads
        self._turns = turns
        self._woken, self._commits_wake = threading.Event(), woken
        self._opened = threading.Event()  # replaced at each opening, set at its close
        self._upkeep = BackgroundTask(f"upkeep-{self.name}", upkeep, lambda: self._ends)
        self.records = 0
        self.buffer = BufferFigures()
        self._raised = RateLimited(self._limits_since, LIMITS_READ_EVERY_SECONDS)
        self._waiting = RateLimited(self._count_waiting, LAG_COUNTED_EVERY_SECONDS)
        self._state_size = RateLimited(self._measure_state, STATE_MEASURED_EVERY_SECONDS)

    def open(self) -> DataStreamWriter:
        """Recover the node's progress; Delta's streaming source serves as the wake-up alone."""
        lease_folder = self._lake.lease(f"node/{self.name}")
        self._lease = take_lease(self._spark, lease_folder, f"Node '{self.name}'", self._clock)
        on_step = self._before_commit
        self._rebuild = rebuild_due(self._spark, self.node, self._lake, self._clock, on_step=on_step)
        if self._rebuild is not None:
            self.runner = self._rebuild.runner
        else:
            self.runner = NodeRunner(self._spark, self.node, self._lake, on_step=on_step)
        self._roused, self._upkeep.error = False, None
        self.buffer = BufferFigures()
        self._raised = RateLimited(self._limits_since, LIMITS_READ_EVERY_SECONDS)
        wakes = [self._wake(topic) for topic in self.node.topics]
        woken = reduce(lambda left, right: left.unionByName(right), wakes)
        self._opened = threading.Event()
        threading.Thread(
            target=self._fold_when_woken, args=[self._opened], daemon=True, name=f"folds-{self.name}"
        ).start()
        every_ms = max(self.trigger_ms, WATCH_EVERY_MS) if self._commits_wake else self.trigger_ms
        return woken.writeStream.trigger(processingTime=f"{every_ms} milliseconds")

    def work(self, batch: DataFrame | None) -> int:
        """Fold until nothing is left, or for a while; the batch itself is not read (it may hold half a commit)."""
        assert self.runner is not None
        if self._upkeep.error is not None:
            raise self._upkeep.error
        if self._rebuild is not None:
            self._advance(self._rebuild)
        before, until = _records(self.runner), time.monotonic() + WORK_SECONDS
        self.micro_batches = 0
        while self._fold(self.runner) and not self._closing.is_set():
            self.went_well()
            self.micro_batches += 1
            self.buffer.see(self.runner.progress.buffer)
            self._tidy(self.runner)
            if time.monotonic() > until:
                self.wake()
                break
        if self.runner.unread and not self._upkeep.under_way:
            self.runner.clear()
        if self.runner.unfolded and time.monotonic() >= self._fold_at:
            self._upkeep.begin(partial(self._compact, self.runner))
        handled = _records(self.runner) - before
        self.records += handled
        return handled

    def _advance(self, rebuild: Rebuild) -> None:
        """Rebuild until nothing is left, and swap it in; the node's runner is an ordinary one from then on."""
        while not self._closing.is_set():
            if not rebuild.advance():
                rebuild.swap()
                rebuild.close()
                self._rebuild = None
                self.runner = NodeRunner(self._spark, self.node, self._lake, on_step=self._before_commit)
                return

    def wake(self) -> None:
        """A log that it reads has a new commit."""
        self._woken.set()

    def _fold(self, runner: NodeRunner) -> bool:
        """One micro-batch of all that came until now, in its turn; False when none is due or there is nothing new."""
        with self._turns.taken(lambda: self._ends) as mine:
            if mine and runner.due(self._clock.now_ms()):
                spare = self._turns.spare
                for log, number in [(log, log.ask(spare_core=spare)) for log in self.logs]:
                    if number is not None:
                        log.schedule.wait_for(number)
                if runner.advance():
                    return True
        for log in self.logs:
            log.schedule.go_on()
        return False

    def _fold_when_woken(self, closed: threading.Event) -> None:
        """Fold at each `wake`, at least a trigger interval after the last began."""
        while True:
            self._woken.wait()
            if closed.is_set():
                return
            self._woken.clear()
            began = time.monotonic()
            self.do(lambda: self.work(None))
            closed.wait(max(0.0, self.trigger_ms / 1000 - (time.monotonic() - began)))

    def rouse(self) -> None:
        """Work although no log woke the query: a throttled interval or a fold may be due when a topic has fallen silent.

        Once after it was opened too, for the newest commit of a log may be one of maintenance, which wakes nobody.
        """
        runner = self.runner
        if runner is None or self.state != "running":
            return
        silent = runner.operator.throttle_ms or runner.operator.ordered or runner.unfolded or runner.unread
        if silent or not self._roused:
            self._roused = True
            self.wake()

    def mended(self) -> bool:
        """Whether the node is full, and its limits have been set in the log since."""
        return isinstance(self.error, FullError) and bool(self._raised())

    def _limits_since(self) -> bool:
        """Looked up every few seconds, while the node is full."""
        assert self.runner is not None
        _, entries = limits_known(self._spark, self._lake, self.node)
        return any(entry.ingested_at_ms > self.runner.refused_ms for entry in entries)

    def close(self) -> None:
        """Fold no more, and give the leases back."""
        self._opened.set()
        self._woken.set()
        self._upkeep.end()
        if self._rebuild is not None:
            self._rebuild.close()
            self._rebuild = None
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def finish(self, deadline: float) -> None:
        """Fold what the logs still hold, until a monotonic deadline; for a drain after the logs have stopped."""
        if self.runner is not None and self.state == "running":
            with self._busy:
                while time.monotonic() < deadline and self.runner.advance():
                    pass
                self._upkeep.end()
                if self.runner.unfolded and time.monotonic() < deadline:
                    self._with_lease(self.runner.maintain)

    def _tidy(self, runner: NodeRunner) -> None:
        if runner.progress.batch % PACK_EVERY == 0:
            self._upkeep.begin(partial(self._pack if runner.operator.appended else self._compact, runner))

    def _pack(self, runner: NodeRunner) -> None:
        try:
            runner.pack(whole=runner.progress.batch % PACK_WHOLE_EVERY < PACK_EVERY)
        except Exception as error:
            logger.warning("state not packed, will be tried again", name=self.name, error=str(error))

    def _compact(self, runner: NodeRunner) -> None:
        began = time.monotonic()
        try:
            self._with_lease(runner.compact)
        finally:
            now = time.monotonic()
            self._fold_at = now + max(FOLD_SECONDS, FOLD_REST * (now - began))

    def _with_lease(self, upkeep: Callable[[], None]) -> None:
        """Under the lease of backfills: none may compare the table meanwhile. One that runs is waited for next time."""
        folder = self._lake.lease(f"backfill/{self.name}")
        try:
            lease = take_lease(self._spark, folder, f"Fold of '{self.name}'", self._clock)
        except LeaseHeldError:
            return
        try:
            upkeep()
        finally:
            lease.release()

    def lag_ms(self) -> int:
        """How far, in commit time, the node is behind the logs that it reads."""
        assert self.runner is not None
        upto_ms = self.runner.progress.upto_ms
        frontiers = {t.name: frontier_ms(self._spark, self._lake, t) for t in self.node.topics}
        return max(0, *(ms - upto_ms.get(name, 0) for name, ms in frontiers.items()))

    def lag_records(self) -> int | None:
        """The records of its logs that the node has not read; counted at most every ten seconds."""
        return self._waiting()

    def state_bytes(self) -> int | None:
        """The size of the node's state tables; looked up at most once a minute."""
        return self._state_size()

    def _count_waiting(self) -> int:
        assert self.runner is not None
        upto_ms = self.runner.progress.upto_ms
        counts = (
            read_increment(self._spark, self._lake, topic, after_ms=upto_ms.get(topic.name), upto_ms=frontier)
            .where(F.col("kind").isin(RECORD, DEAD_LETTER))
            .count()
            for topic in self.node.topics
            if (frontier := frontier_ms(self._spark, self._lake, topic))
        )
        return sum(counts)

    def _measure_state(self) -> int:
        assert self.runner is not None
        return self.runner.state_bytes()

    def has_folded(self, targets: Mapping[str, int]) -> bool:
        """Whether the node has folded its logs through these commit times."""
        if self.runner is None or self._rebuild is not None:
            return False
        upto_ms = self.runner.progress.upto_ms
        return all(upto_ms.get(t.name, 0) >= targets.get(t.name, 0) for t in self.node.topics)

    def _wake(self, topic: Topic) -> DataFrame:
        """From the newest version on: files of older ones may be gone after maintenance. `rouse` looks at what is there."""
        version = max(tables.latest_version(self._spark, self._lake.log(topic.name)), 0)
        reader = self._spark.readStream.format("delta").option("startingVersion", version)
        return (
            reader.option("skipChangeCommits", "true").load(self._lake.log(topic.name)).select("ingested_at")
        )

    def _before_commit(self, step: str) -> None:
        if step in ("before outputs", "after outputs", "before swap"):
            if self._lease is None:
                raise LeaseLostError(
                    f"Node '{self.name}': its lease was given back; nothing more is written."
                )
            self._lease.check()
        self._on_step(step)


def _records(runner: NodeRunner) -> int:
    totals = runner.progress.totals()
    return sum(records for fate, records in totals.items() if fate not in NOT_RECORDS)
