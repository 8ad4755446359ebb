"""A session for handfuls of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.session import pipeline_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", name="spark")
def interpreted(spark: SparkSession) -> SparkSession:
    """The process's session; Java is neither generated nor compiled for a few rows."""
    return pipeline_session(spark, interpreted=True)
