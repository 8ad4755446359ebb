"""A stream with bounds that are hit, raised while it runs, and hit again: what memory does, and that no row is wrong.

`python -m benchmarks.soak --minutes 10`. A real broker, the real runtime, a steady producer. Two nodes wait for the same
time limit: `early` lets the oldest leave when it is full, `waiting` stops until its bound is raised. In the first fifth of
the time fewer keys live than the bounds allow, then more, and from the middle on more than the raised bounds allow too. At
the end each table is compared with the oracle, row by row, and with a backfill. Exits 1 when a row differs.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from confluent_kafka import Producer
from rich.console import Console

import headrace as hr
from benchmarks.processes import jvm_of, resident_mib
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import verify
from headrace.lifecycle.live_limits import set_limits
from headrace.lifecycle.oracle_check import verify_keys
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.lake_rows import read
from headrace.spark.session import build_session, pipeline_session, spark_conf
from headrace.streams.status.stream_status import StreamStatus
from headrace.streams.stream_runtime import StreamRuntime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS, LIMIT_MS, BOUND, RAISED = 2, 20_000, 100, 200
EVERY_KEY = 1_000_000  # more than there are
LIVE = ((0.0, 60), (0.2, 150), (0.5, 260))  # from which part of the time on how many keys of a partition live
SAMPLE_SECONDS, STAYS_HIT_SECONDS = 2.0, 8.0
PRIME = 2_654_435_761

EVENTS = hr.Topic("events", key="key STRING", value="value BIGINT")


def _limited(when_full: str) -> Any:
    return hr.until_time_limit(LIMIT_MS, max_records=BOUND, when_full=when_full)


EARLY = EVENTS.table().suppress(_limited("emit_early")).named("early")
TOTALS = EVENTS.group_by().aggregate(n=hr.count(), total=hr.sum("value"))
WAITING = TOTALS.suppress(_limited("shut_down")).named("waiting")


class Traffic(threading.Thread):
    """Sends records at a steady rate until it is told to stop; which keys live depends on how much time has passed."""

    def __init__(self, bootstrap: str, rate: float, seconds: float) -> None:
        """In: rate  records per second; seconds: how long it will go on."""
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all"})
        self._rate, self._seconds, self._begin_ms = rate, seconds, round(time.time() * 1000)
        self.ended, self.sent = threading.Event(), 0

    def run(self) -> None:
        """Send what is due ten times a second."""
        began, first = time.monotonic(), self.sent
        while not self.ended.wait(0.1):
            passed = time.monotonic() - began
            for number in range(self.sent, first + round(passed * self._rate)):
                self._send(number, passed / self._seconds)
            self._producer.poll(0)
        self._producer.flush(60)

    def warm_up(self) -> None:
        """Send what a second brings, and return when the broker has it."""
        for number in range(round(self._rate)):
            self._send(number, 0.0)
        self._producer.flush(60)

    def _send(self, number: int, part: float) -> None:
        live = max((count for since, count in LIVE if since <= part), default=LIVE[0][1])
        mixed = number * PRIME % 2**32
        partition, key = number % PARTITIONS, mixed // 7 % live
        ts = self._begin_ms + round(number * 1000 / self._rate) - mixed % 3_000
        value = None if mixed % 50 == 0 else json.dumps({"value": mixed % 1_000}).encode()
        self._producer.produce("events", value, f"{partition}-{key:04d}", partition=partition, timestamp=ts)
        self.sent += 1


@dataclass
class Watch:
    """What was seen: resident MiB of Python and of the JVM, and what waited, by seconds since the start.

    jvm  the process of Spark, as its folder in `/proc`
    """

    console: Console
    jvm: Path = Path("/proc/self")
    began: float = field(default_factory=time.monotonic)
    samples: list[tuple[float, float, float, dict[str, float]]] = field(default_factory=list)

    def see(self, statuses: list[StreamStatus]) -> None:
        """Take a sample."""
        python, jvm = resident_mib(Path("/proc/self")), resident_mib(self.jvm)
        waits = {s.name: s.buffer.get("suppression_buffer_count_current", 0.0) for s in statuses if s.buffer}
        self.samples.append((self.seconds, python, jvm, waits))

    def say(self, text: str) -> None:
        """One line with the time."""
        self.console.print(f"{self.seconds:6.0f} s  {text}", soft_wrap=True)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.began


def main(
    minutes: Annotated[float, typer.Option(help="How long records come.")] = 10.0,
    rate: Annotated[float, typer.Option(help="Records per second.")] = 200.0,
) -> None:
    """Soak, print what memory did, compare with the oracle."""
    watch, right = Watch(Console()), True
    with (
        tempfile.TemporaryDirectory(prefix="headrace-soak-") as folder,
        Broker(Path(folder) / "kafka") as broker,
    ):
        create_topics(broker.bootstrap_servers, {"events": PARTITIONS})
        spark, lake = build_session(spark_conf(spark_jars())), Lake(f"file:{folder}/lake")
        watch.jvm = jvm_of(spark)
        settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        runtime = StreamRuntime(spark, lake, [EARLY, WAITING], kafka=settings, trigger_ms=500)
        traffic = Traffic(broker.bootstrap_servers, rate, minutes * 60)
        try:
            traffic.warm_up()
            runtime.run_until_caught_up()
            watch.began = time.monotonic()
            traffic.start()
            _soak(runtime, spark, lake, watch, minutes * 60)
            traffic.ended.set()
            traffic.join()
            set_limits(spark, lake, WAITING, {"max_records": 10 * RAISED})
            watch.say(f"{traffic.sent:,} records were sent; catching up")
            while any(status.state == "failed" for status in runtime.poll()):
                time.sleep(SAMPLE_SECONDS)  # until it has seen the bound
            runtime.run_until_caught_up()
        finally:
            runtime.drain()
        _memory(watch)
        session = pipeline_session(spark)
        for node in (EARLY, WAITING):
            right = _compare(session, lake, node, watch) and right
    sys.exit(0 if right else 1)


def _soak(runtime: StreamRuntime, spark: SparkSession, lake: Lake, watch: Watch, seconds: float) -> None:
    """Poll until the time is over; each time `waiting` stays full for a while, raise both bounds while all runs."""
    full_since: float | None = None
    raised, said = 0, 0.0
    setting: threading.Thread | None = None
    while watch.seconds < seconds:
        statuses = runtime.poll()
        watch.see(statuses)
        stream = {s.name: s for s in statuses if s.kind == "stream"}
        if stream["waiting"].state == "failed":
            if full_since is None:
                full_since = watch.seconds
                watch.say(f"hit: {(stream['waiting'].error or '').splitlines()[0]}")
            if raised < 2 and watch.seconds - full_since > STAYS_HIT_SECONDS and setting is None:
                raised += 1
                setting = threading.Thread(target=_raise, args=(spark, lake, RAISED * raised, watch))
                setting.start()
        elif full_since is not None and stream["waiting"].state == "running":
            watch.say("waiting goes on by itself")
            full_since = setting = None
        if watch.seconds - said > 20:
            said = watch.seconds
            _, python, jvm, waits = watch.samples[-1]
            early = stream["early"].buffer.get("suppression_emit_early_total", 0)
            shown = ", ".join(f"{name} {count:.0f}" for name, count in sorted(waits.items()))
            watch.say(f"JVM {jvm:,.0f} MiB, Python {python:,.0f} MiB; wait: {shown}; left early {early:,.0f}")
        time.sleep(SAMPLE_SECONDS)
    if setting is not None:
        setting.join()  # what is set at the end comes after it


def _raise(spark: SparkSession, lake: Lake, bound: int, watch: Watch) -> None:
    for node in (EARLY, WAITING):
        entry = set_limits(spark, lake, node, {"max_records": bound})
        watch.say(f"raised live: max_records of {entry.node} is {bound}")


def _memory(watch: Watch) -> None:
    """How flat it was over the second half: by how much a straight line rises, and the highest of each quarter."""
    samples = watch.samples
    measured = {"Python": [each[1] for each in samples], "JVM": [each[2] for each in samples]}
    minutes = [seconds / 60 for seconds, *_ in samples]
    half = next(n for n, minute in enumerate(minutes) if minute >= minutes[-1] / 2)
    for name, mib in measured.items():
        slope = _slope(list(zip(minutes[half:], mib[half:], strict=True)))
        quarters = [mib[len(mib) * n // 4 : len(mib) * (n + 1) // 4] for n in range(4)]
        peaks = ", ".join(f"{max(quarter):,.0f}" for quarter in quarters if quarter)
        watch.say(f"{name}: {slope:+.1f} MiB a minute over the second half; highest MiB by quarter: {peaks}")


def _slope(points: list[tuple[float, float]]) -> float:
    """Of the straight line that fits best (least squares)."""
    x_mean, y_mean = (sum(point[n] for point in points) / len(points) for n in (0, 1))
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else 0.0


def _compare(spark: SparkSession, lake: Lake, node: Any, watch: Watch) -> bool:
    found = verify_keys(spark, lake, node, keys=EVERY_KEY)
    backfilled = all(verdict.equal for verdict in verify(spark, lake, node))
    early = read(spark, lake.table(node.name)).where("__early").count()
    watch.say(
        f"{node.name}: {found.rows_equal:,} rows of {found.keys:,} keys, {early:,} early, "
        f"{'equal to the oracle' if found.equal else f'{found.rows_differing:,} NOT the oracle'}; "
        f"backfill {'equal' if backfilled else 'DIFFERS'}"
    )
    return found.equal and backfilled


if __name__ == "__main__":
    typer.run(main)
