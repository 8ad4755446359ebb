"""A log with many partitions waits for none of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.broker.harness import produce, running
from tests.broker.pipeline import reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake
    from headrace.local.servers.broker import Broker

pytestmark = pytest.mark.broker
PARTITIONS, ROUNDS = 24, 6


def test_the_end_of_a_partition_is_not_waited_for(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: Callable[[int], str]
) -> None:
    """Kafka's client asks for what comes behind the last record, and waits half a second for it unless told otherwise."""
    topic, steps = new_topic(PARTITIONS), dict[str, float]()

    def on_step(asset: str, step: str) -> None:
        if asset == f"log/{topic}":
            steps[step] = time.monotonic()

    with running(spark, lake, kafka, topic, on_step=on_step) as run:
        seconds, minute = [PARTITIONS * 1.0], 0
        while (
            min(seconds) >= 3.0 and minute < ROUNDS
        ):  # the first time Spark compiles, and others may use the cores
            produce(kafka, topic, [reading(partition, minute) for partition in range(PARTITIONS)])
            run.catch_up()
            seconds.append(steps["after log commit"] - steps["before log commit"])
            minute += 1
        assert run.offsets() == {partition: [*range(minute)] for partition in range(PARTITIONS)}
        assert min(seconds) < 3.0, "half a second for each, on two cores"
        assert run.results() == run.recomputed()
