"""Lives through a life: the test driver with a broker, processes that die or are overtaken, and a store and sinks that fail."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from headrace.description import is_of_kafka
from headrace.lake import forget
from headrace.lifecycle.maintenance import Maintenance
from headrace.log.clock import ManualClock
from headrace.nodes.descriptions.references import among_themselves
from headrace.nodes.descriptions.topics import batched_topics, ordered_logs, topics_of, upstream_first
from headrace.testing import TestDriver, driver
from headrace.testing.driver import UNFOLDED_MAX, SimulatedCrashError
from tests.lives.broker import BrokerTopic
from tests.lives.decisions import LimitSet, lose, set_limits
from tests.lives.descriptions import BASE_MS, content, described
from tests.lives.processes import AnotherProcess, Armed, Troubles, steady_clock, until_done
from tests.lives.stores import SORTS, LivesStore
from tests.lives.story import (
    Crash,
    Cut,
    Drain,
    Grow,
    Life,
    Limit,
    Lose,
    Maintain,
    Overtaken,
    Rest,
    Restart,
    Send,
    Sent,
    SinkFault,
    Step,
    StoreFault,
    Upkeep,
    Wait,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node, Topic
    from headrace.log.sequencer import Sequencer


LONG_MS = 10_000  # longer than a process trusts what it remembers


class FixedClock:
    """The clock of a driver begins here."""

    def now_ms(self) -> int:
        """Always the same."""
        return BASE_MS


class StaysAwayError(Exception):
    """Raised where a process dies, and nobody starts another one for now."""


class LivesDriver(TestDriver):
    """A test driver to which a life happens."""

    __test__ = False

    def __init__(self, life: Life, spark: SparkSession | None = None) -> None:
        """Begin with the first nodes of a life. In: spark  a session; None: nothing of the life needs one."""
        self.life, self.whole = life, described(life.nodes, dated=life.dated)
        self.troubles, self.other = Troubles(), AnotherProcess()
        self.stores: dict[str, LivesStore] = {}
        self.resting: set[str] = set()
        self.away: set[str] = set()  # nodes whose process has died
        self.cut_logs: dict[
            str, list[tuple[int, str]]
        ] = {}  # commit times through which logs were cut, and a copy before
        # The records of each topic that were cut off before a node began.
        self.unread: dict[str, dict[str, set[tuple[int, int]]]]
        self.sink_faults: list[str] = []
        self.limits: dict[str, list[LimitSet]] = {}  # that people have set
        self.micro_batches = self.log_commits = 0
        self._reopened: set[str] = set()
        self._brokers: dict[str, BrokerTopic] = {}
        for node, made in zip(self.whole, life.nodes, strict=True):
            if made.sink:
                self.stores[node.required_name] = SORTS[made.sink](node, self._sink_fault)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver, "SystemClock", FixedClock)
            super().__init__(self._with_sinks(life.begins), spark)
        self.unread = {name: {} for name in self._nodes}
        assert isinstance(self._clock, ManualClock)

    def _with_sinks(self, number: int) -> list[Node]:
        nodes = among_themselves(self.whole[: max(1, number)])
        return [
            node.to(self.stores[node.required_name]) if node.required_name in self.stores else node
            for node in nodes
        ]

    def _sink_fault(self) -> str:
        return self.sink_faults.pop(0) if self.sink_faults else ""

    # What happens.

    def live(self) -> None:
        """Live through all steps, and come to rest."""
        with self.troubles.of_the_store(), steady_clock(lambda: self._clock.now_ms() / 1_000):
            for step in self.life.steps:
                self.happens(step)
            self.rest()

    def happens(self, step: Step) -> None:
        """Let one step happen."""
        match step:
            case Send():
                self.send(step.records)
            case Cut():
                self.sequence(step.topics, step.commits, settles=step.settles, looks=step.looks)
                chosen = (
                    self._names
                    if step.nodes is None
                    else [n for i, n in enumerate(self._names) if i in step.nodes]
                )
                self.fold({*self._nodes} - {*self._names} | {*chosen})
            case Wait():
                self.advance_wall_clock(f"{step.ms} ms")
            case Crash() | Overtaken():
                self.troubles.steps.append(Armed(step, step.skips))
            case StoreFault():
                self.troubles.writes.append(Armed(step, step.skips, step.times))
            case SinkFault():
                self.sink_faults.append(step.when)
            case Rest():
                self.resting ^= {*self._names[step.node : step.node + 1]}
            case _:
                self._decided(step)

    def _decided(self, step: Step) -> None:
        """What people decide."""
        match step:
            case Grow():
                self._become(min(len(self._names) + 1, len(self.whole)))
            case Limit():
                set_limits(self, step)
            case Drain():
                for name in sorted(batched_topics([*self._nodes.values()])):
                    self._by_sequencer(name, lambda sequencer: sequencer.drain())
            case Maintain():
                for name in self._names[step.node : step.node + 1]:
                    until_done(partial(self._maintain, name), partial(self._restart_node, name))
            case Lose():
                lose(self, step)
            case Upkeep():
                with self.undisturbed():
                    work = Maintenance(self._session, self._lake, [*self._nodes.values()], clock=self._clock)
                    assert not [each.skipped for each in work.run() if each.skipped]
                    self._become(len(self._names))
            case Restart():
                forget()
                self._become(len(self._names))

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """No trouble comes to what a person does by a command."""
        troubles = self.troubles.steps, self.troubles.writes, self.sink_faults
        self.troubles.steps, self.troubles.writes, self.sink_faults = [], [], []
        try:
            yield
        finally:
            self.troubles.steps, self.troubles.writes, self.sink_faults = troubles

    def rest(self) -> None:
        """All troubles are over: logs are read to their ends, and nodes fold all of them."""
        # What a process remembers of the lake is old by now: another one may have written since.
        self._clock.set(self._clock.now_ms() + LONG_MS)
        self.troubles.steps.clear()
        self.troubles.writes.clear()
        self.sink_faults.clear()
        self.resting.clear()
        self.sequence([*self._topics], 1, settles=True)
        self.fold(self._nodes)

    @property
    def _names(self) -> list[str]:
        """The nodes that are there, in the order of the life."""
        return [node.required_name for node in self.whole if node.required_name in self._nodes]

    def send(self, records: Sequence[Sent]) -> None:
        """Producers send records."""
        for record in records:
            topic = self._brokers.get(record.topic)
            if topic is None:
                continue
            if record.kind == "rolled back":
                topic.roll_back(record.partition)
            elif record.kind == "again":
                topic.send_again(record.partition)
            else:
                value = content(record, dated=self.life.dated)
                topic.add(record.key, value, BASE_MS + record.at, record.partition, {})

    # Logs.

    def sequence(self, topics: Collection[str], commits: int, *, settles: bool, looks: bool = True) -> None:
        """Write the logs of some topics, with the ticks that are due. In: looks  at the clock; else no tick is written"""
        for name in self._topics:
            if name in topics:
                for piece in range(commits):
                    self._by_sequencer(name, partial(self._append, name, commits - piece))
                if looks:
                    self._by_sequencer(name, partial(self._tick, name))
        if settles:
            through_ms = max(self._clock.now_ms(), *(s.settled_ms for s in self._sequencers.values()))
            for name in sorted(ordered_logs(self._nodes.values()) & self._topics.keys()):
                self._by_sequencer(name, lambda sequencer: sequencer.promise(through_ms))

    def _append(self, name: str, pieces: int, sequencer: Sequencer) -> None:
        sequencer.read_first_to(self._brokers[name].next_offsets)
        state, again = sequencer.state, name in self._reopened
        raw, ends = self._brokers[name].read(state.next_offsets, pieces, again=again)
        sequencer.append(raw, ends=ends, in_order=True)
        self._reopened.discard(name)
        self.log_commits += 1

    def _tick(self, name: str, sequencer: Sequencer) -> None:
        known = frozenset(sequencer.state.partitions)
        unread = self._brokers[name].unread(sequencer.state.next_offsets)
        sequencer.tick(known - unread if unread <= known else lambda: None)

    def _by_sequencer(self, name: str, work: Any) -> None:
        until_done(lambda: work(self._sequencers[name]), partial(self._restart_sequencer, name))
        self.other.takes_over()

    def _restart_sequencer(self, name: str) -> None:
        self._sequencers[name] = self._open_sequencer(self._topics[name])

    def _open_until_done(self, name: str) -> None:
        until_done(partial(self._restart_sequencer, name), lambda: None)

    def _open_sequencer(self, topic: Topic) -> Sequencer:
        sequencer = super()._open_sequencer(topic)
        sequencer._on_step = partial(self._on_step, topic.name)
        self._reopened.add(topic.name)
        return sequencer

    # Nodes.

    def fold(self, names: Collection[str]) -> None:
        """Let nodes run to the end."""
        for name in [name for name in self._nodes if name in names and name not in self.resting]:
            if name in self.away:
                self.away.discard(name)
                self._restart_until_open(name)
            try:
                until_done(partial(self._to_the_end, name), partial(self._restart_node, name))
            except StaysAwayError:
                self.away.add(name)
            self.other.takes_over()

    def _to_the_end(self, name: str) -> None:
        runner = self._runners[name]
        while runner.advance():
            self.micro_batches += 1
        if runner.unfolded >= UNFOLDED_MAX:
            runner.maintain()

    def _maintain(self, name: str) -> None:
        self._runners[name].maintain()

    def _restart_node(self, name: str) -> None:
        self._runners[name] = self._open_runner(self._nodes[name])

    def _on_step(self, node: str, step: str) -> None:
        trouble = self.troubles.at_step(step)
        if isinstance(trouble, Crash):
            error = StaysAwayError if trouble.stays and node in self._nodes else SimulatedCrashError
            raise error(f"{node}: {step}")
        if isinstance(trouble, Overtaken):
            with self.other.runs():
                self._overtake(node, trouble)

    def _overtake(self, name: str, pause: Overtaken) -> None:
        """Another process takes over from one that is paused, and goes on to the end."""
        self._clock.set(self._clock.now_ms() + pause.ms)
        self.send(pause.meanwhile)
        if name in self._topics:
            self._open_until_done(name)
            self._by_sequencer(name, partial(self._append, name, 1))
            return
        if pause.meanwhile:
            self.sequence([*self._topics], 1, settles=True)
        self._restart_until_open(name)
        until_done(partial(self._to_the_end, name), partial(self._restart_node, name))

    def _restart_until_open(self, name: str) -> None:
        until_done(partial(self._restart_node, name), lambda: None)

    # The pipeline.

    def _begin(self, place: str) -> None:
        super()._begin(place)
        self._take_brokers()

    def _become(self, number: int) -> None:
        """Start the pipeline again with so many nodes."""
        nodes = self._with_sinks(number)
        for node in nodes:
            cut = {name: {*broker.cut} for name, broker in self._brokers.items()}
            self.unread.setdefault(node.required_name, cut)
        self._nodes = {node.required_name: node for node in upstream_first(nodes)}
        self._topics = topics_of(nodes)
        self.away.clear()
        for name in self._topics:
            self._open_until_done(name)
        for name in self._nodes:
            self._restart_until_open(name)
        self._take_brokers()

    def _take_brokers(self) -> None:
        for name, topic in self._topics.items():
            if name not in self._brokers and is_of_kafka(topic):
                self._brokers[name] = BrokerTopic(topic, {})
