"""A lake for each test, and a session for handfuls of rows, as the test kit's drivers have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.session import pipeline_session
from tests.broker.harness import lake
from tests.runtime.supervising import Loop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["lake"]


@pytest.fixture(scope="session", name="spark")
def interpreted(spark: SparkSession) -> SparkSession:
    """The process's session; Java is neither generated nor compiled for a few rows."""
    return pipeline_session(spark, interpreted=True)


@pytest.fixture
def stream() -> Iterator[Loop]:
    """A loop whose work a test hands in."""
    made = Loop()
    yield made
    made.does = lambda: 1
    made.drain()
