"""The logs that the lake holds: whether they were read from the topics that Kafka has."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.lake.paths import Lake
from headrace.log.decisions.topic_identity import known_topic_id, require_known_topic
from headrace.nodes.descriptions.topics import topics_of
from headrace.preflight.finding import tried
from headrace.spark.kafka import KafkaTopic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.description import Node, Topic
    from headrace.preflight.finding import Finding
    from headrace.settings.kafka import KafkaSettings


def check_logs(nodes: Sequence[Node], root: str, settings: KafkaSettings) -> Iterator[Finding]:
    """Compare the topic's id in each log with Kafka's. In: root  URI of a lake that can be read."""
    for name, topic in topics_of(nodes).items():
        yield tried(f"log of '{name}'", partial(_compare, topic, Lake(root), settings))


def _compare(topic: Topic, lake: Lake, settings: KafkaSettings) -> str:
    known = known_topic_id(lake.log(topic.name), topic.name)
    if known is None:
        return "the lake has none yet"
    require_known_topic(topic.name, known, KafkaTopic.of(topic, settings).topic_id())
    return "was read from this topic"
