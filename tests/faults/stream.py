"""A process that runs the pipeline's logs and nodes until its order ends it. It waits, warm, until the order is there.

    python tests/faults/stream.py BOOTSTRAP LAKE PREFIX --nodes final,totals --order order.json

It prints `begun` when it opens its first tables, `committed` after its first commit, `dies at …` before it kills itself, `caught
up` when it has folded all that Kafka holds, and `failed …` with the reason before it ends because a query failed for good. With a
draining order it prints `judged` and a verdict at the end. Beside a stream it prints `EQUAL` of each backfill that found the
stream's rows, and `DIFFERENT` before a backfill swaps others in. Nothing is cleaned up on the way out of any other.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import TerminalError, TransientError
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import Backfill
from headrace.lifecycle.log_repair.gaps import accept_gap
from headrace.lifecycle.maintenance import Maintenance
from headrace.log.clock import SystemClock
from headrace.nodes.descriptions.topics import topics_of
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import INTERPRETED, build_session, spark_conf
from headrace.streams.loops import log_stream
from headrace.streams.stream_runtime import StreamRuntime
from headrace.writing.leases import lease
from tests.faults.pipeline import pipeline
from tests.faults.verdict import judge
from tests.faults.victim import CONF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.lifecycle.backfills.backfill_plan import DayVerdict
    from headrace.sinks import Delivery, Sink

RECORDS_PER_COMMIT = 24
EQUAL, DIFFERENT = "a backfill found the same", "A BACKFILL FOUND OTHER ROWS"
BEFORE_DELIVERY, AFTER_DELIVERY = "before delivery", "after delivery"
PATIENCE_S = 240.0


@dataclass(frozen=True)
class Order:
    """What becomes of a process.

    asset, step, time  it kills itself at the n-th time that the asset reaches the step; without an asset whichever does
    after_s            it kills itself so many seconds after its beginning
    drain              it goes on until it has caught up, drains, and judges the tables
    revised            it runs the revised pipeline
    beside             it runs no stream, but backfills and maintenance, one after the other, until it is killed
    accept_gaps        it first accepts that Kafka has deleted records
    ahead_ms           its clock is so far ahead
    judge_only         it runs no stream
    gone               a file of records that the log holds and Kafka does not any more, for the verdict
    """

    asset: str | None = None
    step: str | None = None
    time: int = 1
    after_s: float | None = None
    drain: bool = False
    revised: bool = False
    beside: bool = False
    accept_gaps: bool = False
    ahead_ms: int = 0
    judge_only: bool = False
    gone: str | None = None


class Fate:
    """Kills the process when its order says so."""

    def __init__(self, order: Order) -> None:
        self.order, self._left, self._committed = order, order.time, False
        self._lock = threading.Lock()
        if order.after_s is not None:
            threading.Timer(order.after_s, self._die, ["a moment"]).start()

    def __call__(self, asset: str, step: str) -> None:
        """Called by the engine, and by sinks, at each step."""
        with self._lock:
            if not self._committed and step in ("after log commit", "after state"):
                self._committed = True
                print("committed", flush=True)
            if step != self.order.step or self.order.asset not in (None, asset):
                return
            self._left -= 1
            if self._left == 0:
                self._die(f"{asset}: {step}")

    @staticmethod
    def _die(where: str) -> None:
        print(f"dies at {where}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class DyingSink:
    """A sink before and after whose deliveries the process may die."""

    sink: Sink
    fate: Fate

    @property
    def name(self) -> str:
        """That of the sink."""
        return self.sink.name

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """Deliver between two steps; a micro-batch that changes no row delivers nothing."""
        some = not rows.isEmpty()
        if some:
            self.fate(self.name, BEFORE_DELIVERY)
        self.sink.deliver(rows, delivery)
        if some:
            self.fate(self.name, AFTER_DELIVERY)


def ordered(path: Path) -> Order:
    """Wait for the order."""
    while not path.exists():
        time.sleep(0.02)
    return Order(**json.loads(path.read_text()))


def forget_the_machine(lease_ms: int) -> None:
    """Be, for others, a process of another machine: only an expired lease tells that it may be gone."""
    lease.EXPIRES_MS, lease.RENEWED_EVERY_MS = lease_ms, lease_ms // 4
    vars(lease)["process_space"] = lambda: f"machine {os.getpid()}"


class ShiftedClock(SystemClock):
    """The machine's clock, set ahead."""

    def __init__(self, ahead_ms: int) -> None:
        super().__init__()
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        """Wall-clock time."""
        return super().now_ms() + self._ahead_ms


