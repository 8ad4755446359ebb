"""Judge what a node's table gains while the stream runs, by the expectations of users that are about single rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dagster import AssetCheckResult

from headrace.orchestration.carry import evaluation_of_newest
from headrace.orchestration.checks import SEVERITIES
from headrace.orchestration.keys import table_key
from headrace.quality.expected import judge_increment, newest_version, sentence_of_increment

if TYPE_CHECKING:
    from dagster import AssetExecutionContext
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

EVERY_SECONDS = 30.0


class JudgedIncrements:
    """The increments of one node's table, put together over half a minute.

    Law: rows that fail make the check fail at once. That it holds is said by the check of the whole table alone.
    """

    def __init__(self, context: AssetExecutionContext, node: Node, spark: SparkSession, lake: Lake) -> None:
        """Note where the table stands: what is in it already is for the check of the whole table."""
        self._context, self._node, self._spark, self._lake = context, node, spark, lake
        self._key = table_key(node)
        self._through: int | None = None
        self._due_at = 0.0

    def report(self, *, last: bool = False) -> None:
        """Judge what came since the last call, when it is time or the stream ends. Never raises."""
        if not last and time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + EVERY_SECONDS
        try:
            if self._through is None:
                self._through = newest_version(self._lake, self._node)
            else:
                self._judge(self._through)
        except Exception as error:
            self._through = None
            self._context.log.warning(
                f"{self._key.to_user_string()}: the last increment was not judged; the next run of the checks judges the "
                f"whole table: {error}"
            )

    def _judge(self, after: int) -> None:
        found = judge_increment(self._spark, self._lake, self._node, after)
        self._through = found.version
        for each in self._node.expectations:
            if each.name in found.failing:
                said = AssetCheckResult(
                    asset_key=self._key,
                    check_name=each.name,
                    passed=False,
                    severity=SEVERITIES[each.severity],
                    description=sentence_of_increment(each, found, self._node.required_name),
                    metadata={"rows": found.rows, "failing": found.failing[each.name]},
                )
                self._context.instance.report_runless_asset_event(
                    evaluation_of_newest(self._context.instance, said)
                )
