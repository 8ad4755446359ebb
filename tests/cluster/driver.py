"""A driver on a cluster: a log and a node, live in small micro-batches, then from the log again, then by the oracle.

    python tests/cluster/driver.py MASTER LAKE --upto 3

It prints what executors tell of themselves, `ready` before each commit, `folded N` after the node has folded it, and at the
end `EQUAL` or `DIFFERENT` for the backfill and for the oracle. Before commit N it waits for a line on its standard input, so
that a test can take executors away meanwhile. A second driver goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.lake.paths import Lake
from headrace.lifecycle.oracle_check import verify_keys
from headrace.log.clock import SystemClock
from headrace.log.sequencer import Sequencer
from headrace.observe.views import Views
from headrace.spark.jars import spark_jars
from headrace.spark.session import build_session, configured, pipeline_session
from headrace.testing.piped import PipedTopic
from headrace.writing.node_runner import NodeRunner
from tests.broker.pipeline import MINUTE_MS, NOON_MS, counts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NODE = counts_of("readings")
COMMITS, MINUTES = 4, 12  # how many, and of how many minutes each
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONF = {
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.driver.memory": "700m",
    "spark.executor.memory": "600m",
    "spark.log.level": "ERROR",
    "spark.speculation": "true",
}


def pieces_of(number: int) -> Iterator[tuple[int, str, float, int]]:
    """The records of a commit: partition, sensor, value, time. Late ones and filtered ones are among them."""
    for minute in range(number * MINUTES, (number + 1) * MINUTES):
        for sensor in range(20):
            yield sensor % 3, f"s{sensor}", sensor - 1.0, NOON_MS + minute * MINUTE_MS + sensor
    yield 0, "s0", 5.0, NOON_MS


def rows(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def tell_of_executors(spark: SparkSession) -> None:
    """Where executors have the engine from, and in which folders they work."""

    def told(_: int) -> str:
        import headrace.fold

        return f"{headrace.__file__} in {os.getcwd()}"

    for each in sorted(set(spark.sparkContext.parallelize(range(8), 8).map(told).collect())):
        print("executor:", each, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("lake")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--upto", type=int, default=COMMITS)
    given = parser.parse_args()

    spark = build_session(configured(spark_jars(), given.lake) | CONF, "cluster-driver")
    session, lake, (topic,) = pipeline_session(spark), Lake(given.lake), NODE.topics
    tell_of_executors(spark)
    sequencer = Sequencer(session, topic, lake.log(topic.name), SystemClock())
    piped = PipedTopic(topic, sequencer.state.next_offsets)
    runner = NodeRunner(session, NODE, lake)
    for number in range(given.first, given.upto):
        for partition, sensor, value, time_ms in pieces_of(number):
            piped.add(sensor, {"sensor_id": sensor, "value": value}, time_ms, partition, {})
        raw = piped.take(session)
        assert raw is not None
        print("ready", number, flush=True)
        sys.stdin.readline()
        sequencer.append(raw.repartition("partition"))
        while runner.advance():
            pass
        print("folded", number, flush=True)
    views = Views(session, lake)
    live = rows(views.read(NODE))
    print("rows", len(live), flush=True)
    print("backfill", "EQUAL" if live and rows(views.recompute(NODE)) == live else "DIFFERENT", flush=True)
    verdict = verify_keys(session, lake, NODE, 30)
    print(
        "oracle", "EQUAL" if verdict.equal and verdict.rows_equal else verdict.first_differences, flush=True
    )
    spark.stop()


if __name__ == "__main__":
    main()
