"""Advance one node, micro-batch by micro-batch, in an order that survives a crash anywhere.

One micro-batch, in this order (the names are the crash marks of the tests):
  1. the plan: how far to read, persisted and reused if the micro-batch is repeated;
  2. "before outputs"   everything is computed, nothing is written;
  3. "after outputs"    sinks have their rows, appended results are durable; a repeat finds their commit record and passes
                        over both, or delivers the same rows again, which changes nothing;
  4. "after state"      state and progress are durable in one commit: the micro-batch is done.
Nothing else holds progress.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.lake import TableWriter, kinds, small_files
from headrace.operators import operator_of
from headrace.operators.operator import CurrentOperator, Held
from headrace.runtime.bases import Bases
from headrace.runtime.columnar import ColumnarRunner
from headrace.runtime.micro_batch import in_files, in_frames
from headrace.runtime.node_tables import (
    frontier_ms,
    node_schemas,
    note_description,
    read_increment,
    read_progress,
    read_stretches,
    settled_ms,
)
from headrace.runtime.redeliver import delivery_of
from headrace.runtime.state_upkeep import StateUpkeep
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import (
    read_between,
    read_table,
)
from headrace.spark.one_task import table_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node, Topic
    from headrace.operators.progress import Progress
    from headrace.runtime.lake import Lake
    from headrace.runtime.micro_batch import MicroBatch

BEHIND_MS = 10_000  # of commit time: only beyond it is an increment measured before it is read


class NodeRunner:
    """Writes one node's results and state. Exactly one may be open for a node; the caller holds the lease."""

    def __init__(
        self,
        spark: SparkSession,
        node: Node,
        lake: Lake,
        *,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        """Open the node's tables, creating them if need be, and recover its progress.

        In: on_step  called with each numbered step's name; it may raise to stop there
        """
        self.node, self.name, self.operator = node, node.required_name, operator_of(node)
        self._spark, self._lake, self._on_step = spark, lake, on_step
        self._writer = f"node/{self.name}"
        self._schemas = node_schemas(spark, node)
        self.progress = read_progress(spark, lake, node)  # refuses another description before its columns do
        skipping = kinds.state(_bookkeeping(self._schemas.state.names))
        results = lakes.create(lake.table(self.name), table_schema(self._schemas.results), kinds.RESULTS)
        self._state = lakes.create(lake.state(self.name), table_schema(self._schemas.state), skipping)
        for part, schema in self._schemas.parts.items():
            lakes.create(lake.part(self.name, part), table_schema(schema))
        # From here on no writer before this one can commit; so its progress is read again.
        self._state_writer = TableWriter(self._state, lakes.APPENDER, carries=[self._writer])
        self._results_writer: TableWriter | None = None
        if self.operator.appended:
            self._results_writer = TableWriter(results, lakes.APPENDER, carries=[self._writer])
        self.progress = read_progress(spark, lake, node)
        self.unread = 0  # the micro-batches through which the state's changes are read by nobody any more
        note_description(spark, lake, node)
        self._repeating = True
        self._state_upkeep = StateUpkeep(spark, self._state, self.operator, self._schemas, self._writer)
        self.refused_ms = 0  # how far the log of the first topic was read when a bound was exceeded
        self._bases: Bases | None = None
        if isinstance(self.operator, CurrentOperator):
            self._bases = Bases(spark, lake, self.operator, self._schemas, self._state)
        parts = {} if self._bases is None else self._bases.parts
        self._columnar = ColumnarRunner(
            spark, self.operator, self._schemas, lake.table(self.name), self._state, parts
        )

    def advance(self) -> bool:
        """Fold what the logs hold beyond the progress; False when there is nothing new."""
        plan = self._plan()
        if plan is None:
            return False
        progress, upto_ms = self.progress, plan["upto_ms"]
        logs = {
            t.name: self._increment(t, progress.upto_ms.get(t.name), upto_ms[t.name])
            for t in self.node.topics
        }
        micro_batch = self._fold(logs, upto_ms, progress)
        try:
            self._write(micro_batch, upto_ms)
        finally:
            micro_batch.release()  # also when a sink is away: what waits is in the log
        self.progress, self._repeating = micro_batch.progress, False
        return True

    def _fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], progress: Progress
    ) -> MicroBatch:
        """By Arrow where that is possible, else by Spark."""
        folded = 0 if self._bases is None else self._bases.folded
        made = self._columnar.fold(logs, upto_ms, progress, folded, self._earlier)
        if made is not None:
            return in_files(
                self._spark, self.operator, self._schemas, made, self._results_writer, self._state_writer,
                logs=logs, held=partial(self._held, progress),
            )  # fmt: skip
        folded_frames = self.operator.fold(logs, upto_ms, self._held(progress), progress)
        return in_frames(folded_frames, self._results_writer, self._state_writer)

    def _write(self, micro_batch: MicroBatch, upto_ms: Mapping[str, int]) -> None:
        written = self._has_outputs(micro_batch.progress.batch)
        if micro_batch.refused is not None and not written:
            plan = self._lake.plan(self.name)
            small_files.delete(plan)  # so that the next reads what was changed since
            self._repeating, self.refused_ms = False, upto_ms[self.node.topics[0].name]
            raise micro_batch.refused
        self._on_step("before outputs")
        if not written:
            self._write_outputs(micro_batch)
        self._on_step("after outputs")
        micro_batch.append_state(self._record(micro_batch.progress))
        self._on_step("after state")

    def finish(self) -> bool:
        """Complete the micro-batch that was planned and never became durable; False when there is none."""
        plan = small_files.read_json(self._lake.plan(self.name))
        return plan is not None and plan["batch"] == self.progress.batch + 1 and self.advance()

    def due(self, now_ms: int) -> bool:
        """Whether a throttled node's next interval of commit time has begun; always, for others."""
        throttle_ms = self.operator.throttle_ms
        last_ms = max(self.progress.upto_ms.values(), default=0)
        return not throttle_ms or now_ms // throttle_ms > last_ms // throttle_ms

    @property
    def unfolded(self) -> int:
        """Micro-batches whose changes are not folded into the table of current results yet."""
        return 0 if self._bases is None else self.progress.batch - self._bases.folded

    def state_bytes(self) -> int:
        """The size of the files of the state and of its parts, by the commits that name them."""
        tables_of = (self._state, *({} if self._bases is None else self._bases.parts).values())
        return sum(table.snapshot().bytes for table in tables_of)

    def pack(self, *, whole: bool = False) -> None:
        """Put the rows of the state that are read again into fewer files, merged where they can be.

        May run beside `advance`: the fence lets both commit, and half of the cores are left to it.

        In: whole  all of it; else files that do not outweigh the others (see `not_outweighed`)
        """
        self._state_upkeep.pack(self.progress, whole=whole)

    def maintain(self) -> None:
        """Fold changes into the table of current results, drop the state that nothing reads; results do not change."""
        if not self.operator.appended:
            self.compact()
        self.clear()

    def compact(self) -> None:
        """Fold changes into the bases (see `Bases.fold`); may run beside `advance`.

        The state keeps what is folded for readers that began before; `clear` drops what the fold before has folded.
        """
        assert self._bases is not None
        progress, folded = self.progress, self._bases.folded
        self._bases.fold(self._held(progress), progress)
        self.unread = folded

    def clear(self) -> None:
        """Drop the state that nothing reads: of current results not beside `advance`, for files leave whole.

        Each micro-batch writes its own; one that maintenance made of several leaves with the last of them.
        """
        if self.operator.appended:
            self.pack(whole=True)
        else:
            self._state_upkeep.drop(self.unread)
        self.unread = 0

    def _held(self, progress: Progress) -> Held:
        if self._bases is None:
            return Held(None, self._read_state, self._earlier)
        return self._bases.held(lambda folded: self._since(folded, progress.batch))

    def _since(self, folded: int, done: int) -> DataFrame:
        """The changes of the micro-batches after the one that is folded, through one that is done."""
        if folded >= done:
            return local_frame(self._spark, [], self._schemas.state)
        return read_between(self._spark, self._state, self._schemas.state, "__batch", folded, done)

    def _read_state(self, column: str | None = None, first: int = 0, last: int | None = None) -> DataFrame:
        """The state; with a column, only the rows where it is from `first` through `last` (None: no bound)."""
        if column is None:
            return read_table(self._spark, self._state.uri)
        return read_between(self._spark, self._state, self._schemas.state, column, first - 1, last)

    def _earlier(self, stretches: Sequence[tuple[int, int]]) -> dict[str, DataFrame]:
        """Stretches of commit time of the logs, as far as these are folded."""
        upto_ms = self.progress.upto_ms
        return {
            t.name: read_stretches(self._spark, self._lake, t, stretches, upto_ms.get(t.name, 0))
            for t in self.node.topics
        }

    def _write_outputs(self, micro_batch: MicroBatch) -> None:
        """Most downstream first: the commit of the results says that the sinks have theirs."""
        results, sinks = micro_batch.results, self.node.sinks
        if not sinks or micro_batch.emitted is None:
            self._append(micro_batch)
            return
        if results is not None:
            results.persist()  # what sinks get is computed from it
        rows = micro_batch.emitted().persist()
        try:
            for sink in sinks:
                sink.deliver(rows, delivery_of(self._lake, self.node, sink))
            self._append(micro_batch)
        finally:
            rows.unpersist()
            if results is not None:
                results.unpersist()

    def _append(self, micro_batch: MicroBatch) -> None:
        if micro_batch.append_results is not None:
            micro_batch.append_results({"writer": self._writer, "batch": micro_batch.progress.batch})

    def _plan(self) -> dict[str, Any] | None:
        path, batch = self._lake.plan(self.name), self.progress.batch + 1
        if self._repeating:
            plan: dict[str, Any] | None = small_files.read_json(path)
            if plan is not None and plan["batch"] == batch:
                return plan
            self._repeating = False
        topics, progress = self.node.topics, self.progress
        done_ms = {topic.name: progress.upto_ms.get(topic.name, 0) for topic in topics}
        frontiers = {topic.name: frontier_ms(self._spark, self._lake, topic) for topic in topics}
        if all(frontiers[name] <= ms for name, ms in done_ms.items()):
            return None
        if self.operator.ordered:
            settled = min(settled_ms(self._spark, self._lake, topic) for topic in topics)
            settled = self._portion(topics, done_ms, settled)
            if settled <= min(done_ms.values()):
                return None
            # One that began without sinks may have read a topic further than all of them are settled.
            upto_ms = {name: max(settled, done) for name, done in done_ms.items()}
        else:
            upto_ms = {t.name: self._portion([t], done_ms, frontiers[t.name]) for t in topics}
        plan = {"batch": batch, "upto_ms": upto_ms}
        small_files.write_json(path, plan)
        return plan

    def _portion(self, topics: Sequence[Topic], done_ms: Mapping[str, int], upto_ms: int) -> int:
        """How far the next increment of these topics goes: all the way, unless they are behind and that were too much."""
        rows_max = self.operator.rows_max
        if rows_max is None or upto_ms - min(done_ms[topic.name] for topic in topics) <= BEHIND_MS:
            return upto_ms
        commits: Counter[int] = Counter()
        for topic in topics:
            rows = self._increment(topic, done_ms[topic.name], upto_ms)
            counted = rows.groupBy(F.unix_millis("ingested_at").alias("at")).count()
            commits.update({row["at"]: row["count"] for row in counted.collect()})
        taken, reach = 0, None
        for at in sorted(commits):
            taken += commits[at]
            if reach is not None and taken > rows_max:
                return reach
            reach = at
        return upto_ms

    def _increment(self, topic: Topic, after_ms: int | None, upto_ms: int) -> DataFrame:
        return read_increment(self._spark, self._lake, topic, after_ms=after_ms, upto_ms=upto_ms)

    def _has_outputs(self, batch: int) -> bool:
        if not self._repeating or not self.operator.appended:
            return False
        commit = lakes.last_commit(lakes.open_table(self._lake.table(self.name)), self._writer)
        return commit is not None and commit.record["batch"] >= batch

    def _record(self, progress: Progress) -> dict[str, Any]:
        return {
            "writer": self._writer,
            "fingerprint": self.node.fingerprint(),
            "progress": progress.to_json(),
        }


def _bookkeeping(columns: list[str]) -> tuple[str, ...]:
    """The columns that predicates on the state name: Delta keeps minima and maxima of these alone."""
    known = ("__pane", "__point", "__batch", "__opened_ms", "__end_ms", "__event_ms")
    return tuple(name for name in columns if name in known)
