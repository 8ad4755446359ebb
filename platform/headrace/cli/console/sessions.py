"""The session of a command that may need none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.spark.on_demand import SparkOnDemand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_when_needed(lake: str) -> SparkSession:
    """A session that starts when something of it is needed."""
    from headrace.cli import commands

    return SparkOnDemand.session(lambda: commands._session(lake))
