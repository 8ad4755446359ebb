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
WARM_UP = 3  # the first micro-batches of a log and a node are unlike the later ones: nothing is known yet


def compiled(spark: SparkSession) -> int:
    """Classes that Spark has compiled since it started."""
    metrics = java_class(spark, "org.apache.spark.metrics.source.CodegenMetrics")
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.required_name)
def test_later_micro_batches_compile_nothing(spark: SparkSession, lake: Lake, node: Node) -> None:
    found = compilations(spark, lake, node, WARM_UP + 2)
    assert compiled(spark) > 0, "the metric counts"
    assert found[WARM_UP:] == [0, 0]


def compilations(spark: SparkSession, lake: Lake, node: Node, micro_batches: int) -> list[int]:
    """How many classes each of the first micro-batches of a log and a node compiles."""
    line = Line(pipeline_session(spark), lake, node)
    found = []
    for second in range(micro_batches):
        before = compiled(spark)
        line.clock.set(at("2024-06-01 00:00:00") + second * 1_000)
        for sensor in ("s1", "s2"):
            line.pipe(f"2024-05-01 12:00:{second:02}", sensor, float(second), partition=second % 2)
        raw = line._piped.take(line.spark)
        assert raw is not None
        line.sequencer.append(
            raw.persist(), in_order=True
        )  # a relation of the driver's would be folded into its query
        line.fold()
        found.append(compiled(spark) - before)
    return found
