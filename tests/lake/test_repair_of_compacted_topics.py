"""A repair says how many records Kafka no longer has: it compacts some topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.lifecycle.log_repair.lost_commits import LostCommits
from headrace.lifecycle.log_repair.repair import Repair
from headrace.observe.local_views import LocalViews
from headrace.settings.kafka import KafkaSettings
from headrace.spark.kafka import KafkaTopic
from tests.lake.lost_commits import overwrite, remove_strays, versions
from tests.rows import file_rows
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        pytest.param(  # as of any topic: see test_repair.py
            "offset >= 0", "(partition 0 offsets 2 to 3), 2 records read from Kafka", marks=pytest.mark.long
        ),
        (
            "offset = 3",
            "(partition 0 offsets 2 to 3), 1 record read from Kafka; at 1 offset Kafka has no record",
        ),
        pytest.param(
            "offset < 0",
            "(partition 0 offsets 2 to 3), 0 records read from Kafka; at 2 offsets Kafka has no record",
            marks=pytest.mark.long,
        ),
    ],
)
def test_records_that_a_compacted_topic_no_longer_has_are_not_told_as_put_back(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, kept: str, says: str
) -> None:
    node = READINGS.group_by().aggregate(n=hr.count()).named("totals")
    line = Line(spark, lake, node)
    sent = []
    for first in (0, 2, 4):
        for offset in (first, first + 1):
            value = '{"sensor_id": "s1", "value": 1.0}'
            line._piped.add("s1", value, 1_714_564_800_000 + offset, 0, {})
        raw = line._piped.take(spark)
        assert raw is not None
        sent.append(raw)
        line.sequencer.append(raw, in_order=True)
        line.clock.set(line.clock.now_ms() + 1_000)
    line.fold()
    overwrite(lake.log("readings"), versions(lake.log("readings"), "log/readings")[1])
    remove_strays(lake.log("readings"))
    monkeypatch.setattr(KafkaTopic, "topic_id", lambda _: None)
    monkeypatch.setattr(KafkaTopic, "earliest", lambda _, partitions: dict.fromkeys(partitions, 0))
    monkeypatch.setattr(LostCommits, "_records", lambda *_: sent[1].where(kept))
    work = Repair(spark, lake, [node], READINGS, KafkaSettings(bootstrap_servers="localhost:1"))
    done = [*map(str, work.run())]
    assert says in done[0]
    left = sum(row["offset"] is not None for row in file_rows(lake.log("readings")))
    assert LocalViews(spark, lake).read(node)["n"].to_pylist() == [left]
