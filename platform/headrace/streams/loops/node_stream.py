"""The loop of one node: it folds whatever the logs hold beyond its progress.

The log of a topic that the same process writes wakes the node as soon as its commit or promise is durable. For any other log
the node looks at the newest version, once per trigger interval. If the node reads several logs in one order, or its own log
has to promise how far it is settled, it looks at their promises, too: these move without a commit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import structlog

from headrace.description import is_of_kafka, references_of
from headrace.fold.bounds import FullError
from headrace.fold.fates import NOT_RECORDS
from headrace.lifecycle.live_limits import limits_known
from headrace.lifecycle.rebuilds.rebuild import Rebuild, rebuild_due
from headrace.log.site import Site
from headrace.nodes.descriptions.references import Generations
from headrace.nodes.descriptions.topics import reached_by
from headrace.nodes.node_tables import frontier_ms, require_log_as_described, require_log_reaches
from headrace.streams.loops.log_watch import LogWatch, log_promise, log_version, waiting_records
from headrace.streams.loops.supervised import LEASE_ORPHAN_SECONDS
from headrace.streams.loops.swappable_loop import SwappableLoop
from headrace.streams.node_upkeep import NodeUpkeep
from headrace.streams.status.buffered import BufferFigures
from headrace.writing.leases.lease import Lease, take_lease
from headrace.writing.node_runner import NodeRunner
from headrace.writing.rate_limited import RateLimited
from headrace.writing.topic_descriptions import require_one_description

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from headrace.description import Node, Topic
    from headrace.streams.loops.log_stream import LogStream
    from headrace.writing.scheduling import Turns

logger = structlog.get_logger(__name__)
LAG_COUNTED_EVERY_SECONDS, STATE_MEASURED_EVERY_SECONDS = 10.0, 60.0
LIMITS_READ_EVERY_SECONDS = 3.0  # while the node is full
LOOK_AT_ALL_EVERY_SECONDS = 30.0  # at logs of this process too: another process may have taken one over
WORK_SECONDS = 5.0  # after this time a trigger ends although there is more: rows are counted at its end


@dataclass(frozen=True)
class Shared:
    """Shared by the nodes of a session.

    turns        at folding
    upkeep       turns at background work
    generations  of nodes that are read by name; None: those of the lake
    names        the nodes of this pipeline
    """

    turns: Turns
    upkeep: Turns
    generations: Generations | None = None
    names: Collection[str] = ()


class NodeStream(SwappableLoop):
    """Advances one node for as long as it runs.

    is_ordered  whether its log has to promise how far it is settled (see `ordered_logs`)
    """

    kind = "stream"
    is_ordered = False

    def __init__(
        self,
        site: Site,
        node: Node,
        shared: Shared,
        *,
        trigger_ms: int,
        is_read: bool = False,
    ) -> None:
        """Nothing runs yet.

        In: trigger_ms  between looks at the logs; micro-batches keep step with the logs (see `SupervisedLoop`)
            is_read     whether other nodes read this one
        """
        spark, lake, clock, on_step = site.spark, site.lake, site.clock, site.on_step
        turns, upkeep = shared.turns, shared.upkeep
        super().__init__(spark, lake, node, clock, shared.generations or Generations(lake))
        self._own = frozenset(shared.names) or {node.required_name}
        self.runner: NodeRunner | None = None
        self.trigger_ms, self._on_step = trigger_ms, on_step
        self._lease: Lease | None = None
        self._rebuild: Rebuild | None = None
        self.logs: list[LogStream] = []  # those of the same session that it reads: each calls `check_now`
        self.readers: list[NodeStream] = []  # of the same session: each is woken
        self._is_read = is_read
        self._turns = turns
        self._watch = LogWatch(partial(log_version, lake), partial(log_promise, lake))
        self._look_at_all_at = 0.0
        others = partial(
            take_lease, spark, lake.lease(f"backfill/{self.name}"), f"Fold of '{self.name}'", clock
        )
        self._upkeep = NodeUpkeep(self.name, upkeep, lambda: self._ends, others)
        self.records = 0
        self.buffer = BufferFigures()
        self._raised = RateLimited(self._limits_since, LIMITS_READ_EVERY_SECONDS)
        self._waiting = RateLimited(self._count_waiting, LAG_COUNTED_EVERY_SECONDS)
        self._state_size = RateLimited(self._measure_state, STATE_MEASURED_EVERY_SECONDS)

    def open(self) -> None:
        """Take the lease, and recover the node's progress. Raises: as `require_free`."""
        self.require_free()
        for topic in filter(is_of_kafka, self.node.topics):
            require_one_description(self._lake, topic, self._own, self._clock)
        lease = take_lease(
            self._spark,
            self._lake.lease(f"node/{self.name}"),
            f"Node '{self.name}'",
            self._clock,
            orphan_seconds=LEASE_ORPHAN_SECONDS,
        )
        self._lease, on_step = lease, partial(self._before_commit, lease)
        self.require_own_tables()
        self._rebuild = rebuild_due(self._spark, self.node, self._lake, self._clock, on_step=on_step)
        if self._rebuild is not None:
            self.runner = self._rebuild.runner
        else:
            self.runner = self._new_runner(on_step)
            for topic in self.node.topics:
                require_log_reaches(self._lake, self.name, topic, self.runner.progress)
                require_log_as_described(self._lake, self.name, topic)
            self.has_run = True
        self._upkeep.error = None
        self.buffer = BufferFigures()
        self._raised = RateLimited(self._limits_since, LIMITS_READ_EVERY_SECONDS)

    def _new_runner(self, on_step: Callable[[str], None]) -> NodeRunner:
        is_read = self._is_read or self.has_readers
        return NodeRunner(self._spark, self.node, self._lake, on_step=on_step, is_read=is_read)

    def _log_is_due(self) -> bool:
        """Whether a reader in another pipeline waits for the node's log, which is not there."""
        return self.has_readers and bool(self.runner and not self.runner.log and not self._rebuild)

    def due(self) -> bool:
        """Whether a log has rows whose turn has come, or upkeep is due."""
        assert self.runner is not None
        if self._upkeep.error is not None:
            return True
        if self.paused or self._log_is_due():
            return not self.paused
        if self._watch.moved(self._watched(), promises=self.is_ordered or self.runner.node.reads_together):
            self._behind = True
        if self._behind and self.runner.due(self._clock.now_ms()):
            return True
        return not self._upkeep.under_way and bool(self.runner.unread or self._upkeep.fold_due(self.runner))

    def work(self) -> int:
        """Fold until nothing is left, or for a while; then begin the upkeep that is due."""
        assert self.runner is not None
        if self._upkeep.error is not None:
            raise self._upkeep.error
        if self.paused:
            return 0
        self._behind = True
        if self._rebuild is not None:
            self._advance(self._rebuild)
            if self._rebuild is not None:
                return 0
        if self._log_is_due() and not self._upkeep.under_way and self._lease is not None:
            self.runner = self._new_runner(partial(self._before_commit, self._lease))
        before, until = _records(self.runner), time.monotonic() + WORK_SECONDS
        self.micro_batches = 0
        while not self.paused and self._fold(self.runner) and not self._ends:
            self.went_well()
            self.micro_batches += 1
            self.buffer.see(self.runner.progress.buffer)
            self._upkeep.after_micro_batch(self.runner)
            if time.monotonic() > until:
                self.check_now()
                break
        if self.runner.unread and not self._upkeep.under_way:
            self.runner.clear()
        self._upkeep.after_trigger(self.runner, at_rest=not self._behind)
        self.records += (handled := _records(self.runner) - before)
        return handled

    def _watched(self) -> Sequence[Topic]:
        """The topics whose logs this process does not write; every half minute all of them."""
        if time.monotonic() >= self._look_at_all_at:
            self._look_at_all_at = time.monotonic() + LOOK_AT_ALL_EVERY_SECONDS
            return self.node.topics
        own = {log.name for log in self.logs if log.writes}
        return [topic for topic in self.node.topics if topic.name not in own]

    def _advance(self, rebuild: Rebuild) -> None:
        """Rebuild until nothing is left, and swap it in; the node's runner is an ordinary one from then on."""
        while not self._ends and not self.paused:
            if not rebuild.advance():
                if rebuild.is_behind:
                    return  # a node that it reads is rebuilt, too, and has not come so far yet
                assert self._lease is not None
                rebuild.swap(self._lease)
                rebuild.close()
                self._rebuild = None
                on_step = partial(self._before_commit, self._lease)
                self.runner, self.has_run = self._new_runner(on_step), True
                return

    def _fold(self, runner: NodeRunner) -> bool:
        """Fold all that came until now, as one micro-batch, in its turn; False if none is due or there is nothing new."""
        for gave_back in (False, True):
            with self._turns.taken(lambda: self._ends, first=gave_back) as mine:
                if not mine or not runner.due(self._clock.now_ms()):
                    break
                at_work = [] if gave_back else self._ask_logs()
                if not at_work:
                    if runner.advance():
                        for reader in self.readers:
                            reader.check_now()
                        return True
                    self._behind = False
                    break
            for log, number in at_work:
                log.schedule.wait_for(number)
        for log in self.logs:
            log.schedule.go_on()
        return False

    @property
    def busy(self) -> bool:
        """Whether a micro-batch is under way, or upkeep, which writes the same tables."""
        return super().busy or self._upkeep.under_way

    def _ask_logs(self) -> Sequence[tuple[LogStream, int]]:
        """Ask the logs for what came until now, and wait for those that begin for this node: they work in its turn.

        Out: those that are at work without it, and the numbers of their micro-batches
        """
        spare = self._turns.spare
        asked = [(log, log.ask(spare_core=spare)) for log in self.logs]
        coming = [(log, found) for log, found in asked if found is not None]
        for log, found in coming:
            if found.begun:
                log.schedule.wait_for(found.number)
        return [(log, found.number) for log, found in coming if not found.begun]

    def mended(self) -> bool:
        """Also whether the node was full, and its limits have been set in the log since."""
        return super().mended() or (isinstance(self.error, FullError) and bool(self._raised()))

    def _limits_since(self) -> bool:
        """Looked up every few seconds, while the node is full."""
        assert self.runner is not None
        _, entries = limits_known(self._lake, self.node)
        return any(entry.ingested_at_ms > self.runner.refused_ms for entry in entries)

    def close(self) -> None:
        """Wait for upkeep under way, and give the leases back."""
        self._upkeep.end()
        if self._rebuild is not None:
            self._rebuild.close()
            self._rebuild = None
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def finish(self, deadline: float) -> None:
        """Fold what the logs still hold, until a monotonic deadline; for a drain after the logs have stopped.

        Raises: what ends the node; then its thread ends, too
        """
        if self.runner is None or self.state != "running":
            return
        with self._busy:
            if self._ends:  # the micro-batch for which this has waited was broken off
                return
            try:
                self._finish(self.runner, deadline)
            except BaseException as error:
                self._end_with(error)
                raise

    def _finish(self, runner: NodeRunner, deadline: float) -> None:
        while time.monotonic() < deadline and runner.advance():
            pass
        self._upkeep.end()
        if runner.unfolded and time.monotonic() < deadline:
            self._upkeep.settle(runner)

    def lag_ms(self) -> int:
        """How far, in commit time, the node is behind the logs that it reads."""
        assert self.runner is not None
        upto_ms = self.runner.progress.upto_ms
        own = {log.name: log.committed_ms() for log in self.logs if log.writes}
        frontiers = {
            t.name: own.get(t.name) or frontier_ms(self._lake, t, recent=True) for t in self.node.topics
        }
        return max(0, *(ms - upto_ms.get(name, 0) for name, ms in frontiers.items()))

    def lag_records(self) -> int | None:
        """The records of its logs that the node has not read; counted at most every ten seconds."""
        return self._waiting()

    def state_bytes(self) -> int | None:
        """The size of the node's state tables; looked up at most once a minute."""
        return self._state_size()

    def _count_waiting(self) -> int:
        assert self.runner is not None
        return waiting_records(self._spark, self._lake, self.node.topics, self.runner.progress.upto_ms)

    def _measure_state(self) -> int:
        assert self.runner is not None
        return self.runner.state_bytes()

    def has_folded(self, targets: Mapping[str, int]) -> bool:
        """Whether the node has folded its logs through these commit times, and what nodes of other pipelines give."""
        if self.runner is None or self._rebuild is not None:
            return False
        if references_of(self.node) and self.lag_ms():
            return False
        upto_ms = self.runner.progress.upto_ms
        return all(upto_ms.get(t.name, 0) >= reached_by(t, targets) for t in self.node.topics)

    def _before_commit(self, lease: Lease, step: str) -> None:
        """Each step is bound to the lease under which its runner was opened: one left over writes no outputs."""
        if step in ("before outputs", "before swap"):  # the fence guards the commit of the state
            lease.check_now_and_then()
        self._on_step(step)


def _records(runner: NodeRunner) -> int:
    totals = runner.progress.totals()
    return sum(records for fate, records in totals.items() if fate not in NOT_RECORDS)
