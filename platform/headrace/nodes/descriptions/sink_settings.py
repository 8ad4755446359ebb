"""How the sinks of nodes reach Kafka: as the logs do, unless they say otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.description import Node
    from headrace.description.sink import Sink
    from headrace.settings.kafka import KafkaSettings


def reached_by(nodes: Sequence[Node], kafka: KafkaSettings) -> list[Node]:
    """The nodes, whose sinks that write to Kafka reach it by these settings.

    Only sinks with a method `reached_by(settings)` are asked; it gives the sink with them.
    """
    return [
        replace(node, sinks=tuple(_reached(sink, kafka) for sink in node.sinks)) if node.sinks else node
        for node in nodes
    ]


def _reached(sink: Any, kafka: KafkaSettings) -> Sink:
    asked = getattr(sink, "reached_by", None)
    found: Sink = sink if asked is None else asked(kafka)
    return found
