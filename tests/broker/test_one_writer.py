"""Two runtimes over one lake: the second is told who the first is, and takes over at once when that is dead."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.lake import open_table
from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.log.clock import SystemClock
from headrace.writing.leases import lease, lease_waits
from headrace.writing.leases.lease import lease_taken_ms
from tests.broker.harness import produce, running
from tests.broker.pipeline import minutes
from tests.faults.process import victim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker


def test_a_second_runtime_is_refused_and_takes_over_when_the_first_is_killed(
    spark: SparkSession,
    lake: Lake,
    kafka: Broker,
    new_topic: Callable[[int], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_waits, "WAIT_SECONDS", 3.0)
    topic = new_topic(1)
    produce(kafka, topic, minutes(0, 0, 9))
    with victim(kafka, lake, topic, tmp_path / "first.log") as first:
        first.wait_for("caught up")
        with running(spark, lake, kafka, topic) as run:
            waiting = run.poll()
            assert {status.state for status in waiting.values()} == {"waiting"}
            holder = f"the lease held by process {first.process.pid} on {socket.gethostname()} since 20"
            assert f"Log '{topic}' is waiting for {holder}" in (waiting[f"log/{topic}"].error or "")
            refused = run.poll_until(lambda s: all(status.state == "failed" for status in s.values()))
        holder = f"is already being written by process {first.process.pid} on {socket.gethostname()}."
        assert (refused[f"log/{topic}"].error or "").splitlines()[0] == f"Log '{topic}' {holder}"
        assert (refused["stream/reading_counts_stream"].error or "").splitlines()[
            0
        ] == f"Node 'reading_counts' {holder}"

        produce(kafka, topic, minutes(0, 10, 19))
        first.process.send_signal(signal.SIGKILL)
        with running(spark, lake, kafka, topic) as run:
            statuses = run.catch_up()  # fails at once if a lease is refused
        assert {status.state for status in statuses.values()} == {"running"}
    assert run.offsets() == {0: list(range(20))}
    assert run.results() == run.recomputed()


def test_a_run_that_stands_by_takes_over_when_the_first_ones_machine_is_lost(
    spark: SparkSession,
    lake: Lake,
    kafka: Broker,
    new_topic: Callable[[int], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each sees the other as on another machine: its process ids say nothing, and only the lease's expiry tells."""
    monkeypatch.setenv("HEADRACE_STREAM_LEASE_SECONDS", "12")  # a busy process is silent for seconds
    monkeypatch.setattr(lease, "process_space", lambda: "another machine")
    monkeypatch.setattr(lease_waits, "WAIT_SECONDS", 1.0)
    topic = new_topic(1)
    produce(kafka, topic, minutes(0, 0, 9))
    with victim(kafka, lake, topic, tmp_path / "first.log") as first:
        first.wait_for("caught up")
        with running(spark, lake, kafka, topic, standby=True) as run:
            until = time.monotonic() + 4.0
            while time.monotonic() < until:
                assert {status.state for status in run.poll().values()} == {"waiting"}
                time.sleep(0.2)
            assert "this stream stands by" in (run.poll()[f"log/{topic}"].error or "")
            first.process.send_signal(signal.SIGKILL)
            died_ms, died = SystemClock().now_ms(), time.monotonic()
            rows = open_table(lake.state("reading_counts")).version
            produce(kafka, topic, minutes(0, 10, 19))
            run.poll_until(lambda _: run.offsets() == {0: list(range(20))})
            run.poll_until(lambda _: open_table(lake.state("reading_counts")).version > rows + 1)
            seconds = time.monotonic() - died
            run.catch_up()
            for of in (f"log/{topic}", "node/reading_counts"):
                taken_ms = lease_taken_ms(lake.lease(of), SystemClock())
                assert taken_ms is not None
                assert taken_ms - died_ms < 60_000, "each is taken when its own 12 s are over"
    print(f"from death to the next committed row: {seconds:.1f} s")
    assert run.results() == run.recomputed()
