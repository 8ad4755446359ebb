"""The place of a piece of work: the Spark session, the lake, the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.log.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake


@dataclass(frozen=True)
class Site:
    """Where work is done.

    on_step  called with the name of each numbered step; it may raise to stop there
    """

    spark: SparkSession
    lake: Lake
    clock: Clock = field(default_factory=SystemClock)
    on_step: Callable[[str], None] = lambda step: None
