"""What `headrace config check` asks of Kafka is enough: a stream and its sink run over SASL with these rights alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.local.servers.topics import records_in
from headrace.preflight.kafka import check_kafka
from headrace.streams.stream_runtime import StreamRuntime
from tests.broker.harness import produce, rows_of
from tests.broker.pipeline import counts_of, minutes
from tests.preflight.test_kafka import settings
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake
    from tests.preflight.conftest import SaslBroker

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def test_with_the_rights_that_the_check_asks_for_a_log_is_read_and_its_sink_written(
    spark: SparkSession, broker: SaslBroker, lake: Lake
) -> None:
    node, own = counts_of("in").to(hr.KafkaSink("out")), settings(broker)
    assert all(finding.ok for finding in check_kafka([node], own))
    produce(broker, "in", minutes(0, 0, 9))
    runtime = StreamRuntime(spark, lake, [node], kafka=own, trigger_ms=100)
    try:
        runtime.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
    finally:
        runtime.drain(timeout_seconds=PATIENCE_S)
    log = spark.read.format("delta").load(lake.log("in")).where("offset IS NOT NULL")
    assert [row[0] for row in rows_of(log.select("offset"))] == [*range(10)]
    assert records_in(broker.bootstrap_servers, "out") > 0
