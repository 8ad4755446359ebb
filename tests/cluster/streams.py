"""A stream run on a cluster, from Kafka: one node of each kind.

    python tests/cluster/streams.py BOOTSTRAP LAKE

For each line on its standard input it reads all that Kafka holds, and prints `caught up` with the number of records there.
Where the input ends it drains, and prints `drained`.
"""

from __future__ import annotations

import sys

from headrace.lake.paths import Lake
from headrace.local.servers.topics import records_in
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, configured
from headrace.streams.stream_runtime import StreamRuntime
from tests.cluster.driver import CONF
from tests.cluster.pipeline import NODES, readings, rooms

# Two of a task run wherever one takes a moment longer than the others; the second one's files are named by no commit.
SPECULATIVE = {
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "10ms",
    "spark.sql.shuffle.partitions": "2",
}


def main(bootstrap: str, lake: str) -> None:
    """Run until the input ends."""
    spark = build_session(configured(spark_jars(), lake) | CONF | SPECULATIVE, "cluster-streams")
    runtime = StreamRuntime(
        spark, Lake(lake), NODES, kafka=KafkaSettings(bootstrap_servers=bootstrap), trigger_ms=500
    )
    print("ready", flush=True)
    for _ in sys.stdin:
        there = sum(records_in(bootstrap, topic.name) for topic in (readings, rooms))
        runtime.run_until_caught_up(poll_seconds=0.2)
        print("caught up", there, flush=True)
    runtime.drain(60)
    print("drained", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
