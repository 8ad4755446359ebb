"""What a driver gives by Spark: frames of results and updates, and streams that a function of frames transforms."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.log.history.views import REDRIVEN
from headrace.observe.fates.dead_letters import by_reason
from headrace.observe.fates.fated_records import FatedRecords
from tests.laws import tables
from tests.scenarios.test_windows import counts, topic, totals
from tests.scenarios.timeline import play

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.conftest import Drive

pytestmark = pytest.mark.spark


def doubled(frame: DataFrame) -> DataFrame:
    return frame.withColumn("value", F.col("value") * 2)


def test_columns_can_be_computed_selected_and_transformed(drive: Drive) -> None:
    stream = (
        topic()
        .with_column("group", "upper(substr(sensor, 1, 1))")
        .transform(doubled, "sensor STRING, value DOUBLE, group STRING")
        .select("group AS sensor", "CAST(value AS DECIMAL(10,2)) AS value")
    )
    driver = drive(totals(stream))
    play(driver, "a1@1=0.5  a2@1=1.25  b1@1=2  a1@9")
    assert [row["total"] for row in driver.rows("totals")] == [
        Decimal("3.50"),
        Decimal("4.00"),
    ]


def test_before_the_first_record_frames_are_empty_and_typed(drive: Drive) -> None:
    driver = drive(counts(topic()))
    for _ in range(2):
        assert driver.read("counts").isEmpty()
        assert driver.read("counts").columns == ["sensor", "window_start", "window_end", "n"]
        driver.cut()


def test_frames_have_the_rows_that_the_process_reads_by_itself(drive: Drive) -> None:
    """Late and dead letters, the ledger, records by fate, a backfill: each way computes them by itself."""
    node = counts(topic().where("value > 0"), hr.hopping("4 minutes", "2 minutes"))
    driver = drive(node)
    play(
        driver,
        """
        a@1  b@2=-1  p1:a@1
        a@3  p1:b@9  a@12
        a@2  a@13=null
        """,
    )
    for content in (b"{", b"nothing"):
        driver.pipe("readings", key="a", value=content, timestamp_ms=0)
    driver.cut()
    views, described = driver.views, driver._nodes["counts"]

    def same(frame: DataFrame, plain: list[dict[str, object]]) -> bool:
        return sorted(map(str, tables.rows(frame))) == sorted(map(str, plain)) != []

    assert same(driver.read("counts"), driver.rows("counts"))
    assert same(views.recompute(described), driver.backfill("counts"))
    assert same(views.late(described), driver.late("counts"))
    assert same(views.ledger(described), driver.ledger("counts"))
    for fate in ("used", "late", "filtered", "dead_letter"):
        assert same(views.records(described, fate), driver.records("counts", fate)), fate
    assert same(views.dead_letters(driver._topics["readings"], [described]), driver.dead_letters("readings"))


def test_dead_letters_of_a_log_are_grouped_by_reason_with_and_without_spark(drive: Drive) -> None:
    driver = drive(counts(topic()))
    for number, content in enumerate((b"{", b"{", b"", b'{"value": "many"}', b"\xff")):
        driver.pipe("readings", key="a", value=content, timestamp_ms=number)
        driver.cut()
    sent_again = {"other": b"x", REDRIVEN: b'["readings", 0, 1]'}
    driver.pipe("readings", key="a", value={"value": 1.0}, timestamp_ms=9, headers=sent_again)
    driver.cut()
    of_log = driver.views.dead_letters(driver._topics["readings"])
    for examples in (0, 1, 3):
        groups, again = FatedRecords(driver.spark, driver._lake, examples).of_log(driver._topics["readings"])
        assert groups == by_reason(of_log, examples)
        assert sum(group.records for group in groups) == 5
        assert again == 1
