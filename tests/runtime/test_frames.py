"""Frames that are persisted belong to whoever persisted them, and frames that lie in order are not sorted again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.spark.frames import arranged, computed, own

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_what_one_node_frees_another_still_has(spark: SparkSession) -> None:
    mine, others = (own(spark.range(5).where("id > 1")).persist() for _ in range(2))
    others.count()
    others.unpersist()
    assert sorted(row["id"] for row in computed(mine).collect()) == [2, 3, 4]
    mine.unpersist()


def test_a_frame_that_spark_no_longer_keeps_serves_itself(spark: SparkSession) -> None:
    forgotten = own(spark.range(5).where("id > 1")).persist()
    forgotten.unpersist()
    assert sorted(row["id"] for row in computed(forgotten).collect()) == [2, 3, 4]


def test_what_lies_in_order_is_neither_shuffled_nor_sorted(spark: SparkSession) -> None:
    # Two tasks of ten rows, partition 0 in the one and partitions 1 and 2 in the other.
    partition = F.when(F.col("id") < 10, 0).when(F.col("id") < 15, 1).otherwise(2).alias("partition")
    lying = spark.range(0, 20, 1, 2).select(
        partition, F.col("id").alias("offset"), (F.col("id") * 7 % 11).alias("n")
    )
    in_order = Window.partitionBy("partition").orderBy("offset")
    highest = (
        F.max("n").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)).alias("highest")
    )
    found, wanted = (
        frame.where("n <> 3").select("*", highest)
        for frame in (arranged(lying, "partition", "offset"), lying)
    )
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan
    assert "Sort" not in plan
    assert sorted(found.collect()) == sorted(wanted.collect())
