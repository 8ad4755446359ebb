"""Frames that are persisted belong to whoever persisted them, although others have equal plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.frames import computed, own

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_what_one_node_frees_another_still_has(spark: SparkSession) -> None:
    mine, others = (own(spark.range(5).where("id > 1")).persist() for _ in range(2))
    others.count()
    others.unpersist()
    assert sorted(row["id"] for row in computed(mine).collect()) == [2, 3, 4]
    mine.unpersist()
