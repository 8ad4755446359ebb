"""The end of Spark's JVM: noticed at once, told to every query, and never taken for a drain."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.spark.kafka import KafkaSettings
from headrace.streams import jvm_process
from headrace.streams.jvm_process import JvmEndedError, JvmProcess
from headrace.streams.stream_runtime import StreamRuntime
from headrace.writing.leases.lease import lease_taken_ms
from tests.runtime.line import Line
from tests.runtime.supervising import LONG, Loop, held_up, raise_
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

TOTALS = (
    hr.Topic("readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None)
    .group_by()
    .aggregate(n=hr.count())
    .named("totals")
)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process in the place of a JVM."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def process_of(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, told: list[str], answers: Any = int
) -> JvmProcess:
    classes = {
        "java.lang.ProcessHandle": SimpleNamespace(current=lambda: SimpleNamespace(pid=lambda: child.pid)),
        "java.lang.System": SimpleNamespace(nanoTime=lambda: answers()),
    }
    monkeypatch.setattr(jvm_process, "java_class", lambda _, name: classes[name])
    return JvmProcess(cast("SparkSession", None), lambda: told.append("ended"))


@pytest.mark.fast
@pytest.mark.parametrize("started_by", ["PySpark", "others"])
def test_the_end_of_the_process_is_told_once_and_at_once(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, started_by: str
) -> None:
    def answers() -> int:
        return 1 if child.poll() is None else raise_(ConnectionRefusedError("nobody listens"))

    if started_by == "others":
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
        monkeypatch.setattr(jvm_process, "PING_SECONDS", 0.05)
    told: list[str] = []
    process = process_of(child, monkeypatch, told, answers)
    process.watch()
    assert not process.has_ended()
    child.kill()
    until(lambda: process.ended)
    assert process.has_ended()
    assert told == ["ended"]
    lines = str(process.error()).splitlines()
    assert lines[0] == f"Spark's JVM (process {child.pid}) has ended."
    assert lines[1].startswith("Noticed at 20")


ENDED = JvmEndedError("Spark's JVM (process 7) has ended.")


@pytest.mark.fast
def test_a_query_ends_with_the_jvm_at_once_and_is_not_opened_again(stream: Loop) -> None:
    go_on = held_up(stream, lambda: raise_(ConnectionRefusedError("Py4J: nobody listens")))
    stream.end_with_jvm(ENDED)
    assert (stream.state, stream.error) == ("ended", ENDED), "a micro-batch under way is not waited for"
    stream.let_go(time.monotonic())
    assert stream.closed == 0, "it may still be writing: its lease is kept"
    go_on.set()
    stream.let_go(time.monotonic() + LONG)
    stream.keep_running()
    assert (stream.state, stream.error, stream.opened, stream.closed) == ("ended", ENDED, 1, 1)


@pytest.mark.fast
def test_what_had_failed_before_the_jvm_ended_keeps_its_own_cause(stream: Loop) -> None:
    error = TerminalError("Kafka has deleted records.")
    stream.refusals = [error]
    stream.keep_running()
    stream.end_with_jvm(ENDED)
    assert (stream.state, stream.error) == ("failed", error)


@pytest.mark.spark
def test_a_runtime_whose_jvm_has_ended_shows_no_old_figures_and_claims_no_drain(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line(spark, lake, TOTALS)
    line.pipe("2024-05-01 12:00:00")
    line.commit()
    kafka = KafkaSettings(bootstrap_servers="localhost:1")
    runtime = StreamRuntime(spark, lake, [TOTALS], kafka=kafka, trigger_ms=20, only=["stream/totals_stream"])
    status = until(lambda: runtime.poll()[0], lambda now: now.rows_total and now.batches)
    assert (status.state, status.batches) == ("running", 1)
    assert status.rows_per_second > 0

    monkeypatch.setattr(JvmProcess, "_lives", lambda _: False)
    until(lambda: runtime.jvm_ended)  # without a poll
    (status,) = runtime.poll()
    assert (status.state, status.rows_total, status.batches) == ("ended", 1, 1)
    assert (status.error or "").startswith("Spark's JVM (process ")
    assert status.rows_per_second == 0
    unknown = status.lag_records, status.lag_seconds, status.stream_time_ms, status.state_bytes
    assert set(unknown) == {None}
    with pytest.raises(JvmEndedError, match="has ended"):
        runtime.run_until_caught_up(10)
    with pytest.raises(JvmEndedError, match="since then no query of this process runs"):
        runtime.drain()
    assert lease_taken_ms(lake.lease("node/totals"), line.clock) is None, "its lease is given back"
