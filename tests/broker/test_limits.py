"""A bound that is hit and raised while the stream runs: nobody stops it, and it goes on by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.lake.paths import Lake
from headrace.lifecycle.live_limits import set_limits
from headrace.local.servers.broker import Broker
from tests.broker.harness import Running, produce
from tests.broker.pipeline import counts_of, reading
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker


@pytest.mark.long
def test_a_full_node_waits_for_a_higher_bound_and_goes_on_when_it_is_set(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)
    full = hr.until_window_closes(max_records=2, when_full="shut_down")
    node = replace(counts_of(topic), suppression=full)
    run = Running(spark, lake, kafka.bootstrap_servers, node)
    log, stream = f"log/{topic}", "stream/reading_counts_stream"
    try:
        produce(kafka, topic, [reading(0, 0, sensor=name) for name in "abc"])
        for bound, more in ((2, "d"), (3, "e")):
            run.poll_until(lambda s: s[stream].state == "failed")
            statuses = run.poll()
            assert (statuses[log].state, statuses[stream].state) == ("running", "failed")
            assert f"max_records is {bound}" in (statuses[stream].error or "")
            set_limits(spark, lake, node, {"max_records": bound + 1})
            shown = run.poll_until(lambda s: s[stream].state == "running" and s[stream].lag_seconds == 0)
            assert shown[stream].limits == {"suppression_max_records": bound + 1}
            produce(kafka, topic, [reading(0, 1, sensor=more)])
        run.poll_until(lambda s: s[stream].state == "failed")
        set_limits(spark, lake, node, {"max_records": 9})
        produce(kafka, topic, [reading(0, 9)])
        run.catch_up()
    finally:
        run.runtime.drain(timeout_seconds=PATIENCE_S)
    assert [row[0] for row in run.results()] == list("abcde")
    assert run.results() == run.recomputed()
