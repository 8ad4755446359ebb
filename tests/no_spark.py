"""A stand-in for a session of Spark, for tests that need none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.on_demand import SparkOnDemand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def no_session() -> SparkSession:
    """The test fails when something of it is asked."""
    return SparkOnDemand.session(lambda: pytest.fail("a few records start Spark"))
