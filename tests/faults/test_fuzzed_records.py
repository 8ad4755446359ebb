"""Malformed records of a grammar through a real broker: each is in the log once, as the oracles read it, and no stream ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headrace.lake.paths import Lake
from headrace.local.broker import Broker
from tests.faults.fuzz import PARTITIONS, fuzzed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker


def test_whatever_bytes_a_record_holds_it_is_in_the_log_once_as_the_oracle_reads_it(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: Callable[[int], str]
) -> None:
    found = fuzzed(spark, lake, kafka.bootstrap_servers, new_topic(PARTITIONS), seed=34, number=3_000)
    assert found.words == []
    assert found.records == 3_000
