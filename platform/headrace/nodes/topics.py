"""The topics that nodes read, and what these nodes ask of a topic's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.description import Batches
from headrace.errors import DescriptionError
from headrace.nodes.operator_frames import operator_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.description import Node, Topic


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
    """The topics of some nodes by name.

    Raises: DescriptionError when one topic is described in two ways, or two nodes share a name.
    """
    names = [node.required_name for node in nodes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DescriptionError(
            f"Two nodes are named {twice[0]!r}.", hint="Give each its own name with .named(…)."
        )
    topics: dict[str, Topic] = {}
    for node in nodes:
        for topic in node.topics:
            if topics.setdefault(topic.name, topic) != topic:
                raise DescriptionError(
                    f"Topic '{topic.name}' is described in two ways.",
                    hint="Describe it once and share the description.",
                )
    return topics


def ordered_topics(nodes: Sequence[Node]) -> list[str]:
    """The topics whose logs a node reads in one order with others."""
    ordered = (node for node in nodes if operator_of(node).ordered and len(node.topics) > 1)
    return sorted({topic.name for node in ordered for topic in node.topics})


def topics_beside(topic: Topic, nodes: Sequence[Node]) -> frozenset[str]:
    """The other topics of nodes that wait for stream time: what came in those may wait for this one's."""
    waiting = (node for node in nodes if topic in node.topics and node.longest_wait_ms)
    return frozenset(other.name for node in waiting for other in node.topics if other != topic)


def longest_wait_ms(topic: Topic, nodes: Sequence[Node]) -> int:
    """The longest that any of these nodes waits for the topic's stream time."""
    return max((node.longest_wait_ms for node in nodes if topic in node.topics), default=0)


def wall_waits_ms(topic: Topic, nodes: Sequence[Node]) -> tuple[int, ...]:
    """How long these nodes wait for wall-clock time after a record of the topic; none that do not."""
    return tuple(
        node.longest_wall_wait_ms for node in nodes if topic in node.topics and node.longest_wall_wait_ms
    )


def batched_topics(nodes: Sequence[Node]) -> frozenset[str]:
    """The topics of which some node makes batches: these a drain concerns."""
    return frozenset(topic.name for node in nodes if isinstance(node, Batches) for topic in node.topics)


def tick_every_ms(topic: Topic, nodes: Sequence[Node]) -> int:
    """How often to look at the clock: a thirtieth of the longest wait, between one and ten seconds."""
    return min(max(longest_wait_ms(topic, nodes) // 30, 1_000), 10_000)
