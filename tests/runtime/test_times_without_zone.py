"""A TIMESTAMP_NTZ stays one on its way through steps, states, results, changes and selects."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import TimestampNTZType

import headrace as hr
from headrace.nodes.bound_operator import bound
from headrace.testing import TestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node

pytestmark = pytest.mark.spark
VISITS = hr.Topic("visits", key="id STRING", value="at TIMESTAMP_NTZ, room STRING", idle_timeout=None)
ROOMS = hr.Topic("rooms", key="room STRING", value="since TIMESTAMP_NTZ", idle_timeout=None)
TOTALS = VISITS.group_by("room").aggregate(at=hr.max("at"), first=hr.first("at")).named("totals")
ROWS = VISITS.table().where("room <> ''").named("rows")
JOINED = (
    VISITS.table()
    .join(
        ROOMS.table(),
        on="room",
        select=("at", "right.since AS since", "regexp_replace(room, 'a', 'b') AS spot"),
    )
    .named("joined")
)
NOON = datetime(2026, 11, 28, 12)


@pytest.mark.parametrize("node", [TOTALS, ROWS, JOINED], ids=lambda node: str(node.name))
def test_its_type_is_kept(spark: SparkSession, node: Node) -> None:
    """Before, results, changes and state had a TIMESTAMP."""
    made = bound(spark, node)
    assert made.results["at"].dataType == TimestampNTZType()
    for schema in (made.results, made.state):
        times = {field.name: field.dataType for field in schema if field.name in ("at", "first", "since")}
        assert set(times.values()) <= {TimestampNTZType()}


def test_its_value_is_kept_live_and_backfilled(spark: SparkSession) -> None:
    nodes = [TOTALS, ROWS, JOINED]
    with closing(TestDriver(nodes, spark=spark)) as driver:
        driver.pipe("rooms", key="hall", value={"since": NOON.isoformat()}, timestamp_ms=0)
        driver.pipe("visits", key="a", value={"at": NOON.isoformat(), "room": "hall"}, timestamp_ms=1)
        driver.cut()
        assert driver.read("totals").schema["first"].dataType == TimestampNTZType()
        assert [(row["at"], row["first"]) for row in driver.rows("totals")] == [(NOON, NOON)]
        assert [row["at"] for row in driver.rows("rows")] == [NOON]
        assert [(row["at"], row["since"], row["spot"]) for row in driver.rows("joined")] == [
            (NOON, NOON, "hbll")
        ]
        for node in nodes:
            assert driver.verify(str(node.name)).equal
