"""A real stream process that kills itself with SIGKILL at a numbered commit step, or runs until it is told to end.

    python tests/faults/victim.py BOOTSTRAP LAKE TOPIC --at "after outputs" --time 2

With a master of the kind `local-cluster[2,1,1024]` it kills its executors there, and lives on.

It prints `caught up` each time it has read all that Kafka holds. Micro-batches are kept small, so that a short topic
gives many of them. Nothing is cleaned up on the way out: that is the point.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time

from headrace.lake.paths import Lake
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, spark_conf
from headrace.streams.loops import log_stream
from headrace.streams.stream_runtime import StreamRuntime
from tests.broker.pipeline import counts_of
from tests.executors import executors_of

RECORDS_PER_COMMIT = 12
# It does not live long: the quick compiler alone.
CONF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class SelfKill:
    """Ends the process, or its executors where it has any, at the n-th time that a step is reached."""

    def __init__(self, step: str | None, time: int, jvm: int | None = None) -> None:
        self.step, self.left, self.jvm = step, time, jvm
        self._lock = threading.Lock()

    def __call__(self, asset: str, step: str) -> None:
        """Called by the engine at each numbered step."""
        with self._lock:
            if step != self.step:
                return
            self.left -= 1
            if self.left == 0:
                print(f"killed at {asset}: {step}", flush=True)
                for process in (executors_of(self.jvm) if self.jvm else []) or [os.getpid()]:
                    os.kill(process, signal.SIGKILL)


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "lake", "topic"):
        parser.add_argument(name)
    parser.add_argument("--at", help="commit step to die at; none: run on")
    parser.add_argument("--time", type=int, default=1, help="at which time that it is reached")
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()

    log_stream.RECORDS_PER_TRIGGER = RECORDS_PER_COMMIT
    spark = build_session(spark_conf(spark_jars(), master=given.master, lake=given.lake) | CONF, "victim")
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    jvm = gateway.proc.pid if given.master.startswith("local-cluster") else None
    runtime = StreamRuntime(
        spark,
        Lake(given.lake),
        [counts_of(given.topic)],
        kafka=KafkaSettings(bootstrap_servers=given.bootstrap),
        trigger_ms=100,
        on_step=SelfKill(given.at, given.time, jvm),
    )
    while True:
        statuses = runtime.run_until_caught_up(poll_seconds=0.1)
        print("caught up", [(s.asset, s.batches) for s in statuses], flush=True)
        time.sleep(0.5)


if __name__ == "__main__":
    main()
