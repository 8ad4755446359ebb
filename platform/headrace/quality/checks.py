"""Check a log, or a node, and write the page about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.quality.results import CheckResult, Thresholds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Topic, WindowedAggregate
    from headrace.runtime.backfill import DayVerdict
    from headrace.runtime.lake import Lake


def check_log(
    spark: SparkSession, lake: Lake, topic: Topic, docs: str, *, thresholds: Thresholds = Thresholds()
) -> list[CheckResult]:
    """Judge the claims of `LOG_CHECKS` about a topic's log, in that order.

    In: docs  a local folder for the pages; `index.html` in it lists all assets ever checked there
    """
    raise NotImplementedError


def check_node(
    spark: SparkSession,
    lake: Lake,
    node: WindowedAggregate,
    docs: str,
    *,
    thresholds: Thresholds = Thresholds(),
    verdicts: Sequence[DayVerdict] | None = None,
) -> list[CheckResult]:
    """Judge the claims of `NODE_CHECKS` about a node's results, in that order.

    In: docs      a local folder for the pages; `index.html` in it lists all assets ever checked there
        verdicts  of the days already recomputed; None: recompute every closed day now
    """
    raise NotImplementedError
