"""The topics that nodes read, and what these nodes ask of a topic's log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.description import (
    NodeOutput,
    is_of_kafka,
    is_unnamed,
    output_name,
    refuse_clashes,
    with_unnamed,
    written_by,
)
from headrace.errors import DescriptionError
from headrace.nodes.descriptions.asset_names import stream_name
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from headrace.description import Node, Topic
    from headrace.description.clocks import WallWait


def topic_named(nodes: Sequence[Node], name: str) -> Topic:
    """The topic of some nodes that has this name.

    Raises: DescriptionError when none of them reads such a topic.
    """
    topics = topics_of(nodes)
    if name not in topics:
        raise DescriptionError(
            f"There is no topic {name!r} here.", hint=f"There are: {', '.join(sorted(topics))}."
        )
    return topics[name]


def topics_of(nodes: Sequence[Node]) -> dict[str, Topic]:
    """The topics of some nodes by name: those of Kafka, whose logs sequencers write.

    Raises: DescriptionError when one topic is described in two ways, two nodes share a name, or a node reads one that is
            not among these.
    """
    return {name: topic for name, topic in _read_by(nodes).items() if is_of_kafka(topic)}


def upstream_first(nodes: Sequence[Node]) -> list[Node]:
    """The nodes and the steps without a name that they read, each behind those that it reads; else in their order.

    Raises: as `topics_of`
    """
    _read_by(nodes)
    nodes = with_unnamed(nodes)
    outputs = {output_name(node): node for node in nodes}
    found: dict[str, Node] = {}

    def add(node: Node) -> None:
        for topic in node.topics:
            if topic.name in outputs:
                add(outputs[topic.name])
        found.setdefault(node.required_name, node)

    for node in nodes:
        add(node)
    return [*found.values()]


def reads(node: Node, other: Node) -> bool:
    """Whether a node reads another one. Sinks and words do not matter, for the log is the same."""
    return output_name(other) in {topic.name for topic in node.topics}


def is_read(node: Node, nodes: Sequence[Node]) -> bool:
    """Whether some nodes read another one."""
    return output_name(node) in {topic.name for each in nodes for topic in each.topics}


def is_hosted(node: Node, nodes: Sequence[Node], only: Collection[str] | None) -> bool:
    """True if a node is to run: `only` has its query, or it is a step without a name that one which runs reads."""
    if only is None or stream_name(node.required_name) in only:
        return True
    readers = (other for other in nodes if reads(other, node))
    return is_unnamed(node.required_name) and any(is_hosted(other, nodes, only) for other in readers)


def names_of(nodes: Iterable[Node]) -> list[str]:
    """The names of nodes."""
    return [node.required_name for node in nodes]


def nodes_below(topic: Topic, nodes: Sequence[Node]) -> list[Node]:
    """The nodes that read a topic, and those that read them, and so on."""
    found: list[Node] = []
    for node in upstream_first(nodes):
        if topic in node.topics or any(reads(node, other) for other in found):
            found.append(node)
    return found


def with_nodes_read(node: Node) -> list[Node]:
    """The node and before it those that it reads, directly or through others, each once."""
    found: dict[str, Node] = {}
    for writer in map(written_by, node.topics):
        if writer is not None:
            found |= {each.required_name: each for each in with_nodes_read(writer)}
    return [*found.values(), node]


def _read_by(nodes: Sequence[Node]) -> dict[str, Topic]:
    """The topics that some nodes read, by name."""
    names = [node.required_name for node in nodes]
    nodes = with_unnamed(nodes)
    refuse_clashes(nodes)
    outputs = {output_name(node) for node in nodes}
    topics: dict[str, Topic] = {}
    for node in nodes:
        for topic in node.topics:
            if topics.setdefault(topic.name, topic) != topic and is_of_kafka(topic):
                raise DescriptionError(
                    f"Topic '{topic.name}' is described in two ways.",
                    hint="Describe it once and share the description.",
                )
            writer = written_by(topic)
            if writer is not None and topic.name not in outputs:
                raise DescriptionError(
                    f"Node '{_seen_as(node, nodes)}' reads node '{writer.name}', which is not among the nodes.",
                    hint=f"Add that one to them; there are: {', '.join(sorted(names))}.",
                )
    return topics


def _seen_as(node: Node, nodes: Sequence[Node]) -> str:
    """The name by which people know a node; of a step without a name that of the first node that reads it."""
    readers = (other for other in nodes if reads(other, node))
    return _seen_as(next(readers), nodes) if is_unnamed(node.required_name) else node.required_name


def topics_below(nodes: Iterable[Node]) -> list[Topic]:
    """The topics of Kafka from which these nodes follow, each once."""
    found = {each.name: each for node in nodes for topic in node.topics for each in _of_kafka(topic)}
    return [*found.values()]


def ordered_logs(nodes: Iterable[Node], beyond: Collection[str] = ()) -> set[str]:
    """The logs that have to promise how far they are settled: what is read in one order with others follows from them.

    In:  beyond  nodes whose logs others read so
    Out: names of topics of Kafka, of nodes' outputs, and of nodes that are read by name
    """
    found: set[str] = set()
    for node in nodes:
        if node.reads_together or node.required_name in beyond:
            found.update(each.name for topic in node.topics for each in _followed(topic))
        if node.required_name in beyond:
            found.add(output_name(node))
    return found


def reached_by(topic: Topic, frontiers: Mapping[str, int]) -> int:
    """How far a log reaches once the logs of Kafka's topics reach so far, and all nodes have folded them.

    For a node that is read by name it is 0: its topics belong to another pipeline.
    """
    return min((frontiers.get(each.name, 0) for each in _of_kafka(topic)), default=0)


def _of_kafka(topic: Topic) -> list[Topic]:
    """The topics of Kafka from which a log follows in these pipelines; one of Kafka's follows from itself."""
    return [each for each in _followed(topic) if is_of_kafka(each)]


