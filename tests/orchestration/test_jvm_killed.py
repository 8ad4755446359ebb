"""Somebody kills the JVM of a stream run: the run fails at once and says so, and the next goes on where it ended.

```
0 s       SIGKILL to the JVM; records come meanwhile
≤ 15 s    the run has failed, its assets are shown as ended
≤ 20 s    the sensor starts the next run
```
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from headrace.lake import small_files
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.orchestration.pipeline import pipeline_of
from headrace.orchestration.sensors import supervise
from tests.broker.harness import produce
from tests.broker.pipeline import counts_of
from tests.orchestration.world import HOURS, STREAM, World, new_world, two_days

pytestmark = [pytest.mark.dagster, pytest.mark.broker, pytest.mark.slow, pytest.mark.long]

FIRST = 60  # records before the kill


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory, kafka: Broker) -> Iterator[World]:
    topic = f"killed-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap_servers, {topic: 3})
    with new_world(tmp_path_factory.mktemp("world"), kafka.bootstrap_servers, topic) as world:
        yield world


def jvm_of(world: World) -> int:
    """The process of the JVM that writes the log, as its lease names it."""
    folder = world.lake.lease(f"log/{world.topic}")
    (claim,) = (name for name in small_files.names(folder) if name.endswith(".claim.json"))
    content = small_files.read_json(f"{folder}/{claim}")
    assert content is not None
    return int(content["spark_pid"])


def newest(world: World) -> dict[str, Any]:
    """What the stream's page shows now; empty before the run has said anything."""
    return next(iter(world.observations(STREAM)), {})


def test_a_run_whose_jvm_is_killed_fails_at_once_and_the_next_goes_on(world: World, kafka: Broker) -> None:
    records = two_days()
    produce(kafka, world.topic, records[:FIRST])
    with world.stream() as stream:
        stream.until(lambda: newest(world).get("rows_total", 0) >= FIRST)
        jvm = jvm_of(world)
        os.kill(jvm, signal.SIGKILL)
        killed_at, killed = time.time(), time.monotonic()
        produce(kafka, world.topic, records[FIRST:])
        stream.end()
        seconds = time.monotonic() - killed

    run = world.newest_run()
    assert run.status is dg.DagsterRunStatus.FAILURE
    (failure,) = world.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    assert f"Spark's JVM (process {jvm}) has ended." in str(failure)
    for key in (world.log_key, STREAM):
        shown = world.observations(key)[0]
        assert (shown["state"], shown["rows_per_second"]) == ("ended", 0)
        assert f"Spark's JVM (process {jvm}) has ended." in shown["error"]
        assert shown.keys().isdisjoint({"lag_records", "lag_seconds", "stream_time", "batch_seconds"})
    assert seconds < 60, stream.said.read_text()[-5000:]

    pipeline = pipeline_of([counts_of(world.topic)], partitions_start="2024-04-01")
    assert isinstance(supervise(world.instance, pipeline, 0.0, killed_at + 20), dg.RunRequest)

    with world.stream() as stream:
        stream.until(lambda: newest(world).get("rows_total", 0) >= len(records) - FIRST)
        print(
            f"rows flow again {time.monotonic() - killed:.1f} s after the kill; the run had ended after {seconds:.1f} s"
        )
        world.terminate(stream)
    windows = DeltaTable(world.lake.table("reading_counts")).to_pyarrow_table(
        columns=["sensor_id", "window_start"]
    )
    assert windows.num_rows == len(set(map(tuple, map(dict.values, windows.to_pylist())))) == 3 * (HOURS - 1)
