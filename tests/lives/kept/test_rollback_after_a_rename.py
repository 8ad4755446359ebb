"""A node is changed, renamed, and then somebody goes back: the tables of a name that was given up stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.on_demand import laptop_session
from tests.lives.lifecycle import LifecycleDriver
from tests.lives.story import Change, Cut, GoBack, Life, Made, Rename

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_rollback_of_a_node_that_was_renamed_is_refused(spark: SparkSession) -> None:
    """It put the tables of before under the name of before, which nobody writes any more, and said that all was done."""
    nodes = (
        Made("batches", number=4382, follows=True),
        Made("merged batches", number=6350, follows=True),
    )
    life = Life(
        nodes=nodes, begins=2, steps=(Cut(commits=3), Change(1, number=1569), Rename(1, dies=3), GoBack())
    )
    driver = LifecycleDriver(life, laptop_session(spark, "lives"))
    try:
        driver.live()
        assert driver.acts == ["Change", "Rename", "(rollback)"]
    finally:
        driver.close()
