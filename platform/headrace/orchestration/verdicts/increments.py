"""Judge what a node's table gains while the stream runs, by the expectations of users that are about single rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dagster import AssetCheckKey, AssetCheckResult

from headrace.orchestration.events.carry import evaluation_of_newest
from headrace.orchestration.keys import table_key
from headrace.orchestration.verdicts.checks import SEVERITIES
from headrace.orchestration.verdicts.newest_verdicts import is_under_way, newest_verdicts
from headrace.quality.judgements.expected import (
    Increment,
    judge_increment,
    newest_version,
    sentence_of_increment,
)

if TYPE_CHECKING:
    from dagster import AssetExecutionContext
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.description.expectations import Expectation
    from headrace.lake.paths import Lake

EVERY_SECONDS = 30.0
REPEAT_SECONDS = 600.0


@dataclass
class Untold:
    """The increments since the last report of something that keeps failing, from the first one that failed.

    times    how many of them failed
    reported_at  when the last report was made; None: there was none
    """

    rows: int = 0
    failing: int = 0
    times: int = 0
    increments: int = 0
    reported_at: float | None = None

    def add(self, rows: int, failing: int) -> None:
        """Count one increment."""
        self.rows, self.failing = self.rows + rows, self.failing + failing
        self.times, self.increments = self.times + bool(failing), self.increments + 1

    def is_due(self, now: float) -> bool:
        """True if nothing was reported for `REPEAT_SECONDS`."""
        return self.reported_at is None or now - self.reported_at >= REPEAT_SECONDS


class JudgedIncrements:
    """The increments of one node's table, put together over half a minute.

    Laws: rows that fail make a check that passes fail at once. While the check fails, further failing rows are reported at
          most every ten minutes, with their number, and once when the stream ends. Only the check of the whole table makes
          a check pass. While it runs nothing is reported, for that would hide its verdict. Rows that came meanwhile may not
          be in its verdict: if it passes, they are reported after it. If the stream ends meanwhile, they are reported then:
          they fail, whatever the verdict is. Older rows are left to it.
    """

    def __init__(self, context: AssetExecutionContext, node: Node, spark: SparkSession, lake: Lake) -> None:
        """Note where the table stands: what is in it already is for the check of the whole table."""
        self._context, self._node, self._spark, self._lake = context, node, spark, lake
        self._key = table_key(node)
        self._through: int | None = None
        self._due_at = 0.0
        self._untold = {each.name: Untold() for each in node.expectations}
        self._meanwhile = {each.name: Untold() for each in node.expectations}
        self._errors = Untold()

    def report(self, *, last: bool = False) -> None:
        """Judge what came since the last call, when it is time or the stream ends. Never raises."""
        now = time.monotonic()
        if not last and now < self._due_at:
            return
        self._due_at = now + EVERY_SECONDS
        try:
            if self._through is None:
                self._through = newest_version(self._lake, self._node)
            else:
                self._judge(self._through, now, last=last)
                self._errors = Untold()
        except Exception as error:
            self._through = None
            self._warn(error, now)

    def _warn(self, error: Exception, now: float) -> None:
        self._errors.add(0, 1)
        if self._errors.is_due(now):
            times = self._errors.times
            which = f"the last {times:,} increments were" if times > 1 else "the last increment was"
            self._context.log.warning(
                f"{self._key.to_user_string()}: {which} not judged; the next run of the checks judges the whole "
                f"table: {error}"
            )
            self._errors = Untold(reported_at=now)

    def _judge(self, after: int, now: float, *, last: bool) -> None:
        found = judge_increment(self._spark, self._lake, self._node, after)
        self._through = found.version
        for each in self._node.expectations:
            untold, failing = self._untold[each.name], found.failing.get(each.name, 0)
            if not (failing or untold.failing):
                continue
            passes, under_way = self._standing(each)
            meanwhile = self._meanwhile[each.name]
            if passes:  # the whole table was judged since: older rows are told
                untold = replace(meanwhile, reported_at=untold.reported_at)
            if not under_way:
                meanwhile = Untold()
            elif failing or meanwhile.failing:
                meanwhile.add(found.rows, failing)
            untold.add(found.rows, failing)
            is_due = last if under_way else passes or last or untold.is_due(now)
            due = meanwhile if under_way else untold
            if due.failing and is_due:
                self._report(each, due)
                untold, meanwhile = Untold(reported_at=now), Untold()
            self._untold[each.name], self._meanwhile[each.name] = untold, meanwhile

    def _standing(self, expectation: Expectation) -> tuple[bool, bool]:
        """Whether the check passes, and whether a run judges the whole table now, or soon."""
        key, instance = AssetCheckKey(self._key, expectation.name), self._context.instance
        newest = newest_verdicts(instance, [key]).get(key)
        return (False, False) if newest is None else (newest.passed is True, is_under_way(instance, newest))

    def _report(self, expectation: Expectation, untold: Untold) -> None:
        found = Increment(-1, untold.rows, {expectation.name: untold.failing})
        failed = untold.times if untold.increments > 1 else None
        said = AssetCheckResult(
            asset_key=self._key,
            check_name=expectation.name,
            passed=False,
            severity=SEVERITIES[expectation.severity],
            description=sentence_of_increment(expectation, found, self._node, failed=failed),
            metadata={"rows": untold.rows, "failing": untold.failing, "failing_increments": untold.times},
        )
        self._context.instance.report_runless_asset_event(evaluation_of_newest(self._context.instance, said))
