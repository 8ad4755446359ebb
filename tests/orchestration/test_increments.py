"""Increments of a node's table: rows that fail an expectation make its check fail while the stream runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from dagster import AssetCheckEvaluation, AssetCheckKey, AssetKey, DagsterInstance

from assets.readings import reading_counts
from headrace.orchestration import increments
from headrace.orchestration.increments import JudgedIncrements
from headrace.quality.expected import Increment

pytestmark = pytest.mark.dagster


class ExpectColumnValuesToBeBetween:
    """Has what Headrace reads of one of Great Expectations, whose import takes seconds."""

    description = None
    severity = "critical"
    configuration = SimpleNamespace(kwargs={"column": "n", "min_value": 1})


NODE = reading_counts.named("reading_counts", expectations=[ExpectColumnValuesToBeBetween()])
(EXPECTED,) = NODE.expectations
CHECK = AssetCheckKey(AssetKey(["reading_counts"]), EXPECTED.name)


@dataclass
class Table:
    """The increments that the table gives, one a look; an exception is raised."""

    found: list[Increment | Exception]
    asked_after: list[int] = field(default_factory=list)

    def judge(self, spark: Any, lake: Any, node: Any, after: int) -> Increment:
        self.asked_after.append(after)
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as instance:
        yield instance


def judged(instance: DagsterInstance, table: Table, monkeypatch: pytest.MonkeyPatch) -> JudgedIncrements:
    monkeypatch.setattr(increments, "newest_version", lambda lake, node: 3)
    monkeypatch.setattr(increments, "judge_increment", table.judge)
    context: Any = SimpleNamespace(instance=instance, log=logging.getLogger("run"))
    nothing: Any = None
    return JudgedIncrements(context, NODE, nothing, nothing)


def verdicts(instance: DagsterInstance) -> list[AssetCheckEvaluation]:
    records = instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=10)
    return [record.evaluation for record in records if record.evaluation]


def test_rows_that_fail_are_told_once_and_rows_that_meet_it_turn_nothing_green(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table([Increment(5, 10), Increment(9, 4, {EXPECTED.name: 2}), Increment(12, 7)])
    reporter = judged(instance, table, monkeypatch)
    for _ in range(4):
        reporter.report(last=True)
    assert table.asked_after == [3, 5, 9]
    (verdict,) = verdicts(instance)
    assert not verdict.passed
    assert (verdict.description or "").startswith(
        "2 of 4 rows that reading_counts gained last fail it: n: values to be between, min_value 1;"
    )


def test_between_two_looks_half_a_minute_passes(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table([Increment(5)])
    reporter = judged(instance, table, monkeypatch)
    reporter.report()
    reporter.report()
    assert table.asked_after == []
    reporter.report(last=True)
    assert table.asked_after == [3]


def test_an_increment_that_cannot_be_judged_is_left_to_the_check_of_the_whole_table(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = Table([RuntimeError("a file is gone"), Increment(7)])
    reporter = judged(instance, table, monkeypatch)
    for _ in range(4):
        reporter.report(last=True)
    assert "the last increment was not judged" in caplog.text
    assert table.asked_after == [3, 3]  # after the failure it notes anew where the table stands
    assert verdicts(instance) == []
