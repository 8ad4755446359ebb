"""The logs of an act: each that the plan names is written again, or made anew from the bytes of its records.

Law: nothing else writes the log meanwhile, and no other pipeline reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.changing.lease_conflicts import unless_others_write
from headrace.errors import TerminalError
from headrace.lifecycle.log_repair.remake_log import remake_log
from headrace.lifecycle.log_repair.rewrite_log import rewrite_log
from headrace.log.site import Site
from headrace.settings.kafka import KafkaSettings
from headrace.writing.topic_descriptions import others_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from headrace.changing.plan import TopicPlan
    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock


@dataclass(frozen=True)
class ChangedLogs:
    """Writes logs of a pipeline.

    nodes    all of the pipeline
    kafka    None: the settings of the environment
    on_step  called with the name of each step; it may raise to stop there
    """

    spark: SparkSession
    lake: Lake
    nodes: Sequence[Node]
    clock: Clock
    kafka: KafkaSettings | None
    on_step: Callable[[str], None]

    def write(self, topic: Topic, plan: TopicPlan) -> None:
        """Write one log as the plan says.

        Raises: TerminalError when a stream of the topic runs, another pipeline reads it, or a record cannot be read anew
        """
        self._require_alone(topic)
        with unless_others_write(f"Topic '{topic.name}': its log cannot be written again"):
            self._write(topic, plan)

    def _require_alone(self, topic: Topic) -> None:
        own = [node.required_name for node in self.nodes]
        if others := others_reading(self.lake, topic.name, own, self.clock):
            raise TerminalError(
                f"Topic '{topic.name}': its log cannot be written again while other pipelines read it: {', '.join(others)}.",
                hint="Stop their streams, change the description there, too, and run headrace apply again.",
            )

    def _write(self, topic: Topic, plan: TopicPlan) -> None:
        site = Site(self.spark, self.lake, self.clock, self.on_step)
        if plan.from_bytes or plan.from_kafka:
            kafka = (self.kafka or KafkaSettings()) if plan.from_kafka else None
            remake_log(site, topic, self.nodes, kafka=kafka)
        else:
            rewrite_log(site, topic, plan.renamed, self.nodes)
