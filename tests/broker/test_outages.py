"""A broker that is away: a clear error, tries with back-off, nothing lost and nothing twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker, create_topics
from headrace.local.servers.broker_config import free_port
from tests.broker.harness import produce, running
from tests.broker.pipeline import minutes
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.long]


def test_a_broker_that_is_down_at_the_start_or_dies_in_the_middle_costs_no_record(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    broker, topic = Broker(tmp_path / "kafka", free_port()), "readings"
    try:
        with running(spark, lake, broker, topic) as run:
            began = time.monotonic()
            down = run.log_status()
            assert time.monotonic() - began < PATIENCE_S, "a poll must not wait for ever"
            assert (down.state, down.failures) == ("restarting", 1)
            assert f"Topic '{topic}': Kafka at {broker.bootstrap_servers} does not answer." in (
                down.error or ""
            )
            assert "The stream tries again by itself" in (down.error or "")

            broker.start().wait_ready()
            create_topics(broker.bootstrap_servers, {topic: 1})
            produce(broker, topic, minutes(0, 0, 9))
            run.catch_up()
            assert run.offsets() == {0: list(range(10))}

            broker.kill()
            away = run.poll_until(lambda s: s[f"log/{topic}"].error is not None)[f"log/{topic}"]
            assert "does not answer" in (away.error or "")
            run.poll_until(lambda s: s[f"log/{topic}"].failures > 0)  # the client has lost all brokers

            broker.start().wait_ready()
            produce(broker, topic, minutes(0, 10, 19))
            back = run.catch_up()[f"log/{topic}"]
            assert (back.state, back.error) == ("running", None)
            produce(broker, topic, minutes(0, 20, 24))
            run.poll_until(lambda _: len(run.offsets()[0]) >= 25)
            run.catch_up()

            broker.kill()
            run.poll_until(lambda s: s[f"log/{topic}"].error is not None)
            began = time.monotonic()
            run.runtime.drain(PATIENCE_S)
            assert time.monotonic() - began < PATIENCE_S, "a drain must not wait for the broker"
        assert run.offsets() == {0: list(range(25))}
        assert run.results() == run.recomputed()
        assert sum(run.fates().values()) == 25
    finally:
        broker.stop()
