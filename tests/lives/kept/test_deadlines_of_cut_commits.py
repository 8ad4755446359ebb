"""A retention cuts off the commit that opened a batch: its deadline is one of the log all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.on_demand import laptop_session
from tests.lives.one import live
from tests.lives.story import Cut, Life, Made, Retain, Send, Sent, Wait

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_batch_closes_in_time_though_its_commit_was_cut_off(spark: SparkSession) -> None:
    """The last commit, which is never cut, has no record: nothing else would have the log tick."""
    life = Life(
        nodes=(Made("batches", number=1, follows=True),),
        begins=1,
        steps=(
            Send((Sent("t", 0, "a", 1_000, 1),)),
            Cut(),
            Wait(10),
            Send((Sent("t", 0, "a", 1_500, kind="rolled back"),)),
            Cut(),
            Wait(10),
            Retain("t"),
        ),
    )
    live(life, laptop_session(spark, "lives"))
