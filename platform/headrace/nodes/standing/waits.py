"""The waits of a node: the partition that holds its time, the log that holds its progress, since when, and what moves it.

Law: one function of the description and of where its logs and nodes stand (`LakeFacts`). It reads no clock, so `status`, the
asset's page, the report, alerts and the test driver say the same.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.description import is_unnamed, written_by
from headrace.description.durations import format_duration
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from headrace.description import Node, Topic
    from headrace.nodes.progress import Progress
    from headrace.nodes.standing.lake_facts import LakeFacts

STREAM_TIME, COMPLETE, PROGRESS, WALL_TIME = "stream time", "complete table", "progress", "wall time"
SAID = {
    STREAM_TIME: "Stream time is held by {holder}: it stands at {stands}{since}.",
    COMPLETE: "Records wait until {holder} is read to where it ended at the first start.",
    PROGRESS: "Progress is held by the log of {holder}, which is settled through {stands}.",
    WALL_TIME: "Rows wait for the wall clock.",
}
NO_STREAM_TIME = "Stream time waits for {holder}, which has no record with an event time yet."


@dataclass(frozen=True)
class Wait:
    """One thing that rows of a node wait for. Times in ms since 1970.

    of         "stream time": windows and releases; "complete table": a lookup; "progress": the node itself; "wall time"
    topic      the topic of Kafka that holds it; None: the wall clock alone
    partition  None: all of the topic
    stands_ms  the stream time, or of a progress the commit time, at which the topic or partition stands; None: it has none
    since_ms   the commit time of its last record; None: it has none
    moves      what would move it, in words
    """

    of: str
    topic: str | None
    partition: int | None
    stands_ms: int | None
    since_ms: int | None
    moves: str

    @property
    def holder(self) -> str:
        """`partition 3 of page_views`, or the topic."""
        whole = f"topic {self.topic}" if self.topic else "the wall clock"
        return whole if self.partition is None else f"partition {self.partition} of {self.topic}"

    @property
    def in_words(self) -> str:
        """One sentence for what holds it, and one for what would move it."""
        said = NO_STREAM_TIME if (self.of, self.stands_ms) == (STREAM_TIME, None) else SAID[self.of]
        since = f", with no record since {at(self.since_ms)}" if self.since_ms else ""
        return f"{said.format(holder=self.holder, stands=at(self.stands_ms), since=since)} {self.moves}"

    def __str__(self) -> str:
        return self.in_words


def waits_of(node: Node, facts: LakeFacts) -> list[Wait]:
    """The waits of a node and of its steps without a name, the one that counts most first.

    Law: what the same partition holds is one wait. It is as long as the waits of the steps and of the node together.
    """
    found: dict[tuple[str, str | None, int | None], Wait] = {}
    for wait in _waits(node, facts):
        found.setdefault((wait.of, wait.topic, wait.partition), wait)
    return [*found.values()]


def _waits(node: Node, facts: LakeFacts) -> Iterator[Wait]:
    progress = facts.progress(node.required_name)
    topics = {topic.name: topic for topic in node.topics}
    for name in awaited_topics(node, () if progress is None else progress.complete):
        yield _incomplete(topics[name], facts)
    yield from _behind(node, progress, facts)
    if operator_for(node).waits.stream_ms:
        yield _stream_time_wait(node, facts)
    if wall_ms := _wall_ms(node):
        moves = f"It ends at most {format_duration(wall_ms)} after a record's commit, with a tick of a stream that runs."
        yield Wait(WALL_TIME, None, None, None, None, moves)
    for step in _steps(node):
        yield from _waits(step, facts)


def _wall_ms(node: Node) -> int:
    """How long a record waits for the wall clock at most, in the node and before it in the node's steps without a name."""
    own = max((wait.ms for wait in operator_for(node).waits.wall), default=0)
    return own + max(map(_wall_ms, _steps(node)), default=0)


def _steps(node: Node) -> Iterator[Node]:
    """The steps without a name that a node reads."""
    steps = (written_by(topic) for topic in {topic.name: topic for topic in node.topics}.values())
    return (step for step in steps if step is not None and is_unnamed(step.required_name))


