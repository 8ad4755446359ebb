"""A description changes before its node has committed anything: nothing is there to rebuild, and the node begins by the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.on_demand import laptop_session
from tests.lives.one import live
from tests.lives.story import Change, Crash, Cut, Life, Made, Rename, Send, Sent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = Send((Sent("t", 0, "a", 1_000, 1), Sent("t", 0, "b", 30_000, 2), Sent("t", 0, "b", 70_000, 2)))


@pytest.mark.spark
@pytest.mark.parametrize("step", ["before outputs", "after outputs"])
def test_a_first_micro_batch_that_was_broken_off_is_one_of_the_new_description(
    spark: SparkSession, step: str
) -> None:
    """A processor had other columns of its state, and `headrace apply` saw nothing to do; windows kept rows of before."""
    life = Life(
        nodes=(
            Made("processor of a table", number=8187, sink="keyed", follows=True),
            Made("windows", number=0, sink="keyed", follows=True),
        ),
        begins=2,
        steps=(
            RECORDS,
            Crash(step, stays=True),
            Crash(step, stays=True),
            Cut(),
            Change(0, number=15539909),
            Change(1, number=1),
        ),
    )
    live(life, laptop_session(spark, "lives"))


@pytest.mark.spark
def test_a_table_that_has_read_nothing_reads_another_node_by_its_new_name(spark: SparkSession) -> None:
    """The commit that began it anew did not say how far it goes, and the node could not be opened any more."""
    nodes = (Made("time limit", number=380), Made("totals", number=1_020, follows=True))
    live(Life(nodes=nodes, begins=2, steps=(Rename(0, dies=3),)), laptop_session(spark, "lives"))
