"""`headrace redeliver` for a sink that calls a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.writing.delivery.redeliver import redeliver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import Drive


@pytest.mark.spark
def test_headrace_redeliver_asks_for_them(spark: SparkSession, drive: Drive) -> None:
    sent = list[str]()
    topic = hr.Topic("views", key="user STRING", value="n INT")
    big = topic.where("n > 1").named("big").to(hr.each(lambda row: sent.append(row["user"]), name="mail"))
    driver = drive(big)
    for number in range(4):
        driver.pipe("views", key=f"u{number}", value={"n": number})
    driver.cut()
    for _ in range(2):
        (done,) = redeliver(spark, driver._lake, big)
        assert done.rows == 2
    assert sent == ["u2", "u3"] * 3
