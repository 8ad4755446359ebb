"""A rename changes rows of the nodes that follow: the `batch_id` of a batch begins with the name of the node that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.on_demand import laptop_session
from tests.lives.at_rest import faults
from tests.lives.lifecycle import LifecycleDriver
from tests.lives.story import Cut, Life, Made, Rename, Send, Sent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def two_records(at: int) -> Send:
    """They are a batch, some minutes later than those before."""
    return Send(tuple(Sent("u", 0, "a", at + number * 60_000, number) for number in range(2)))


@pytest.mark.spark
def test_a_sink_that_only_takes_rows_lacks_those_of_the_rename_and_no_others(spark: SparkSession) -> None:
    life = Life(
        nodes=(Made(kind="distinct", number=14), Made(kind="batches", number=2, sink="rows")),
        begins=2,
        steps=(two_records(0), Cut(), Rename(node=0), two_records(600_000), Cut()),
    )
    driver = LifecycleDriver(life, laptop_session(spark, "lives"))
    try:
        driver.live()
        assert not faults(driver)
        assert driver.acts == ["Rename"]
        before, after = driver.stores["node_1"].rows
        assert (before[0].split("@")[0], after[0].split("@")[0]) == ("'node_0", "'node_0x")
        del driver.stores["node_1"].rows[after]
        (lost,) = faults(driver)
        assert lost.startswith("sink of node_1: missing")
    finally:
        driver.close()
