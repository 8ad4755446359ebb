"""Ranges of a topic's records, read by Spark's Kafka source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headrace.settings.kafka import FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Topic
    from headrace.settings.kafka import KafkaSettings

# Some options have another name in the JVM's client than in librdkafka.
JVM_NAMES = {"fetch.wait.max.ms": "fetch.max.wait.ms", "fetch.message.max.bytes": "max.partition.fetch.bytes"}
# At each poll Spark asks the broker for the bounds of the partition and discards what was fetched ahead, so polls are large.
# After the last record the client fetches again. Until the broker answers that request, the client's others wait, too.
FETCHING = {
    "kafka.fetch.max.wait.ms": "1",
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
}


def source_options(topic: Topic, settings: KafkaSettings) -> dict[str, str]:
    """How Spark's Kafka source reads a topic: by the settings, those of the topic before them."""
    more = {f"kafka.{JVM_NAMES.get(name, name)}": value for name, value in client_only(topic).items()}
    return FETCHING | settings.of(topic.options).spark_options() | more


def client_only(topic: Topic) -> dict[str, str]:
    """The options of a topic that are no connection's, by librdkafka's names."""
    return {name: value for name, value in topic.options.items() if name not in FIELDS}


def read_offsets(
    spark: SparkSession, topic: Topic, settings: KafkaSettings, offsets: Mapping[int, tuple[int, int]]
) -> DataFrame:
    """Some records of a topic, once. In: offsets  for each partition the first and the last."""
    ends = ({topic.name: {str(p): each[end] + end for p, each in offsets.items()}} for end in (0, 1))
    starting, ending = map(json.dumps, ends)
    reader = spark.read.format("kafka").options(**source_options(topic, settings))
    return reader.options(
        assign=json.dumps({topic.name: sorted(offsets)}),
        startingOffsets=starting,
        endingOffsets=ending,
        includeHeaders="true",
        failOnDataLoss="true",
    ).load()
