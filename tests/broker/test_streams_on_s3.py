"""Streams over a real broker with their lake on a real S3 server: the same log and the same tables as on a local disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from tests.broker.harness import produce, running
from tests.broker.pipeline import minutes
from tests.rows import require_backfilled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.s3]


def test_stopped_and_started_again_they_lose_and_double_nothing(
    spark: SparkSession, lake: Lake, s3_root: str, kafka: Broker, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, [*minutes(0, 0, 9), *minutes(1, 0, 9)])
    with running(spark, Lake(s3_root), kafka, topic) as first:
        first.catch_up()
        produce(kafka, topic, [*minutes(0, 10, 14), *minutes(1, 10, 14)])
        first.catch_up()
    produce(kafka, topic, [*minutes(0, 15, 29), *minutes(1, 15, 29)])
    with running(spark, Lake(s3_root), kafka, topic) as there:
        there.catch_up()
    with running(spark, lake, kafka, topic) as here:
        here.catch_up()
    assert there.offsets() == {0: [*range(30)], 1: [*range(30)]}
    assert there.decided() == here.decided()
    assert there.results() == here.results() == there.recomputed() != []
    assert there.fates() == here.fates()
    require_backfilled(spark, there.lake, there.node)
