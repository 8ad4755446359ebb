"""The stream runtime: one Spark session that hosts all logs and nodes, side by side."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from headrace.description import is_unnamed
from headrace.errors import DescriptionError, TerminalError, TransientError
from headrace.lake.notices import recent_names
from headrace.log.clock import SystemClock
from headrace.log.site import Site
from headrace.nodes.descriptions.asset_names import stream_name
from headrace.nodes.descriptions.references import Generations
from headrace.nodes.descriptions.sink_settings import reached_by
from headrace.nodes.descriptions.topics import (
    batched_topics,
    is_hosted,
    is_read,
    longest_wait_ms,
    ordered_logs,
    reads,
    tick_every_ms,
    topics_of,
    upstream_first,
    wall_waits,
)
from headrace.nodes.node_tables import frontier_ms
from headrace.nodes.unusable_table import unusable_uri
from headrace.spark.session import cores_of, pipeline_session
from headrace.streams.drain_logs import halt_together
from headrace.streams.jvm_process import JvmProcess
from headrace.streams.loops.log_stream import LogStream
from headrace.streams.loops.log_watch import log_version
from headrace.streams.loops.node_stream import NodeStream, Shared
from headrace.streams.mirroring import Mirroring
from headrace.streams.pausing import wishes
from headrace.streams.reader_meeting import ReaderMeeting
from headrace.streams.status.last_errors import LastErrors
from headrace.streams.status.statuses import log_status, node_status
from headrace.streams.status.stream_status import measured
from headrace.writing.leases.readers import Asked
from headrace.writing.scheduling import Turns
from headrace.writing.table_upkeep import TableUpkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock
    from headrace.spark.kafka import KafkaSettings
    from headrace.streams.status.stream_status import StreamStatus

JVM_ENDS_SECONDS = 1.0  # between the first call that fails, and the end of the JVM's process


class StreamRuntime:
    """Runs the logs and nodes of some descriptions until drained."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        nodes: Sequence[Node],
        *,
        kafka: KafkaSettings,
        clock: Clock | None = None,
        only: Collection[str] | None = None,
        trigger_ms: int = 1_000,
        standby: bool = False,
        on_step: Callable[[str, str], None] = lambda asset, step: None,
    ) -> None:
        """Prepare; nothing runs before the first `poll`.

        In: only        which queries to host, as `log/<topic>` and `stream/<node>_stream`; None: all
            trigger_ms  the shortest time between two micro-batches of a query
            standby     whether queries wait for leases that another process holds, however long, and then take over
            on_step     called with the asset and the step's name at each numbered commit step
        """
        session = pipeline_session(spark)
        clock = clock or SystemClock()
        nodes = reached_by(upstream_first(nodes), kafka)
        self._topics = topics_of(nodes)
        self._batched = batched_topics(nodes)
        ordered, own = ordered_logs(nodes), tuple(node.required_name for node in nodes)

        logs = [
            LogStream(
                Site(session, lake, clock, partial(on_step, f"log/{name}")),
                topic,
                kafka,
                Asked(longest_wait_ms(topic, nodes), wall_waits(topic, nodes), name in ordered, own),
                trigger_ms=trigger_ms,
                tick_every_ms=tick_every_ms(topic, nodes),
            )
            for name, topic in self._topics.items()
        ]
        hosted = {name for name in self._topics if only is None or f"log/{name}" in only}
        upkeep = Turns(1)
        shared = Shared(Turns(cores_of(session)), upkeep, Generations(lake), own)
        streams = [
            NodeStream(
                Site(session, lake, clock, partial(on_step, stream_name(node.required_name))),
                node,
                shared,
                trigger_ms=trigger_ms,
                is_read=is_read(node, nodes),
            )
            for node in nodes
        ]
        self._lake, self._clock, self._nodes = lake, clock, nodes
        self._upkeep = TableUpkeep(self._written, upkeep, logs=self._logs_written, appended=self._appended_to)
        self._logs = [s for s in logs if s.name in hosted]
        self._streams = [s for s in streams if is_hosted(s.node, nodes, only)]
        self._mirroring = Mirroring(lake, nodes)
        self._meeting = ReaderMeeting(lake, clock, nodes, self._logs, self._streams)
        for query in (*self._logs, *self._streams):
            query.stands_by = standby
        for log in self._logs:
            log.readers = [s for s in self._streams if log.topic in s.node.topics]
        for stream in self._streams:
            stream.logs = [log for log in self._logs if stream in log.readers]
            stream.readers = [s for s in self._streams if reads(s.node, stream.node)]
        if not self._logs and not self._streams:
            known = ", ".join([f"log/{s.name}" for s in logs] + [stream_name(s.name) for s in streams])
            raise DescriptionError(f"None of {sorted(only or ())} is known.", hint=f"There are: {known}.")
        self._jvm = JvmProcess(session, self._end_with_jvm)
        self._polled = self._draining = self._drained = False
        self._wishes = partial(wishes, lake, recent_names)
        self._last_errors = LastErrors(lake, clock)
        self._trouble: Exception | None = None  # why it is not known which nodes rest

    @property
    def jvm_ended(self) -> bool:
        """True once Spark's JVM has ended: every query has, and this process can open none again."""
        return self._jvm.ended

    def poll(self) -> list[StreamStatus]:
        """Open what should run and does not, and say how each query fares. Never raises.

        After the JVM has ended every query that had not finished is `ended`, and only what stays true is said of it.
        """
        if not self._polled:
            self._polled = True
            self._jvm.watch()
        if not self._jvm.has_ended():
            try:
                self._keep_running()
                statuses = self._statuses()
                return statuses if self._draining else self._mirroring.keep(statuses)
            except Exception:
                if not self._jvm.ends_within(JVM_ENDS_SECONDS):
                    raise
        self._end_with_jvm()
        return [status.as_of_the_end() for status in self._statuses()]

    def _keep_running(self) -> None:
        self._meeting.keep()
        known = self._follow_wishes()
        for stream in self._streams:
            stream.find_nodes()
        for log in self._logs:
            log.keep_running()
        for stream in self._streams:
            # Of one that runs, nothing is looked up in the lake.
            if stream.running or (known and stream.find_nodes() and self._may_have_logs(stream)):
                stream.keep_running()
        # A run reports once more after its drain, and a thread that still reads would keep its process from ending.
        if not self._draining:
            self._upkeep.keep()

    def _follow_wishes(self) -> bool:
        """Let nodes rest that a person has paused, and hand over those that somebody asks for.

        Out: False: it was never known which, so none may begin
        """
        found, trouble = measured(self._wishes)
        self._trouble = self._trouble if found is None and trouble is None else trouble
        if found is None:
            return False
        for stream in self._streams:
            stream.pause(paused=stream.name in found.paused)
            if stream.name in found.asked:
                stream.hand_over()
        return True

    def _statuses(self) -> list[StreamStatus]:
        of_nodes = {stream.name: node_status(stream, self._trouble) for stream in self._streams}
        for stream in self._streams:  # each after those that it reads
            for step in self._streams:
                if is_unnamed(step.name) and stream in step.readers:
                    of_nodes[stream.name] = of_nodes[stream.name].with_step(of_nodes[step.name])
        shown = [status for name, status in of_nodes.items() if not is_unnamed(name)]
        of_logs = [log_status(log, self._clock.now_ms()) for log in self._logs]
        return self._last_errors.follow([*of_logs, *shown])

    def drain(self, timeout_seconds: float = 60, *, close_batches: bool = False) -> None:
        """Let micro-batches finish, fold what the logs hold, give back the leases.

        In:     timeout_seconds  after it the nodes stop where they are; the next start reads on from there
                close_batches    record in the logs that open batches close here; else they wait for the next start
        Raises: JvmEndedError when Spark's JVM ended before: what the logs still hold is not folded. Leases are given back.
        """
        if self._drained:
            return
        self._draining = True
        deadline = time.monotonic() + timeout_seconds
        try:
            if not self._jvm.has_ended():
                self._drain(deadline, close_batches)
        except Exception:
            if not self._jvm.ends_within(JVM_ENDS_SECONDS):
                raise
        if self._jvm.has_ended():
            self._let_go(deadline)
            raise self._jvm.error()
        self._jvm.let_go()
        self._drained = True

    def _drain(self, deadline: float, close_batches: bool) -> None:
        with ExitStack() as then:  # the last one first, and each whatever the others raise
            then.callback(self._mirroring.end)
            then.callback(self._upkeep.end)
            for stream in reversed(self._streams):
                then.callback(stream.drain)
                then.callback(self._finish, stream, deadline)
            for log in self._logs:
                then.callback(log.drain)
            halt_together(self._logs, self._batched if close_batches else ())

    def _finish(self, stream: NodeStream, deadline: float) -> None:
        if time.monotonic() < deadline:
            stream.finish(deadline)

    def _end_with_jvm(self) -> None:
        """Called by the thread that watches the JVM, as soon as it has ended; again where a failure came between."""
        for query in (*self._logs, *self._streams):
            query.end_with_jvm(self._jvm.error())

    def _let_go(self, deadline: float) -> None:
        """Give back the leases of queries whose JVM has ended."""
        self._end_with_jvm()
        self._upkeep.end()
        for query in (*self._logs, *self._streams):
            query.let_go(deadline)

    def set_trigger(self, trigger_ms: int) -> None:
        """Change the time between two micro-batches. Call it with each poll: a log changes between two of them."""
        for query in (*self._logs, *self._streams):
            query.set_trigger(trigger_ms)

    def run_until_caught_up(
        self, timeout_seconds: float = 600, poll_seconds: float = 0.5
    ) -> list[StreamStatus]:
        """Poll until every log has read to Kafka's end and every node to its logs' end.

        A log that a run of another pipeline writes counts as far as it is written.

        Raises: TransientError when the time runs out, or a query failed again and again; TerminalError when a query failed
        because of what a person must decide; JvmEndedError when Spark's JVM has ended.
        """
        deadline = time.monotonic() + timeout_seconds
        targets: dict[str, int] | None = None
        while time.monotonic() < deadline:
            statuses = self.poll()
            if self.jvm_ended:
                raise self._jvm.error()
            failed = [f"{status.asset}: {status.error}" for status in statuses if status.state == "failed"]
            if failed:
                causes = [each.error for each in (*self._logs, *self._streams) if each.state == "failed"]
                lasts = any(isinstance(cause, TerminalError) for cause in causes)
                error = TerminalError if lasts else TransientError
                raise error("A stream failed for good.", detail="; ".join(failed))
            if targets is None and self._logs_at_end(statuses):
                targets = {log.name: self._written_ms(log) for log in self._logs}
            if targets is not None and all(stream.has_folded(targets) for stream in self._streams):
                return self.poll()
            time.sleep(poll_seconds)
        raise TransientError(f"Not caught up after {timeout_seconds:.0f} s.", detail=str(self.poll()))

    def _logs_at_end(self, statuses: Sequence[StreamStatus]) -> bool:
        elsewhere = {log.name for log in self._logs if log.is_written_elsewhere}
        return all(s.lag_records == 0 for s in statuses if s.kind == "log" and s.name not in elsewhere)

    def _written_ms(self, log: LogStream) -> int:
        return log.committed_ms() if log.writes else frontier_ms(self._lake, log.topic)

    def _logs_written(self) -> Iterator[str]:
        """The paths of the logs that are written here."""
        for log in self._logs:
            yield self._lake.log(log.name)
        for stream in self._streams:
            if stream.runner is not None and stream.runner.log is not None:
                yield self._lake.log(stream.runner.log.topic.name)

    def _appended_to(self) -> Iterator[str]:
        """The paths of the result tables to which rows are only appended here."""
        for stream in self._streams:
            if stream.node.has_days:
                yield self._lake.table(stream.name)

    def _written(self) -> Iterator[str]:
        """The paths of the tables that are written here."""
        yield from self._logs_written()
        for stream in self._streams:
            yield self._lake.state(stream.name)
            yield self._lake.table(stream.name)
            yield unusable_uri(self._lake, stream.node)

    def _may_have_logs(self, stream: NodeStream) -> bool:
        """Whether the node can be opened; also if storage does not answer, for opening it says why and is tried again."""
        topics = stream.node.topics
        lowest, trouble = measured(lambda: min(log_version(self._lake, each) for each in topics))
        return trouble is not None or (lowest is not None and lowest >= 0)
