"""Null is a group: PostgreSQL keeps one row for it, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.spark.frames import local_frame
from headrace.testing.sinks import place_of
from tests.sinks.test_postgres_sink import NOON, OWN, delivery, held, made

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def test_a_null_group_has_one_row_that_is_revised_and_deleted(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    sink, place = (
        hr.PostgresSink("by_country"),
        delivery(tmp_path, "country", "day", "n", identity=("country", "day")),
    )
    schema = "country STRING, day STRING, n INT"
    for sequence, n in ((1, 1), (2, 2), (2, 2)):
        rows = [(None, "mon", n), ("it", None, n), (None, None, n)]
        sink.deliver(made(spark, schema, rows, sequence), place)
    found = {(row["country"], row["day"]): row["n"] for row in held(database, "by_country")}
    assert found == {(None, "mon"): 2, ("it", None): 2, (None, None): 2}
    assert len(held(database, "by_country")) == 3
    gone = local_frame(spark, [(None, "mon", None, True, NOON, 3, place_of(0), 0)], f"{schema}, {OWN}")
    sink.deliver(gone, place)
    sink.deliver(made(spark, schema, [(None, "mon", 1)], 1), place)  # older than the deletion
    assert {(row["country"], row["day"]) for row in held(database, "by_country")} == {
        ("it", None),
        (None, None),
    }
