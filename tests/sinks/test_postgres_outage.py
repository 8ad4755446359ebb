"""PostgreSQL killed in the middle of the traffic: the log goes on, the node waits, and then each batch is there once.

time       0 ......... killed ................... started again ............ all is there
log        records     records go on              records go on
node       delivers    restarting, with the cause running, delivers what waited
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

import headrace as hr
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import verify
from headrace.local.postgres import Postgres
from headrace.local.servers.broker import Broker
from headrace.observe.views import Views
from headrace.quality import check_node
from tests.broker.harness import Running, produce
from tests.broker.pipeline import Record
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Batches
    from headrace.streams.status.stream_status import StreamStatus

pytestmark = [pytest.mark.broker, pytest.mark.postgres, pytest.mark.long]

OUTAGE_SECONDS = float(os.environ.get("HEADRACE_OUTAGE_SECONDS", "8"))
RECORDS_PER_SECOND, CUSTOMERS = 20, 20
HEAP_GROWTH_MB_MAX = 64  # of a heap of which a garbage collection has left what is used
TABLE = "visit_batches"


def batches_of(topic: str) -> Batches:
    visits = hr.Topic(topic, key="customer STRING", value="number BIGINT, text STRING")
    batches = visits.group_by().batch(max_records=7, max_wait="2 seconds", collect=["number"])
    return batches.to(hr.PostgresSink(TABLE)).named("visit_batches")


class Traffic:
    """Numbered records, some each fifth of a second; most customers are idle most of the time."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.sent = 0
        self._broker, self._topic, self._stop = broker, topic, threading.Event()
        self._thread = threading.Thread(target=self._send)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def _send(self) -> None:
        numbers = count()
        while not self._stop.wait(0.2):
            some = [next(numbers) for _ in range(RECORDS_PER_SECOND // 5)]
            produce(self._broker, self._topic, map(self._record, some))
            self.sent += len(some)

    @staticmethod
    def _record(number: int) -> Record:
        customer = f"customer-{number * number % CUSTOMERS}".encode()
        value = json.dumps({"number": number, "text": "x" * 200}).encode()
        return Record(number % 2, customer, value, time.time_ns() // 1_000_000)


def held(server: Postgres) -> tuple[Counter[str], Counter[int]]:
    """How often the table holds each batch, and each record."""
    with psycopg.connect(server.dsn) as connection:
        if connection.execute("SELECT to_regclass(%s)", [TABLE]).fetchone() == (None,):
            return Counter(), Counter()
        rows = connection.execute(f"SELECT batch_id, events FROM {TABLE}").fetchall()
    return Counter(row[0] for row in rows), Counter(event["number"] for row in rows for event in row[1])


def heap_mb(spark: SparkSession) -> int:
    """What is used of Spark's heap, after a garbage collection."""
    java = spark._jvm.java.lang  # type: ignore[union-attr]
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory()) // 2**20


def test_a_server_killed_in_the_middle_and_started_again_then_holds_every_batch_once(
    spark: SparkSession,
    lake: Lake,
    kafka: Broker,
    new_topic: Callable[[int], str],
    postgres: Postgres,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    topic = new_topic(2)
    node, traffic = batches_of(topic), Traffic(kafka, topic)
    log, stream = f"log/{topic}", f"stream/{node.name}_stream"
    run = Running(spark, lake, kafka.bootstrap_servers, node)
    try:
        with traffic.going_on():
            run.poll_until(lambda _: sum(held(postgres)[1].values()) > 2 * RECORDS_PER_SECOND)
            heap_before_mb = heap_mb(spark)
            usual_seconds = run.poll()[stream].batch_seconds
            postgres.kill()
            seen = through_the_outage(run)
            heap_after_mb = heap_mb(spark)
            sent_before_return = traffic.sent
            postgres.start().wait_ready()
            back_at = time.monotonic()
            run.poll_until(lambda _: set(range(sent_before_return)) <= held(postgres)[1].keys())
            delivered_seconds = time.monotonic() - back_at
        run.poll_until(lambda _: len(held(postgres)[1]) == traffic.sent)
        status = run.poll_until(lambda s: s[stream].lag_seconds == 0 and not s[stream].error)[stream]
    finally:
        run.runtime.drain(timeout_seconds=PATIENCE_S)
    figures = {
        "outage_seconds": OUTAGE_SECONDS,
        "usual_micro_batch_seconds": usual_seconds,
        "sent": traffic.sent,
        "sent_before_return": sent_before_return,
        "logged_in_the_outage": seen[-1][log].rows_total - seen[0][log].rows_total,
        "failures": max(each[stream].failures for each in seen),
        "delivered_seconds_after_return": round(delivered_seconds, 1),
        "heap_mb": (heap_before_mb, heap_after_mb),
    }
    for name, value in figures.items():
        record_property(name, value)

    assert {each[log].state for each in seen} == {"running"}
    assert {each[stream].state for each in seen} <= {"running", "restarting"}
    told = [error for each in seen if (error := each[stream].error)]
    assert all(
        f"PostgreSQL's table '{TABLE}'" in error and "delivers again by itself" in error for error in told
    ), told
    away = [each[stream] for each in seen if each[stream].failures]
    assert all(each.error for each in away), "the cause is shown to the end"
    assert len({each.batches for each in away}) == 1, "nothing is committed that was not delivered"
    assert (status.state, status.failures) == ("running", 0)
    assert heap_after_mb - heap_before_mb < HEAP_GROWTH_MB_MAX, "what waits is in the log, not in memory"

    batches, records = held(postgres)
    assert records == Counter(range(traffic.sent)), "each record once"
    assert batches == Counter(row["batch_id"] for row in Views(spark, lake).read(node).collect())
    checks = {check.name: check for check in check_node(spark, lake, node, str(tmp_path / "docs"))}
    assert [check.sentence for check in checks.values() if not check.passed] == []
    assert "holds each of them once" in checks["no_batch_lost_or_repeated"].sentence
    assert all(verdict.equal for verdict in verify(spark, lake, node))


def through_the_outage(run: Running) -> list[dict[str, StreamStatus]]:
    """The statuses, twice a second until the node has failed, the log has gone on, and time is over."""
    began, seen = time.monotonic(), [run.poll()]
    log, stream = f"log/{run.node.topics[0].name}", f"stream/{run.node.name}_stream"

    def has_shown() -> bool:
        goes_on = seen[-1][log].rows_total - seen[0][log].rows_total > RECORDS_PER_SECOND
        return bool(seen[-1][stream].failures) and goes_on and time.monotonic() > began + OUTAGE_SECONDS

    while not has_shown():
        assert time.monotonic() < began + OUTAGE_SECONDS + PATIENCE_S, seen[-1]
        time.sleep(0.5)
        seen.append(run.poll())
    return seen
