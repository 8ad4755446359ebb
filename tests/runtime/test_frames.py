"""What is kept is computed once and freed by whoever kept it; what lies in order, or in one task, is left as it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.spark import frames
from headrace.spark.frames import Cache, arranged, in_one_task

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("keep", [Cache.share, Cache.compute])
def test_what_is_kept_is_computed_once_and_freed(
    spark: SparkSession, keep: Callable[[Cache, DataFrame], DataFrame]
) -> None:
    computed = spark.sparkContext.accumulator(0)

    def seen(number: int) -> int:
        computed.add(1)
        return number

    before, cache = kept(spark), Cache()
    numbers = keep(cache, spark.range(5).select(F.udf(seen, "int")("id").alias("id")))
    assert [sorted(row["id"] for row in numbers.collect()) for _ in range(2)] == [[0, 1, 2, 3, 4]] * 2
    assert computed.value == 5
    assert len(kept(spark)) == len(before) + 1
    cache.release()
    assert kept(spark) == before


def test_what_one_node_frees_another_still_has(spark: SparkSession) -> None:
    mine, others = Cache(), Cache()
    kept_by_me, kept_by_others = (cache.share(spark.range(5).where("id > 1")) for cache in (mine, others))
    assert kept_by_others.count() == 3
    others.release()
    assert sorted(row["id"] for row in kept_by_me.collect()) == [2, 3, 4]
    mine.release()


def test_of_what_is_computed_spark_knows_how_much_it_is(spark: SparkSession) -> None:
    cache, many = Cache(), spark.range(10_000_000).withColumn("n", F.col("id") % 7)
    few = cache.compute(many.where("id < 3"))
    assert "BroadcastHashJoin" in plan_of(many.join(few, "id"))
    assert "BroadcastHashJoin" not in plan_of(many.join(cache.share(many.where("id < 3")), "id"))
    assert sorted(tuple(row) for row in few.join(few.select("n"), "n").collect()) == [(0, 0), (1, 1), (2, 2)]
    cache.release()


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
    found, together, wanted = (
        frame.where("n <> 3").select("*", highest)
        for frame in (
            arranged(lying, "partition", "offset"),
            arranged(lying, "partition", "offset", one_task=True),
            lying,
        )
    )
    for frame in (found, together):
        assert "Exchange" not in plan_of(frame)
        assert "Sort" not in plan_of(frame)
        assert sorted(frame.collect()) == sorted(wanted.collect())
    assert (found.rdd.getNumPartitions(), together.rdd.getNumPartitions()) == (2, 1)
    assert "Exchange" not in plan_of(together.groupBy("highest").count())


@pytest.mark.parametrize("small", [True, False])
def test_of_small_files_nothing_is_shuffled(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    path = f"{tmp_path}/numbers"
    spark.range(0, 100, 1, 4).withColumn("n", F.col("id") % 7).write.parquet(path)
    if not small:
        monkeypatch.setattr(frames, "SMALL_BYTES", 1_000)
    rows = in_one_task(spark.read.parquet(path))
    counted = rows.groupBy("n").count().join(rows.where("id < 3").hint("merge"), "n")
    assert sorted(tuple(row) for row in counted.collect()) == [(0, 15, 0), (1, 15, 1), (2, 14, 2)]
    assert ("Exchange" in plan_of(counted)) is not small


def kept(spark: SparkSession) -> set[int]:
    """The numbers of the RDDs that Spark keeps."""
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())
