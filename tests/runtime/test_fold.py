"""What a node folds whatever its columns are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.lifecycle.backfill import verify
from headrace.observe.views import Views
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

DOTTED = hr.Topic("readings", key="sensor_id STRING", value="`a.b` STRING, `c.d` INT", idle_timeout=None)
ROOMS = hr.Topic("rooms", key="`a.b` STRING", value="`r.x` STRING", idle_timeout=None)


def test_columns_may_have_dots_in_their_names(spark: SparkSession, lake: Lake) -> None:
    counted = DOTTED.group_by("a.b").window(hr.tumbling("2 minutes"), grace=0)
    node = counted.aggregate(n=hr.count("c.d"), total=hr.sum("c.d")).named("counts")
    line = Line(spark, lake, node)
    for minute in (0, 1, 30):
        line._piped.add("s1", {"a.b": "x", "c.d": 2}, 1_714_564_800_000 + minute * 60_000, 0, {})
        line.commit()
        line.fold()
    rows = Views(spark, lake).read(line.node).select("`a.b`", "n", "total").collect()
    assert sorted(map(tuple, rows)) == [("x", 1, 2), ("x", 2, 4)]
    assert all(verdict.equal for verdict in verify(spark, lake, node))
