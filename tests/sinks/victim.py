"""A stream process with a Kafka sink that kills itself with SIGKILL at a commit step, or right after a delivery.

python tests/sinks/victim.py BOOTSTRAP LAKE TOPIC RESULTS counts --at "after delivery" --time 2
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import headrace as hr
from headrace.lake.paths import Lake
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, spark_conf
from headrace.streams.loops import log_stream
from headrace.streams.stream_runtime import StreamRuntime
from tests.faults.victim import CONF, RECORDS_PER_COMMIT, SelfKill
from tests.sinks.republishing import FIRST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.sinks import Delivery, Sink


@dataclass(frozen=True)
class DyingSink:
    """A sink after whose delivery the process may die: the rows are there, and nothing says so."""

    sink: Sink
    kill: SelfKill

    @property
    def name(self) -> str:
        """That of the sink."""
        return self.sink.name

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """Deliver, then die if it is time; a micro-batch of the log's start alone delivers nothing."""
        self.sink.deliver(rows, delivery)
        if not rows.isEmpty():
            self.kill(delivery.node, "after delivery")


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "lake", "topic", "results", "node"):
        parser.add_argument(name)
    parser.add_argument("--at")
    parser.add_argument("--time", type=int, default=1)
    given = parser.parse_args()

    log_stream.RECORDS_PER_TRIGGER = RECORDS_PER_COMMIT
    kill = SelfKill(given.at, given.time)
    sink = DyingSink(hr.KafkaSink(given.results, options={"bootstrap.servers": given.bootstrap}), kill)
    runtime = StreamRuntime(
        build_session(spark_conf(spark_jars()) | CONF, "victim"),
        Lake(given.lake),
        [FIRST[given.node](given.topic, sink)],
        kafka=KafkaSettings(bootstrap_servers=given.bootstrap),
        trigger_ms=100,
        on_step=kill,
    )
    while True:
        runtime.run_until_caught_up(poll_seconds=0.1)
        time.sleep(0.5)


if __name__ == "__main__":
    main()
