"""What becomes of a log and of state when the description changes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.description import WindowedAggregate
from headrace.operators import operator_of
from headrace.runtime.lake import Lake
from headrace.runtime.node_tables import read_logs
from headrace.runtime.views import Views
from tests.runtime.line import Line, at

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NARROW = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
WIDE = replace(NARROW, value="place STRUCT<city: STRING>, value DOUBLE, unit STRING")


def counts(topic: hr.Topic, grace: str = "0 minutes") -> WindowedAggregate:
    windows = topic.group_by().window(hr.tumbling("1 minute"), grace=grace)
    return windows.aggregate(n=hr.count(), total=hr.sum("value")).named("counts")


def send(line: Line, time: str, **value: object) -> None:
    line._piped.add("s1", json.dumps(value), at(f"2024-06-01 {time}"), 0, {})
    line.commit()
    line.fold()


def test_a_column_that_a_topic_gains_is_null_before_and_nodes_that_do_not_read_it_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(f"file:{tmp_path}")
    send(Line(spark, lake, counts(NARROW)), "00:00:01", value=1.0)
    line = Line(spark, lake, counts(WIDE))
    assert line.runner.progress.batch == 1
    send(line, "00:00:02", value=2.0, unit="K", place={"city": "Bern"})
    rows = [tuple(row)[3:] for row in Views(spark, lake).read(line.node).collect()]
    assert rows == [(2, 3.0)]
    recomputed = operator_of(line.node).decide(
        read_logs(spark, lake, line.node, line.runner.progress.upto_ms)
    )
    assert [(r.value, r.unit, r.place) for r in recomputed.orderBy("__offset").collect()] == [
        (1.0, None, None),
        (2.0, "K", ("Bern",)),
    ]
    with pytest.raises(hr.TerminalError) as error:
        Line(spark, lake, counts(NARROW))
    assert "has other columns than the description" in str(error.value)


def test_another_description_is_refused_and_what_changed_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(f"file:{tmp_path}")
    send(Line(spark, lake, counts(NARROW)), "00:00:01", value=1.0)
    with pytest.raises(hr.TerminalError) as error:
        Line(spark, lake, counts(NARROW, grace="5 minutes"))
    assert "was written by another description" in str(error.value)
    assert error.value.detail == "stored -> described: grace_ms: 0 -> 300000"
    wider = replace(counts(NARROW), aggregates=(("n", hr.count()),))
    with pytest.raises(hr.TerminalError) as error:
        Line(spark, lake, wider)
    assert error.value.detail is not None
    assert error.value.detail.startswith("stored -> described: aggregates: ")
