"""A micro-batch compiles nothing that the one before it compiled: its numbers stand in no generated code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.description import RunningAggregate
from headrace.spark.jvm import java_class
from headrace.spark.session import pipeline_session
from tests.runtime.line import Line, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark


def topic(guard: hr.ReplayGuard | None = None) -> hr.Topic:
    value = "sensor_id STRING, value DOUBLE"
    return hr.Topic("readings", key="sensor_id STRING", value=value, replay_guard=guard)


def totals_of(source: hr.Topic) -> RunningAggregate:
    return source.group_by("sensor_id").aggregate(total=hr.sum("value"))


readings = topic()
NODES = [
    totals_of(readings).named("totals"),
    totals_of(topic(hr.ReplayGuard())).named("guarded"),
    totals_of(topic(hr.ReplayGuard(mode="exact"))).named("exactly_guarded"),
    readings.group_by("sensor_id")
    .window(hr.tumbling("1 day"), grace="1 day")
    .aggregate(n=hr.count())
    .named("counts"),
    readings.table().named("latest"),
    readings.table().join(totals_of(readings), on="sensor_id").named("joined"),
    readings.group_by("sensor_id")
    .window(hr.tumbling("1 second"), grace=0)
    .aggregate(total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("closing"),
    readings.group_by("sensor_id").batch(max_wait="1 second", collect=["value"]).named("batches"),
]
MOST = 10  # micro-batches; the first ones of a log and a node are unlike the later ones, for nothing is known yet


def compiled(spark: SparkSession) -> int:
    """Classes that Spark has compiled since it started, for anybody."""
    metrics = java_class(spark, "org.apache.spark.metrics.source.CodegenMetrics")
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.required_name)
def test_later_micro_batches_compile_nothing(spark: SparkSession, lake: Lake, node: Node) -> None:
    """Two in a row that compile nothing have none of their numbers in code: no number of one is that of the other."""
    line = Line(pipeline_session(spark, interpreted=False), lake, node)
    found: list[int] = []
    while found[-2:] != [0, 0]:
        assert len(found) < MOST, found
        found.append(compilations(line, len(found)))
    assert compiled(spark) > 0, "the metric counts"


def compilations(line: Line, second: int) -> int:
    """How many classes are compiled while a micro-batch of a log and a node runs."""
    before = compiled(line.spark)
    line.clock.set(at("2024-06-01 00:00:00") + second * 1_000)
    for sensor in ("s1", "s2"):
        line.pipe(f"2024-05-01 12:00:{second:02}", sensor, float(second), partition=second % 2)
    raw = line._piped.take(line.spark)
    assert raw is not None
    # A relation of the driver's would be folded into its query.
    line.sequencer.append(raw.persist(), in_order=True)
    line.fold()
    return compiled(line.spark) - before
