"""Fields of nested structs in another order: they are the same type, and each value stays with its name."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.lifecycle.log_repair.rewrite_log import rewrite_log
from headrace.lifecycle.retention import Retention
from headrace.log.clock import SystemClock
from headrace.log.site import Site
from headrace.spark.lake_rows import read
from headrace.spark.rows.cast_by_name import cast_by_name
from tests.changing.living import Living
from tests.changing.test_apply import apply

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PLACE, TURNED = "STRUCT<lat: DOUBLE, lon: DOUBLE>", "STRUCT<lon: DOUBLE, lat: DOUBLE>"
VISITS = hr.Topic("visits", key="sensor STRING", value=f"n INT, place {PLACE}")
LONDON = {"lat": 51.5, "lon": -0.1}


def commit(living: Living, *records: tuple[float, str]) -> None:
    living.commit(*((minute, sensor, LONDON) for minute, sensor in records), name="place")  # type: ignore[arg-type]


def test_each_field_goes_to_its_name_within_arrays_and_maps_too(spark: SparkSession) -> None:
    before = f"struct<one: {PLACE}, many: array<{PLACE}>, named: map<string, {PLACE}>>"
    wanted = f"struct<many: array<{TURNED}>, one: {TURNED}, named: map<string, {TURNED}>, more: int>"
    text = json.dumps({"one": LONDON, "many": [LONDON, None], "named": {"here": LONDON}})
    rows = spark.createDataFrame([(text,), ("{}",), (None,)], "text STRING").select(
        F.from_json("text", before).alias("value")
    )
    of, to = rows.schema["value"].dataType, spark.range(0).select(F.lit(None).cast(wanted).alias("v")).schema
    turned = rows.select(cast_by_name(F.col("value"), of, to["v"].dataType).alias("v"))
    assert turned.schema["v"].dataType.simpleString() == wanted.replace(": ", ":").replace(", ", ",").lower()
    full, empty, absent = (row["v"] for row in turned.collect())
    full = full.asDict(recursive=True)
    assert full == {"one": LONDON, "many": [LONDON, None], "named": {"here": LONDON}, "more": None}
    assert empty.asDict() == {"one": None, "many": None, "named": None, "more": None}
    assert absent is None


def test_a_log_that_is_written_again_keeps_latitudes_and_longitudes(
    spark: SparkSession, tmp_path: Path
) -> None:
    living = Living(spark, tmp_path / "lake", VISITS)
    commit(living, (0, "a"))
    now = replace(VISITS, value=f"n BIGINT, place {TURNED}")
    rewrite_log(Site(spark, living.lake, SystemClock()), now, {}, [])
    rows = read(spark, living.lake.log("visits")).where("kind = 'record'").collect()
    assert [row["value"]["place"].asDict() for row in rows] == [LONDON]


def test_rows_of_days_before_since_keep_latitudes_and_longitudes(spark: SparkSession, tmp_path: Path) -> None:
    def places(topic: hr.Topic, since: str | None = None, **more: Any) -> list[Any]:
        hourly = topic.group_by("sensor").window(hr.tumbling("1 hour"), grace="0 s")
        return [hourly.aggregate(place=hr.last("place"), **more).named("places", since=since)]

    living = Living(spark, tmp_path / "lake", VISITS)
    commit(living, (0, "a"), (50, "a"))
    living.clock.set(living.clock.now_ms() + 60_000)
    cut_ms = living.clock.now_ms()
    commit(living, (130, "b"), (300, "b"))
    before = places(VISITS)
    living.fold(before)
    assert Retention(spark, living.lake, before, VISITS).run(cut_ms).rows
    after = places(replace(VISITS, value=f"n INT, place {TURNED}"), "2023-11-15", n=hr.count())
    apply(living, after)
    rows = read(spark, living.lake.table("places")).collect()
    assert {row["window_start"].day for row in rows} == {14, 15}
    assert [row["place"].asDict() for row in rows] == [LONDON] * len(rows)
