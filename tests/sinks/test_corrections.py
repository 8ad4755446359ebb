"""A backfill that changes or removes rows does the same in a real PostgreSQL; a sink that cannot be corrected is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import Backfill
from headrace.orchestration.jobs.backfills import in_words
from headrace.spark.lake_rows import read
from headrace.writing.delivery.redeliver import redeliver
from tests.broker.pipeline import counts_of
from tests.lake.other_hands import alter
from tests.runtime.line import Line
from tests.runtime.test_evolution import evolved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.sinks import Delivery

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

SENSORS = ("a", "b", "c", "d")
TOTALS = hr.Topic("readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE").group_by()


class Deaf:
    """A sink that forgets all it is given, and cannot be corrected."""

    name = "deaf"

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        rows.count()


def held(database: psycopg.Connection, table: str) -> list[Any]:
    return database.execute(f"SELECT sensor_id, n FROM {table} ORDER BY sensor_id, n").fetchall()


def written_by(database: psycopg.Connection, table: str) -> dict[str, str]:
    """Of each row the transaction that wrote it last."""
    return dict(database.execute(f"SELECT sensor_id, xmin::text FROM {table}").fetchall())


def test_a_backfill_that_removes_and_changes_rows_does_so_in_the_database_and_touches_no_other(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Any
) -> None:
    """Four windows close in one log commit. The table gains a wrong one, and delivers it; another one is wrong."""
    node = counts_of("readings").to(hr.PostgresSink("counts")).to(Deaf())
    line = Line(spark, Lake(f"file:{tmp_path}/lake"), node)
    for sensor in SENSORS:
        line.pipe("2024-05-01 12:00:30", sensor)
    line.pipe("2024-05-01 12:30:00", "a")
    line.commit()
    line.fold()
    right = [(sensor, 1) for sensor in SENSORS]
    assert held(database, "counts") == right

    stored = read(spark, line.table)
    wrong = stored.where("sensor_id = 'a'").withColumn("sensor_id", F.lit("Z"))
    wrong = wrong.withColumn("__key", F.lit(bytearray(b"\x00")))  # it comes before all others of its commit
    wrong.write.format("delta").mode("append").save(line.table)
    alter(line.table, {"n": "9"}, "sensor_id = 'c'")
    days = [day for day in Backfill(spark, line.lake, node).days if day]
    redeliver(spark, line.lake, node, days)
    assert held(database, "counts") == sorted([("Z", 1), ("a", 1), ("b", 1), ("c", 9), ("d", 1)])
    before = written_by(database, "counts")

    backfill = Backfill(spark, line.lake, node)
    (verdict,) = backfill.run()
    assert verdict.swapped
    assert held(database, "counts") == right, "the wrong row is gone, the changed one is right"
    after = written_by(database, "counts")
    assert {name for name in after if after[name] != before[name]} == {"c"}
    assert [(s.sink, s.replaced, s.removed, s.corrected) for s in backfill.sinks] == [
        ("postgres-counts", 1, 1, True),
        ("deaf", 1, 1, False),
    ]
    words = in_words([verdict], backfill.sinks)
    assert "sink `postgres-counts` was corrected: 1 row that changed and 1 that should not be there." in words
    assert "sink `deaf` cannot be corrected" in words

    again = Backfill(spark, line.lake, node)
    assert [each.equal for each in again.run()] == [True]
    assert again.sinks == ()
    redeliver(spark, line.lake, node, days, sinks=["postgres-counts"])
    assert held(database, "counts") == right
    line.pipe("2024-05-01 13:30:00", "b")
    line.commit()
    line.fold()
    assert held(database, "counts") == sorted([*right, ("a", 1)]), "the stream goes on"
    database.execute("DROP TABLE counts, counts__deleted")
    redeliver(spark, line.lake, node, sinks=["postgres-counts"])
    assert held(database, "counts") == sorted([*right, ("a", 1)])
    (kind,) = database.execute("SELECT DISTINCT pg_typeof(window_start)::text FROM counts").fetchall()
    assert kind == ("timestamp with time zone",), (
        "a table made by a redelivery has the types of one made by the stream"
    )


def test_a_backfill_of_totals_corrects_what_has_not_changed_since(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Any
) -> None:
    node = TOTALS.aggregate(n=hr.count()).to(hr.PostgresSink("totals")).named("totals")
    line = Line(spark, Lake(f"file:{tmp_path}/lake"), node)
    for sensor in SENSORS:
        line.pipe("2024-05-01 12:00:30", sensor)
    line.commit()
    line.fold()
    line.runner.maintain()
    line.pipe("2024-05-01 12:00:31", "a")
    line.commit()
    line.fold()
    alter(line.table, {"n": "7"}, "sensor_id IN ('a', 'b')")
    database.execute("UPDATE totals SET n = 7, __place = '\\xff' WHERE sensor_id = 'b'")
    ghost = read(spark, line.table).where("sensor_id = 'c'")
    ghost = ghost.withColumn("sensor_id", F.lit("ghost")).withColumn("__key", F.lit(bytearray(b"\x00")))
    ghost.write.format("delta").mode("append").save(line.table)
    database.execute(
        "INSERT INTO totals SELECT 'ghost', n, __sequence, __place FROM totals WHERE sensor_id = 'c'"
    )

    backfill = Backfill(spark, line.lake, node)
    backfill.run()
    right = [("a", 2), ("b", 1), ("c", 1), ("d", 1)]
    assert held(database, "totals") == right, "what the stream has delivered since stays"
    assert [(s.replaced, s.removed) for s in backfill.sinks] == [(1, 1)], "of 'a' there is a later row"

    database.execute("DELETE FROM totals WHERE sensor_id IN ('a', 'd')")
    database.execute(
        "INSERT INTO totals SELECT 'ghost', n, __sequence, __place FROM totals WHERE sensor_id = 'c'"
    )
    (given,) = redeliver(spark, line.lake, node)
    assert (given.rows, given.removed) == (4, 1)
    assert held(database, "totals") == right

    alter(line.table, {"n": "7"}, "sensor_id = 'b'")
    redeliver(spark, line.lake, node)
    assert held(database, "totals") == [right[0], ("b", 7), *right[2:]]
    backfill.run()
    assert held(database, "totals") == right, "also a row that a redelivery gave is corrected"


def test_a_rebuild_brings_the_database_to_what_the_new_description_gives(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Any
) -> None:
    """A total that still waits for its time limit is no row of the node; without the limit it is one again."""
    lake, plain = Lake(f"file:{tmp_path}/lake"), TOTALS.aggregate(n=hr.count())
    sink = hr.PostgresSink("rebuilt")
    described = [plain, plain.suppress(hr.until_time_limit("2 minutes")), plain]
    wanted = [[("a", 1), ("b", 1)], [("a", 1)], [("a", 1), ("b", 2)]]
    for number, (node, rows) in enumerate(zip(described, wanted, strict=True)):
        line, rebuilt = evolved(spark, lake, node.to(sink).named("kept"))
        assert rebuilt == (number > 0)
        assert not number or held(database, "rebuilt") == rows
        if number < 2:
            for time, sensor in [("12:00:00", "a"), ("12:05:00", "b")][number:]:
                line.pipe(f"2024-05-01 {time}", sensor)
            line.commit()
            line.fold()
        assert number == 2 or held(database, "rebuilt") == rows
