"""A second run of a stream stands by in the same Dagster, and goes on when the first one is killed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from headrace.lifecycle.backfill import verify
from headrace.local.servers.topics import create_topics
from tests.broker.harness import produce
from tests.broker.pipeline import counts_of, reading
from tests.orchestration.location import STANDBY
from tests.orchestration.standby import RUNS, has_folded, seconds_without, standing_by
from tests.orchestration.world import STREAM, new_world

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.local.servers.broker import Broker

pytestmark = [pytest.mark.dagster, pytest.mark.broker, pytest.mark.spark, pytest.mark.long]


def test_a_run_that_stands_by_goes_on_when_the_first_one_is_killed_and_only_one_reports(
    tmp_path: Path, kafka: Broker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STANDBY, "true")
    topic = f"standby-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap_servers, {topic: 2})
    produce(kafka, topic, [reading(p, m) for m in range(10) for p in (0, 1)])
    with new_world(tmp_path, kafka.bootstrap_servers, topic) as world:
        with world.stream("12", RUNS[0]) as first:
            first.until(lambda: has_folded(world, 20))
            with standing_by(world, RUNS[1]) as second:
                assert {each["state"] for each in world.observations(STREAM)} <= {"running", "restarting"}
                seconds = seconds_without(world, kafka, first, second, 10)
                print(f"from death to the next committed row: {seconds:.1f} s")
                assert seconds < 60, "six times as long as on a machine that is free"
                second.until(lambda: has_folded(world, 10))
                world.terminate(second)
        assert world.observations(STREAM)[0]["state"] == "stopped"
        (verdict,) = verify(spark, world.lake, counts_of(topic))
        assert verdict.equal
        assert verdict.rows_recomputed == 2 * 6
