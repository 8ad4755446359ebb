"""A pipeline: the nodes that one stream run hosts, and what Dagster calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster import AssetCheckKey, DailyPartitionsDefinition

from headrace.orchestration.keys import ADVANCING, log_key, op_name, stream_key, table_key
from headrace.quality import log_checks, node_checks
from headrace.runtime.stream import topics_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagster import AssetKey

    from headrace.description import Node, Topic
    from headrace.runtime.kafka import KafkaSettings


@dataclass(frozen=True)
class Pipeline:
    """Some nodes and their topics.

    name   of the stream run, its job and its tag
    group  under which the asset graph shows them
    days   the partitions of the result tables, UTC days of `window_start`
    kafka  None: read from the environment when a run starts
    """

    name: str
    nodes: tuple[Node, ...]
    group: str
    days: DailyPartitionsDefinition
    kafka: KafkaSettings | None = None

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics that the nodes read, each once."""
        return tuple(topics_of(self.nodes).values())

    @property
    def streaming_keys(self) -> list[AssetKey]:
        """The assets that a stream run keeps up to date."""
        return [*map(log_key, self.topics), *map(stream_key, self.nodes)]

    @property
    def table_keys(self) -> list[AssetKey]:
        """The result tables."""
        return [table_key(node) for node in self.nodes]

    def versions(self) -> dict[AssetKey, str]:
        """For each asset what changes only with its description: new rows make no table downstream stale."""
        logs = {log_key(topic): "log" for topic in self.topics}
        streams = {stream_key(node): node.fingerprint()[:12] for node in self.nodes}
        return logs | streams

    def checks(self) -> dict[AssetKey, list[AssetCheckKey]]:
        """The checks of each log, running query and table."""
        logs = {log_key(topic): [*log_checks(topic), ADVANCING] for topic in self.topics}
        streams = {stream_key(node): [ADVANCING] for node in self.nodes}
        tables = {table_key(node): list(node_checks(node)) for node in self.nodes}
        checks = logs | streams | tables
        return {key: [AssetCheckKey(key, name) for name in names] for key, names in checks.items()}


def pipeline_of(
    nodes: Sequence[Node],
    *,
    partitions_start: str,
    group: str = "streams",
    name: str = "streams",
    kafka: KafkaSettings | None = None,
) -> Pipeline:
    """A pipeline whose tables have a partition for each day from YYYY-MM-DD through today."""
    days = DailyPartitionsDefinition(partitions_start, end_offset=1)  # today can be verified as far as it is
    return Pipeline(op_name(name), tuple(nodes), group, days, kafka)
