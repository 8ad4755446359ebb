"""Advance one node, micro-batch by micro-batch, in an order that survives a crash anywhere.

One micro-batch, in this order (the names are the crash marks of the tests):
  1. the plan: how far to read. For sinks it is kept, and reused if the micro-batch is repeated. It is a small file without a
     fence, so it decides nothing once results are there: their commit says how far they go (see `nodes.standing.planned`);
  2. "before outputs"   everything is folded into files that no commit names; records that the node cannot use are
                        remembered, and the plan ends where the fold did;
  3. "after sinks"      sinks have their rows;
     "after outputs"    appended results are durable; a repeat finds their commit record and passes
                        over both, or delivers the same rows again, which changes nothing;
  4. "after state"      state and progress are durable in one commit, current results with them: the micro-batch is done.
Nothing else holds progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import structlog

from headrace import lake as lakes
from headrace.description import is_unnamed
from headrace.description.clocks import WALL
from headrace.engine.compact_runs import AT_REST, OFTEN, Packing
from headrace.engine.slices.log_slices import first_commit_ms
from headrace.engine.state_files import StateSource
from headrace.engine.state_layout import SHARED
from headrace.engine.steps.unusable import words_of
from headrace.errors import TransientError
from headrace.lake import TableWriter, kinds, small_files
from headrace.log.decisions.promise import read_promise
from headrace.nodes.bases import Bases
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.stored_columns import note_columns
from headrace.nodes.folded_increment import fold_increment, increment_of
from headrace.nodes.node_tables import (
    frontier_ms,
    note_description,
    read_progress,
    require_state_reaches,
    results_writer,
    slices_of,
)
from headrace.nodes.standing.next_increment import next_increment
from headrace.nodes.standing.planned import planned_after, results_record
from headrace.nodes.standing.state_commits import last_state_commit, state_record, writings_read
from headrace.nodes.unusable_table import UnusableTable
from headrace.writing.broken_beginning import clear_broken_beginning
from headrace.writing.delivery.deliveries import MicroBatch
from headrace.writing.delivery.sink_quotas import SinkQuotas
from headrace.writing.node_logs.node_log import node_log
from headrace.writing.state_figures import StateFigures
from headrace.writing.state_upkeep import StateUpkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node, Topic
    from headrace.engine.steps.unusable import Unusable
    from headrace.lake.paths import Lake
    from headrace.nodes.folded_increment import FoldedIncrement
    from headrace.nodes.progress import Progress

logger = structlog.get_logger(__name__)


class NodeRunner:
    """Writes one node's results and state. Exactly one may be open for a node; the caller holds the lease."""

    def __init__(
        self,
        spark: SparkSession,
        node: Node,
        lake: Lake,
        *,
        on_step: Callable[[str], None] = lambda step: None,
        is_read: bool = False,
        bounds: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """Open the node's tables, creating them if need be, and recover its progress.

        In: on_step    called with each numbered step's name; it may raise to stop there
            is_read    whether other nodes read it
            bounds     asked before each micro-batch: commit times of topics beyond which it reads nothing
        """
        self.node, self.name = node, node.required_name
        self._spark, self._lake, self._on_step, self._bounds = spark, lake, on_step, bounds
        self._writer = f"node/{self.name}"
        self._writings = writings_read(lake, node)
        self._of = bound(spark, node)
        self.progress = read_progress(lake, node)  # refuses another description before its columns do
        if not self.progress.batch:
            clear_broken_beginning(lake, node, self._of.result_schema, self._of.state_schema)
        results = lakes.create(lake.table(self.name), self._of.result_schema, kinds.RESULTS)
        rows_of = lakes.appender_epoch(results)  # read before the state's epoch is taken (see `Bases`)
        skipping = kinds.state(tuple(SHARED.names))
        self._state = lakes.create(lake.state(self.name), self._of.state_schema, skipping)
        # From here on no writer before this one can commit; so its progress is read again.
        self._state_writer = TableWriter(self._state, lakes.APPENDER, carries=[self._writer])
        self._results_writer: TableWriter | None = None
        if self.node.has_days:
            self._results_writer = TableWriter(results, lakes.APPENDER, carries=[self._writer])
        self.progress = read_progress(lake, node)
        require_state_reaches(results, results_writer(node), self.name, self.progress)
        self.unread = 0  # the micro-batches through which changes in the state are read by nobody any more
        note_description(lake, node)
        note_columns(lake, node, self._of)
        self._repeating = self._sound = True  # not sound: what stands is not known
        # Changes of current results are there for sinks alone, until these have them.
        self._outputs = lake.table(self.name) if self.node.has_days else lake.changes(self.name)
        if not self.node.has_days:
            small_files.delete(self._outputs)  # what a crash has left
        self._state_upkeep = StateUpkeep(self._state, self._of.operator, self._writer)
        self.refused_ms = 0  # how far the log of the first topic was read when a bound was exceeded
        self.reads = StateFigures()
        self.quotas = SinkQuotas(node)
        self._bases = None if self.node.has_days else Bases(lake, self._of, rows_of)
        self._unusable = UnusableTable(spark, lake, node)
        self.log = node_log(lake, node, is_read=is_read) if self.node.has_days else None
        self._publish()

    def advance(self) -> bool:
        """Fold what the logs hold beyond the progress, or a part of it; False when there is nothing new.

        Raises: TransientError behind a micro-batch that was broken off, of which some may stand: open the node again
        """
        if not self._sound:
            raise TransientError(f"Node '{self.name}' broke off a micro-batch.", hint="Open it again.")
        self._sound = False
        advanced = self._advance()
        self._sound = True
        return advanced

    def _advance(self) -> bool:
        plan = self._plan()
        if plan is None:
            self._promise_readers()
            return False
        progress, upto_ms = self.progress, plan["upto_ms"]
        slices = slices_of(self._lake, self.node, progress.upto_ms, upto_ms)
        source = StateSource.committed(self._state, recent=True)
        self._state_writer.judge_known()  # results are written before the state: no rows of somebody else may get there
        try:
            increment = increment_of(self.node, slices, progress, source, self._outputs)
            found = fold_increment(self._spark, self.node, increment, progress, self._unusable.known)
        except Exception as error:
            who = "A step without a name" if is_unnamed(self.name) else f"Node '{self.name}'"
            error.add_note(f"{who} folded its logs: {self.node.in_words}")
            raise
        self._remember(found.apart.added)
        self.reads.see(found.read)
        self._write(found, self._shortened(plan, found.progress))
        self.progress, self._repeating = found.progress, False
        self._publish()
        return True

    def advance_packed(self) -> bool:
        """Advance, and pack the state once it has many large runs: without a stream no upkeep does it."""
        advanced = self.advance()
        if advanced and self.is_packing_due():
            self.pack()
        return advanced

    def _publish(self) -> None:
        if self.log is not None:
            self.log.follow(self.progress)

    def _promise_readers(self) -> None:
        """Promise what the node's logs do, as far as it has folded them."""
        if self.log is not None:
            self.log.promise(min(self._folded_ms(topic) for topic in self.node.topics))

    @property
    def _is_waiting(self) -> bool:
        """Whether something of the node waits for the wall clock."""
        return self.node.clock == WALL and self.log is not None and not self.log.has_waited

    def _folded_ms(self, topic: Topic) -> int:
        """No row of a topic that comes later, or is not folded yet, lies at or before this commit time."""
        done_ms = self.progress.upto_ms.get(topic.name, 0)
        uri = self._lake.log(topic.name)
        # The promise first: a commit may come in between, lies beyond it, and is not folded.
        promised_ms = read_promise(uri)
        end_ms = frontier_ms(self._lake, topic)
        may_change = any(wait.node for wait in self.node.wall_waits)  # a limit may be a longer one since
        if self._is_waiting or (may_change and end_ms > done_ms):
            return done_ms  # the next commit gives rows of times before it
        if end_ms > done_ms:  # the node rests, or stops at its bounds
            return first_commit_ms(uri, done_ms, end_ms) - 1
        return max(promised_ms, done_ms)

    def _remember(self, unusable: Sequence[Unusable]) -> None:
        self._unusable.add(unusable)
        for one in unusable[:1]:
            first = words_of(one.place)
            logger.warning("a step raises for records", node=self.name, records=len(unusable), first=first)

    def _shortened(self, plan: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
        """The plan as far as the micro-batch goes. A repetition has to go as far, so it is there before sinks have anything.

        A process that was paused during the fold may find the plan of one that has gone on since, and leaves it.
        """
        upto_ms = {topic: progress.upto_ms[topic] for topic in plan["upto_ms"]}
        shortened, path = {**plan, "upto_ms": upto_ms}, self._lake.plan(self.name)
        if self.node.sinks and upto_ms != plan["upto_ms"] and small_files.read_json(path) in (None, plan):
            small_files.write_json(path, shortened)
        return shortened

    def _forget(self, plan: Mapping[str, Any]) -> None:
        """Delete a plan, and no other."""
        if small_files.read_json(self._lake.plan(self.name)) == plan:
            small_files.delete(self._lake.plan(self.name))

    def _write(self, folded: FoldedIncrement, plan: Mapping[str, Any]) -> None:
        written = self._has_outputs(folded.progress.batch)
        if folded.refused is not None and not written and self.name not in self._lake.aside:
            self._discard(folded)
            self._forget(plan)  # so that the next reads what was changed since
            self._repeating, self.refused_ms = False, plan["upto_ms"][self.node.topics[0].name]
            self._sound = True  # nothing of it stands
            raise folded.refused
        self._on_step("before outputs")
        if not written:
            self._write_outputs(folded)
        self._on_step("after outputs")
        record = state_record(self.node, folded.progress, self._writings, self.reads.numbers())
        self._state_writer.append(folded.state, record)
        self._on_step("after state")

    def finish(self) -> bool:
        """Complete the micro-batch that was planned and never became durable; False when there is none."""
        return self._planned() is not None and self.advance()

    def due(self, now_ms: int) -> bool:
        """Whether a throttled node's next interval of commit time has begun, and its sinks' quotas have room."""
        if self.quotas.delay_seconds:
            return False
        throttle_ms = self.node.update_source.throttle_ms
        last_ms = max(self.progress.upto_ms.values(), default=0)
        return not throttle_ms or now_ms // throttle_ms > last_ms // throttle_ms

    @property
    def unfolded(self) -> int:
        """Micro-batches whose changes are not folded into the table of current results yet."""
        return 0 if self._bases is None else self.progress.batch - self._bases.folded

    def state_bytes(self) -> int:
        """The size of the files of the state, by the commits that name them."""
        return self._state.snapshot().bytes

    def is_packing_due(self, *, at_rest: bool = False) -> bool:
        """Whether the state has many large runs. In: at_rest  the node has nothing to fold, so that fewer are too many."""
        return self._state_upkeep.is_due(at_rest=at_rest)

    def pack(self, *, whole: bool = False, at_rest: bool = False) -> None:
        """Put the rows of the state that are read again into fewer files, merged where they can be.

        May run beside `advance`: the fence lets both commit.

        In: whole    all of it; else runs that do not outweigh the others (see `compact_runs`)
            at_rest  runs of enough rows, few as they may be
        """
        packing = Packing(whole=True) if whole else AT_REST if at_rest else OFTEN
        self._state_upkeep.pack(self.progress.clock, packing)

    def maintain(self) -> None:
        """Fold changes into the table of current results, drop the state that nothing reads; results do not change."""
        if not self.node.has_days:
            self.settle()
        self.pack(whole=True)

    def settle(self) -> None:
        """Fold changes into the table of current results, and drop those that the fold before has folded."""
        self.compact()
        self.clear()

    def compact(self) -> None:
        """Fold changes into the base (see `Bases.fold`); may run beside `advance`.

        The state keeps what is folded for readers that began before; `clear` drops what the fold before has folded.
        """
        assert self._bases is not None
        progress, folded = self.progress, self._bases.folded
        files = self._state_upkeep.changes(folded, progress.batch)
        self._bases.fold(StateSource(self._state.uri, files), progress)
        self.unread = folded

    def clear(self) -> None:
        """Drop changes that are in the base since the fold before the last one: who reads an older base needs the others."""
        self._state_upkeep.drop(self.unread)
        self.unread = 0

    def _write_outputs(self, folded: FoldedIncrement) -> None:
        """Most downstream first: the commit of the results says that the sinks have theirs."""
        files = folded.results if self.node.has_days else folded.changes
        if files and self.node.sinks:
            MicroBatch(self._spark, self.node, self._of, self._outputs, files).deliver(self._lake)
            self.quotas.delivered(files)
        self._on_step("after sinks")
        self._append(folded)
        if folded.changes:
            small_files.delete(self._outputs)

    def _append(self, folded: FoldedIncrement) -> None:
        if folded.results and self._results_writer is not None:
            self._results_writer.append(folded.results, self._results_record(folded.progress))

    def _results_record(self, progress: Progress) -> dict[str, Any]:
        """The record of a commit of results: a repetition of the micro-batch has to go as far (see `standing.planned`)."""
        upto_ms = {topic.name: progress.upto_ms[topic.name] for topic in self.node.topics}
        began = {"after_ms": dict(self.progress.upto_ms), "upto_ms": upto_ms}
        return {"writer": self._writer, "batch": progress.batch, **began}

    def _discard(self, folded: FoldedIncrement) -> None:
        outputs = [*folded.results, *folded.changes]
        small_files.delete_files(f"{self._outputs}/{file.path}" for file in outputs)
        small_files.delete_files(f"{self._state.uri}/{file.path}" for file in folded.state)

    def _plan(self) -> dict[str, Any] | None:
        path, batch = self._lake.plan(self.name), self.progress.batch + 1
        if self._repeating:
            known = self._planned()
            if known is not None and known["batch"] == batch:
                return dict(known)
            self._repeating = False
        upto_ms = self._following({t.name: self.progress.upto_ms.get(t.name, 0) for t in self.node.topics})
        if upto_ms is None:
            return None
        began = {"batch": batch, "after_ms": dict(self.progress.upto_ms)}
        plan = {**began, "upto_ms": upto_ms, "token": uuid4().hex}  # no other plan is equal to it
        if self.node.sinks:
            small_files.write_json(path, plan)
        return plan

    def _following(self, done_ms: Mapping[str, int]) -> Mapping[str, int] | None:
        """Through which commit times the next micro-batch goes; None: there is nothing new. In: done_ms  what is read."""
        return next_increment(self._lake, self.node, done_ms, self._bounds())

    def _planned(self) -> Mapping[str, Any] | None:
        """The plan of the micro-batch that never became durable; None: there is none."""
        last = last_state_commit(self._lake, self.name)
        return planned_after(self._lake, self.name, last, appended=self.node.has_days)

    def _has_outputs(self, batch: int) -> bool:
        if not self._repeating or not self.node.has_days:
            return False
        return int(results_record(self._lake, self.name).get("batch", 0)) >= batch
