"""The life of a stream under Dagster's own processes: webserver, daemon, code server, and the run beside them.

One instance and one stream for all tests; they run in the order of this file. `test_lifecycle_restarts.py` restarts Dagster.
"""

from __future__ import annotations

import os
import signal

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from headrace.lifecycle.backfill import verify
from headrace.observe.local_views import LocalViews
from tests.broker.pipeline import counts_of
from tests.orchestration.site import CANCELED, STARTED, Site, java_below, lives, pid_of, send, site

__all__ = ["site"]
pytestmark = [pytest.mark.dagster, pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]
DRAIN_SECONDS = 60.0


def test_the_sensor_starts_the_stream_and_a_second_start_waits_in_the_queue(site: Site) -> None:
    send(site, 0, 9)
    site.until(site.streaming(20))
    (first,) = site.runs()
    second = site.client.submit_job_execution("streams")
    assert "is queued" in str(site.next_tick()["skipReason"])
    assert [site.status(first), site.status(second)] == [STARTED, dg.DagsterRunStatus.QUEUED]
    site.client.terminate_run(second)
    site.until(lambda: site.status(second) is CANCELED)
    assert site.status(first) is STARTED


def test_a_killed_run_leaves_no_jvm_and_the_next_goes_on_exactly(site: Site, spark: SparkSession) -> None:
    (run,) = site.runs(STARTED)
    pid = pid_of(site.world.instance, run)
    machines = java_below(pid)
    assert machines
    send(site, 10, 14)
    os.kill(pid, signal.SIGKILL)
    site.until(lambda: not any(map(lives, machines)))
    site.until(lambda: site.runs(STARTED) not in ([], [run]))
    (after,) = site.runs(STARTED)
    assert site.status(run) is dg.DagsterRunStatus.FAILURE
    send(site, 15, 19)
    site.until(site.streaming(10, after))
    node, lake = counts_of(site.world.topic), site.world.lake
    site.until(lambda: LocalViews(spark, lake).read(node).num_rows == 18)
    (verdict,) = verify(spark, lake, node)
    assert (verdict.equal, verdict.rows_recomputed) == (True, 18)


def test_terminated_it_drains_within_a_minute_and_stays_stopped(site: Site) -> None:
    (run,) = site.runs(STARTED)
    known, machines = set(site.runs()), java_below(pid_of(site.world.instance, run))
    site.client.terminate_run(run)
    site.until(lambda: site.status(run) is CANCELED, within=DRAIN_SECONDS + 30)
    site.until(lambda: not any(map(lives, machines)))
    assert "stopped by a person" in str(site.next_tick()["skipReason"])
    assert set(site.runs()) == known