def _followed(topic: Topic) -> list[Topic]:
    """The log itself, and those from which it follows in these pipelines."""
    writer = written_by(topic)
    read = () if writer is None else writer.topics
    return [topic, *(each for below in read for each in _followed(below))]


def longest_wait_ms(topic: Topic, nodes: Sequence[Node], beyond: Mapping[str, int] | None = None) -> int:
    """The longest that any of these nodes waits for the topic's stream time; one that reads another waits after it.

    A node waits for its driving topics alone.

    In: beyond  how long others wait for the stream time of a node's log, by its name
    """
    found = 0
    for node in nodes:
        if topic.name in operator_for(node).driving:
            behind = NodeOutput.of(node) if is_read(node, nodes) else None
            waits = longest_wait_ms(behind, nodes, beyond) if behind else 0
            waits = max(waits, (beyond or {}).get(node.required_name, 0))
            found = max(found, operator_for(node).waits.stream_ms + _further_behind(node, topic) + waits)
    return found


def _further_behind(node: Node, topic: Topic) -> int:
    """How much further stream time is behind the clock in the log of a node that goes by clocks than in its topic's."""
    return node.behind_clock_ms - topic.behind_clock_ms if node.goes_by_clocks else 0


def wall_waits(topic: Topic, nodes: Sequence[Node]) -> tuple[WallWait, ...]:
    """How long these nodes, driven by the topic, wait for wall-clock time after a record of it; none that do not."""
    before = waiting_before(topic, nodes)
    found: list[WallWait] = []
    for node in upstream_first(nodes):
        if (after := _waits_after(node, before)) is not None:
            found += (replace(wait, after=after) for wait in operator_for(node).waits.wall)
    return tuple(found)


def waiting_before(topic: Topic, nodes: Sequence[Node]) -> dict[str, int]:
    """How many nodes, one after the other, wait before a row stands in a log.

    Out: by the names of logs: the topic's, and those of nodes whose rows may leave with its commits
    """
    found = {topic.name: 0}
    for node in upstream_first(nodes):
        if (after := _waits_after(node, found)) is not None:
            found[output_name(node)] = after + operator_for(node).waits.are_some
    return found


def _waits_after(node: Node, before: Mapping[str, int]) -> int | None:
    """How many nodes wait before a node waits for the wall clock; None: its rows leave with no commit of the topic.

    A node itself may wait for a complete topic, or for stream time, and then for the wall clock.
    """
    operator = operator_for(node)
    waits = operator.waits
    found = [before[name] for name in (*operator.driving, *waits.complete) if name in before]
    waits_twice = bool(waits.wall and (waits.complete or waits.stream_ms))
    return max(found) + waits_twice if found else None


def batched_topics(nodes: Sequence[Node]) -> frozenset[str]:
    """The topics that a drain concerns: of some node that waits for one."""
    return frozenset(
        topic.name
        for node in nodes
        if operator_for(node).waits.drain
        for topic in node.topics
        if is_of_kafka(topic)
    )


def tick_every_ms(topic: Topic, nodes: Sequence[Node]) -> int:
    """How often to look at the clock: a thirtieth of the longest wait, between one and ten seconds."""
    return min(max(longest_wait_ms(topic, nodes) // 30, 1_000), 10_000)
