"""The test driver: the real sequencer, operators and commits, with a clock and crashes that a test controls."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headrace import lake as lakes
from headrace.description.durations import duration_ms
from headrace.description.limits import limits_asked, suppressed_at
from headrace.description.seed import Seed
from headrace.errors import DescriptionError
from headrace.lake.paths import Lake
from headrace.lifecycle.erasure import Erasure
from headrace.lifecycle.live_limits import acceptable, limits_topic, topics_ticking
from headrace.lifecycle.retention import Retention
from headrace.log.clock import ManualClock, SystemClock
from headrace.log.sequencer import Sequencer
from headrace.nodes.descriptions.references import among_themselves
from headrace.nodes.descriptions.topics import (
    batched_topics,
    is_read,
    longest_wait_ms,
    ordered_logs,
    topics_of,
    wall_waits,
)
from headrace.operators.registry import operator_for
from headrace.spark.on_demand import SparkOnDemand, laptop_session, session_of
from headrace.testing.findings import Findings
from headrace.testing.own_sinks import nodes_by_name
from headrace.testing.piped import PipedTopic, keep_own_schemas, seed_piped
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Duration, Node, Topic
    from headrace.lifecycle.erasure import Erased
    from headrace.lifecycle.retention import Cut
    from headrace.testing.piped import Content

T = TypeVar("T")
UNFOLDED_MAX = 3  # small, so that tests of current results read a base and changes beside it
HERE_MAX = 10_000  # records that the driver sequences itself: a task takes a tenth of a second to start
STEPS = ("before outputs", "after sinks", "after outputs", "after state")


def is_sequenced_here(records: int) -> bool:
    """True if the driver sequences the records of a commit, False if tasks of Spark do, as in a stream."""
    return records <= HERE_MAX


class SimulatedCrashError(Exception):
    """Raised inside the engine where a test asked for a crash."""


class TestDriver(Findings):
    """Runs nodes in one process: a test pipes records, cuts micro-batches, crashes them, and reads the tables.

    The clock starts now and moves only when told. Everything lies in a temporary folder until `close`.
    """

    __test__ = False  # not a test case, whatever pytest makes of the name

    def __init__(
        self,
        nodes: Sequence[Node],
        spark: SparkSession | None = None,
        *,
        topics: Collection[Topic] = (),
        incomplete: Collection[str] = (),
        reaches_servers: bool = False,
    ) -> None:
        """Start empty logs and tables for these nodes. Without a session Spark starts when it is needed (see `spark`).

        A node that is read by name has to be among them, as if one pipeline had them all.

        In:     topics      more topics that are piped to; no node need read them, and each has its log
                incomplete  topics of tables for which records wait, complete once `complete` says so. Others are so with the
                            records piped before the first cut: a stream finds those in Kafka when it begins
                reaches_servers  True: rows are delivered to Kafka and PostgreSQL, too; sinks of your own always get theirs
        Raises: DescriptionError when no node waits for a topic of `incomplete`
        """
        nodes = among_themselves(nodes)
        self._session = SparkOnDemand.session(partial(laptop_session, spark, "headrace-test-driver"))
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-"))
        self._clock = ManualClock(SystemClock().now_ms())
        self._nodes = nodes_by_name(nodes, reaches_servers=reaches_servers)
        self._topics = {topic.name: topic for topic in topics} | topics_of(nodes)
        awaited = {topic for node in self._nodes.values() for topic in operator_for(node).waits.complete}
        late = {self._named({each: each for each in awaited}, "awaited topic", name) for name in incomplete}
        self._begins_with = awaited - late
        self._begin("0")
        shutil.copytree(self._folder / "0", self._folder / "empty")

    @property
    def spark(self) -> SparkSession:
        """A session of Spark. Only what gives a DataFrame, and SQL that only Spark computes, starts Spark."""
        return session_of(self._session)

    def reset(self) -> None:
        """Begin again with empty logs and tables, much sooner than a new driver; the clock goes on."""
        number = int(self._place) + 1
        shutil.copytree(self._folder / "empty", self._folder / str(number))
        shutil.rmtree(self._folder / self._place)
        lakes.forget()
        self._begin(str(number))

    def _root(self, place: str) -> str:
        """URI of the lake."""
        return f"file:{self._folder / place}"

    def _begin(self, place: str) -> None:
        self._place = place  # never one used before: Spark remembers what it has read by path
        self._lake = Lake(self._root(place))
        self._armed: list[tuple[str, str | None]] = []
        self._sequencers = {name: self._open_sequencer(topic) for name, topic in self._topics.items()}
        self._runners = {name: self._open_runner(node) for name, node in self._nodes.items()}
        self._piped = {
            name: PipedTopic(topic, self._sequencers[name].state.next_offsets)
            for name, topic in self._topics.items()
        }

    def pipe(
        self,
        topic: str,
        *,
        key: Content = None,
        value: Content = None,
        timestamp_ms: int | None = None,
        partition: int = 0,
        headers: Mapping[str, bytes | str] | None = None,
    ) -> int:
        """Add one record to a topic's partition; the next `cut` processes it.

        In:  key    text for a one-column STRING key; the value of another column; a dict; bytes, as they are
             value  a dict of columns, sent as JSON, Avro, Protobuf or JSON with a schema, as the topic's format has it,
                    and no registry is asked; bytes or text, sent as they are, malformed or not; None: a tombstone
             Both may be the plain value of a topic of hr.Text(), hr.Bytes() or hr.Number(…)
             timestamp_ms  Kafka's; None: that of the driver's clock
        Out: the record's offset
        """
        stamp = self._clock.now_ms() if timestamp_ms is None else timestamp_ms
        return self._named(self._piped, "topic", topic).add(key, value, stamp, partition, headers or {})

    def cut(self, nodes: Collection[str] | None = None) -> None:
        """End the micro-batch here: run every sequencer (ticks due included) and every node to the end.

        In: nodes  these alone run, and the others catch up at a later cut: the same log, cut differently. None: all
        """
        asked = set(self._nodes) if nodes is None else {self._node(name).required_name for name in nodes}
        running = [name for name in self._nodes if name in asked]
        for name in sorted(self._begins_with):
            self._sequencers[name].read_first_to(self._piped[name].next_offsets)
        for name, piped in self._piped.items():
            if len(piped):
                raw = piped.take_here() if is_sequenced_here(len(piped)) else piped.take(self.spark)
                assert raw is not None
                self._sequencers[name].append(raw, in_order=True)
        for sequencer in self._sequencers.values():
            sequencer.tick(frozenset(sequencer.state.partitions))
        self._settle()
        self._run(running)

    def drain(self) -> None:
        """Process what was piped, then close every open batch (`closed_by` "drain"), as a stream that is stopped does."""
        self.cut([])
        for name in sorted(batched_topics(list(self._nodes.values()))):
            self._sequencers[name].drain()
        self._settle()
        self._run(list(self._nodes))

    def complete(self, topic: str) -> None:
        """Declare a topic complete that began `incomplete`: the records of lookups and processors wait for that.

        Here it ends with the records that were piped so far. Nodes see it at the next `cut`.
        """
        self.cut([])
        self._named(self._sequencers, "topic", topic).read_first_to({})
        self._settle()

    def _settle(self) -> None:
        """Let nodes that read several topics in one order read all that is there."""
        through_ms = max((s.settled_ms for s in self._sequencers.values()), default=0)
        for name in sorted(ordered_logs(self._nodes.values()) & self._sequencers.keys()):
            self._sequencers[name].promise(through_ms)

    def crash(self, step: str, node: str | None = None) -> None:
        """Let the next micro-batch die at a commit step. A restart follows, and the cut goes on to its end.

        In:     step  "before outputs", "after sinks" (they have their rows, which are not committed yet), "after outputs" or
                      "after state"
                node  the node that dies. None: the first that comes to that step
        Raises: DescriptionError for a step or a node that there is not
        """
        if step not in STEPS:
            hint = f"The steps are {', '.join(STEPS)}."
            raise DescriptionError(f"There is no commit step {step!r}.", hint=hint)
        self._armed.append((step, None if node is None else self._node(node).required_name))

    def reset_guard(self, topic: str, root_topic: str, root_partition: int | None = None) -> list[int]:
        """Let a replay guard forget a root topic, as `headrace reset-guard` does. Out: the partitions forgotten."""
        return self._named(self._sequencers, "topic", topic).reset_guard(root_topic, root_partition)

    def erase(self, topic: str, key: str) -> list[Erased]:
        """Erase a key's records, as `headrace erase` does. Out: what was done, table by table."""
        nodes, described = [*self._nodes.values()], self._named(self._topics, "topic", topic)
        erasure = Erasure(self.spark, self._lake, nodes, described, key)
        try:
            return list(erasure.run())
        finally:
            self._reopen_runners()

    def set_limits(
        self,
        node: str,
        *,
        time_limit: Duration | None = None,
        max_records: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Set limits of a suppressed node, as `headrace set-limits` does. They are in force from here on.

        In: None leaves a limit as it is; 0 removes a bound
        """
        described = suppressed_at(self._node(node))
        limits = limits_asked(time_limit, max_records, max_bytes)
        acceptable(self._lake, described, limits)
        for topic in topics_ticking(described, limits):
            self._sequencers[topic.name].set_limits(described.required_name, limits, elsewhere=True)
        self._sequencers[limits_topic(described).name].set_limits(described.required_name, limits)

    def retain(self, topic: str, before_ms: int) -> Cut:
        """Cut off the log commits before a moment, as `headrace retain` does (see `lifecycle.retention`)."""
        described = self._named(self._topics, "topic", topic)
        try:
            return Retention(self.spark, self._lake, list(self._nodes.values()), described).run(before_ms)
        finally:
            self._reopen_runners()

    @property
    def now_ms(self) -> int:
        """The driver's clock, in milliseconds since 1970."""
        return self._clock.now_ms()

    def advance_wall_clock(self, duration: str) -> None:
        """Move the clock by a duration, such as "2 minutes". The next `cut` does what is due by then."""
        latest = max((s.state.ingested_at_ms for s in self._sequencers.values()), default=0)
        self._clock.set(max(self._clock.now_ms(), latest) + duration_ms(duration, "advance_wall_clock"))

    def close(self) -> None:
        """Remove the temporary folder; the session and its JVM stay."""
        shutil.rmtree(self._folder, ignore_errors=True)
        lakes.forget()

    def _run(self, names: Collection[str]) -> None:
        for name in names:
            while not self._at_end(name):
                self._runners[name] = self._open_runner(self._nodes[name])

    def _at_end(self, name: str) -> bool:
        """Run a node to the end; False when a crash struck."""
        try:
            runner = self._runners[name]
            while runner.advance():
                pass
            if runner.unfolded >= UNFOLDED_MAX:
                runner.maintain()
        except SimulatedCrashError:
            return False
        except Exception:
            self._runners[name] = self._open_runner(self._nodes[name])  # as a stream that begins again does
            raise
        return True

    def _open_sequencer(self, topic: Topic) -> Sequencer:
        nodes = list(self._nodes.values())
        keep_own_schemas(self._lake.log(topic.name), topic)
        sequencer = Sequencer(
            self._session,
            topic,
            self._lake.log(topic.name),
            self._clock,
            longest_wait_ms=longest_wait_ms(topic, nodes),
            wall_waits=wall_waits(topic, nodes),
        )
        if isinstance(topic.start, Seed):
            seed_piped(self.spark, sequencer, topic.start)
        return sequencer

    def _reopen_runners(self) -> None:
        """Take the nodes' tables back from another writer that has finished."""
        self._runners = {name: self._open_runner(node) for name, node in self._nodes.items()}

    def _open_runner(self, node: Node) -> NodeRunner:
        return NodeRunner(
            self._session,
            node,
            self._lake,
            on_step=partial(self._on_step, node.required_name),
            is_read=is_read(node, [*self._nodes.values()]),
        )

    def _on_step(self, node: str, step: str) -> None:
        for crash in [(step, node), (step, None)]:
            if crash in self._armed:
                self._armed.remove(crash)
                raise SimulatedCrashError(f"{node}: {step}")

    def _node(self, name: str) -> Node:
        return self._named(self._nodes, "node", name)

    @staticmethod
    def _named(known: Mapping[str, T], kind: str, name: str) -> T:
        if name not in known:
            hint = f"There are: {', '.join(sorted(known))}."
            raise DescriptionError(f"There is no {kind} {name!r} here.", hint=hint)
        return known[name]