def _stream_time_wait(node: Node, facts: LakeFacts) -> Wait:
    """The partition that stands lowest among those by which the node's time goes."""
    topic, partition, wait_ms = _lowest(node, facts)
    state = facts.log(topic.name)
    own = None if state is None or partition is None else state.partitions.get(partition)
    stands_ms = None if own is None else own.stream_ms
    since_ms = None if own is None or not own.record_at_ms else own.record_at_ms
    idle = None if topic.idle_timeout_ms is None else format_duration(topic.idle_timeout_ms)
    silence = (
        f"or {idle} without a record, while its stream runs"
        if idle
        else "and nothing else (idle_timeout=None)"
    )
    what = "the first record" if stands_ms is None else "a record with a later event time"
    moves = (
        f"{what[0].upper()}{what[1:]} moves it, {silence}. Rows leave up to {format_duration(wait_ms)} of stream time "
        "after their record."
    )
    return Wait(STREAM_TIME, topic.name, partition, stands_ms, since_ms, moves)


def _lowest(node: Node, facts: LakeFacts) -> tuple[Topic, int | None, int]:
    """The topic of Kafka, and the partition, with the lowest stream time; those of a node's log are those of its node.

    The third value is the wait in ms from that topic to the rows of the node: the waits of all nodes on the way add up.
    Idle topics are left out; if all are idle, the node goes by the highest of them.
    """
    progress = facts.progress(node.required_name)
    driving, wait_ms = operator_for(node).driving, operator_for(node).waits.stream_ms
    idle = () if progress is None else progress.idle
    all_topics = {topic.name: topic for topic in node.topics if topic.name in driving}
    busy = {name: topic for name, topic in all_topics.items() if name not in idle}
    topics = busy or all_topics
    times = {name: {} if progress is None else progress.stream_ms.get(name, {}) for name in topics}
    first = min if busy else max
    name = first(topics, key=lambda each: min(times[each].values(), default=-1))
    upstream = written_by(topics[name])
    if upstream is not None:
        topic, number, before_ms = _lowest(upstream, facts)
        return topic, number, before_ms + wait_ms
    partition = min(times[name], key=lambda each: (times[name][each], int(each)), default=None)
    return topics[name], None if partition is None else int(partition), wait_ms


def _incomplete(topic: Topic, facts: LakeFacts) -> Wait:
    """The first partition of an awaited table that is not read to where it ended at the first start."""
    state = facts.log(topic.name)
    ends = {} if state is None else state.first_ends or {}
    short = {p: end for p, end in ends.items() if state is not None and state.next_offsets.get(p, 0) < end}
    partition = min(short, default=None)
    if partition is None or state is None:
        return Wait(COMPLETE, topic.name, None, None, None, "The stream that writes its log moves it.")
    read = state.next_offsets.get(partition, 0)
    since_ms = state.partitions[partition].record_at_ms if partition in state.partitions else None
    moves = f"Its log has {read:,} of {short[partition]:,} offsets; the stream that writes the log moves it."
    return Wait(COMPLETE, topic.name, partition, None, since_ms, moves)


def _behind(node: Node, progress: Progress | None, facts: LakeFacts) -> Iterator[Wait]:
    """The log that is settled least, if the node cannot read others beyond it."""
    of_kafka = [topic for topic in {t.name: t for t in node.topics}.values() if written_by(topic) is None]
    if len(of_kafka) < 2:
        return
    settled = {topic.name: facts.settled_ms(topic.name) for topic in of_kafka}
    known = {name: ms for name, ms in settled.items() if ms is not None}
    if not known:
        return
    upto_ms = {} if progress is None else progress.upto_ms
    name = min(settled, key=lambda each: settled[each] or 0)
    stands_ms = settled[name]
    is_held = any(ms > upto_ms.get(each, 0) and ms > (stands_ms or 0) for each, ms in known.items())
    if is_held and (stands_ms or 0) <= upto_ms.get(name, 0):
        state = facts.log(name)
        since_ms = (
            None if state is None else max((p.record_at_ms for p in state.partitions.values()), default=None)
        )
        moves = (
            "A commit of its log moves it, or the promise of a stream that runs and has nothing to commit."
        )
        yield Wait(PROGRESS, name, None, stands_ms, since_ms, moves)


def at(ms: int | None) -> str:
    """A time as people read it, in UTC."""
    return "no time" if ms is None else f"{dt.datetime.fromtimestamp(ms / 1000, dt.UTC):%Y-%m-%d %H:%M:%S}"


def awaited_topics(node: Node, complete: Collection[str]) -> tuple[str, ...]:
    """The topics of its table that are not read to where they ended at the first start; none: it waits for no topic.

    In: complete  those that are, as far as the node has read (see `Progress`)
    """
    return tuple(topic for topic in operator_for(node).waits.complete if topic not in complete)