def main() -> None:
    """Run until killed, or drained."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "lake", "prefix"):
        parser.add_argument(name)
    parser.add_argument("--nodes", required=True)
    parser.add_argument("--order", type=Path, required=True)
    parser.add_argument(
        "--lease-ms", type=int, help="a lease of this length, as of a process of another machine"
    )
    given = parser.parse_args()

    log_stream.RECORDS_PER_TRIGGER = RECORDS_PER_COMMIT
    if given.lease_ms is not None:
        forget_the_machine(given.lease_ms)
    conf = spark_conf(spark_jars(), lake=given.lake) | CONF | INTERPRETED
    spark, lake = build_session(conf, given.prefix), Lake(given.lake)
    spark.range(1).count()
    print("warm", flush=True)
    order = ordered(given.order)
    fate, names = Fate(order), given.nodes.split(",")
    every = pipeline(given.prefix, given.bootstrap, lambda sink: DyingSink(sink, fate), revised=order.revised)
    nodes = [every[name] for name in names]
    if order.beside:
        work_beside(spark, lake, nodes)
    if not order.judge_only:
        run(spark, lake, nodes, KafkaSettings(bootstrap_servers=given.bootstrap), order, fate)
    found = judge(spark, lake, given.prefix, given.bootstrap, names, revised=order.revised, gone=order.gone)
    print("judged " + json.dumps(asdict(found)), flush=True)


def run(
    spark: SparkSession, lake: Lake, nodes: list[Node], kafka: KafkaSettings, order: Order, fate: Fate
) -> None:
    """Run the stream; returns when it is drained."""
    print("begun", flush=True)
    clock = ShiftedClock(order.ahead_ms)
    if order.accept_gaps:
        for topic in topics_of(nodes).values():
            accept_gap(spark, lake, topic, kafka)
    runtime = StreamRuntime(spark, lake, nodes, kafka=kafka, clock=clock, trigger_ms=100, on_step=fate)
    while True:
        try:
            runtime.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
        except TransientError as error:
            print(f"failed {str(error)!r}", flush=True)
            os._exit(1)
        print("caught up", flush=True)
        if order.drain:
            runtime.drain()
            return
        time.sleep(0.2)


def tell_difference(node: Node, differing: DataFrame) -> None:
    """Print that rows differ before they are swapped: whoever looks at the tables afterwards finds no difference any more."""
    if rows := differing.take(5):
        print(f"{DIFFERENT}: {node.required_name}: {rows}", flush=True)


def told(name: str, verdicts: Sequence[DayVerdict]) -> str:
    """What a backfill found, in a line that holds `EQUAL` or `DIFFERENT`, or neither when there was nothing to compare."""
    if different := [verdict for verdict in verdicts if not verdict.equal]:
        return f"{DIFFERENT}: {name}: {different}"
    rows = sum(verdict.rows_stored for verdict in verdicts)
    return f"{EQUAL}: {name}, {rows} rows" if rows else f"backfilled {name}: there are no rows yet"


def work_beside(spark: SparkSession, lake: Lake, nodes: list[Node]) -> None:
    """Backfill and maintain without end; what is refused, for somebody else holds a lease, is tried again."""
    for number in count(1):
        for node in nodes:
            try:
                verdicts = Backfill(spark, lake, node).run(before_swap=partial(tell_difference, node))
            except (TerminalError, TransientError) as error:
                print(f"not backfilled: {error}", flush=True)
                continue
            print(told(node.required_name, verdicts), flush=True)
        for done in Maintenance(spark, lake, nodes).run():
            print(f"maintained {done.of} {done.what} {done.skipped or ''}", flush=True)
        print(f"round {number}", flush=True)


if __name__ == "__main__":
    main()
