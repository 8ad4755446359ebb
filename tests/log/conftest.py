"""The bench of these tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.broker.harness import kafka
from tests.log.bench import Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["bench", "kafka"]


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    """A sequencer on an empty log."""
    return Bench(spark, tmp_path / "log")
