"""Increments of a node's table: rows that fail an expectation make its check fail while the stream runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetCheckResult,
    AssetCheckSpec,
    AssetKey,
    AssetSelection,
    AssetSpec,
    DagsterInstance,
    Definitions,
    define_asset_job,
    multi_asset_check,
)

from assets.readings import reading_counts
from headrace.orchestration.verdicts import increments
from headrace.orchestration.verdicts.increments import JudgedIncrements
from headrace.orchestration.verdicts.newest_verdicts import newest_verdicts
from headrace.quality.judgements.expected import Increment

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


@dataclass
class Clock:
    """Moves only when told."""

    now: float = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(increments, "time", clock)
    return clock


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


def minutes(reporter: JudgedIncrements, clock: Clock, number: float) -> None:
    """Let the stream run: it calls every ten seconds."""
    for _ in range(round(number * 6)):
        clock.now += 10
        reporter.report()


def test_a_check_that_keeps_failing_speaks_every_ten_minutes_with_the_number_of_rows(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    table = Table([Increment(4 + n, 10, {EXPECTED.name: 2} if n % 2 == 0 else {}) for n in range(100)])
    reporter = judged(instance, table, monkeypatch)
    minutes(reporter, clock, 1)
    assert [each.metadata["failing"].value for each in verdicts(instance)] == [2]
    minutes(reporter, clock, 9)
    assert len(verdicts(instance)) == 1
    minutes(reporter, clock, 1)
    newest, _ = verdicts(instance)
    said = newest.description or ""
    assert said.startswith(
        "20 of 190 rows that reading_counts gained since the last report, in 10 increments, fail"
    )
    assert newest.metadata["failing_increments"].value == 10
    minutes(reporter, clock, 1)
    assert len(verdicts(instance)) == 2
    reporter.report(last=True)
    assert len(verdicts(instance)) == 3  # the rest, as the stream ends


def test_a_check_that_passes_again_is_told_of_the_next_row_at_once(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    table = Table([Increment(4 + n, 10, {EXPECTED.name: 2}) for n in range(9)])
    reporter = judged(instance, table, monkeypatch)
    minutes(reporter, clock, 2)
    assert len(verdicts(instance)) == 1
    instance.report_runless_asset_event(
        AssetCheckEvaluation(asset_key=CHECK.asset_key, check_name=CHECK.name, passed=True, metadata={})
    )
    minutes(reporter, clock, 0.5)
    newest, passed, _ = verdicts(instance)
    assert (newest.passed, passed.passed) == (False, True)
    assert newest.metadata["failing"].value == 2  # those before were in the whole table


def test_rows_that_came_while_the_whole_table_was_judged_are_told_after_a_verdict_that_passes(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    counts = (2, 3, 4, 0, 0)  # failing rows: 3 before the run of the checks, 4 while it goes on
    table = Table([Increment(4 + n, 10, {EXPECTED.name: each}) for n, each in enumerate(counts)])
    reporter = judged(instance, table, monkeypatch)
    minutes(reporter, clock, 1.5)
    check_run(instance, lambda: minutes(reporter, clock, 0.5))
    minutes(reporter, clock, 1)
    assert table.found == []
    newest, passed, _ = verdicts(instance)
    assert (newest.passed, passed.passed) == (False, True)
    assert newest.metadata["failing"].value == 4


def check_run(instance: DagsterInstance, meanwhile: Callable[[], object], *, dies: bool = False) -> None:
    """A run that judges the whole table, and finds that the expectation is met."""

    @multi_asset_check(specs=[AssetCheckSpec(CHECK.name, asset=CHECK.asset_key)])
    def judge() -> Iterator[AssetCheckResult]:
        meanwhile()
        if dies:
            raise InterruptedError
        yield AssetCheckResult(passed=True)

    job = define_asset_job("quality", AssetSelection.checks(judge))
    defs = Definitions(assets=[AssetSpec(CHECK.asset_key)], asset_checks=[judge], jobs=[job])
    defs.resolve_job_def("quality").execute_in_process(instance=instance, raise_on_error=False)


def shown(instance: DagsterInstance) -> bool | None:
    """What the page of the check shows."""
    return newest_verdicts(instance, [CHECK])[CHECK].passed


def test_a_report_that_is_due_while_the_whole_table_is_judged_does_not_hide_the_verdict(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """A backfill has put the rows right, and somebody runs the check."""
    failing = iter([2, 3])
    table = Table([Increment(4 + n, 10, {EXPECTED.name: next(failing, 0)}) for n in range(99)])
    reporter = judged(instance, table, monkeypatch)
    minutes(reporter, clock, 2)
    assert [each.metadata["failing"].value for each in verdicts(instance)] == [2]
    check_run(instance, lambda: minutes(reporter, clock, 11))
    assert shown(instance) is True
    minutes(reporter, clock, 11)
    reporter.report(last=True)
    assert shown(instance) is True


@pytest.mark.parametrize(("came", "shows"), [(0, True), (4, False)])
def test_when_the_stream_ends_while_the_whole_table_is_judged_what_came_meanwhile_is_told(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, clock: Clock, came: int, shows: bool
) -> None:
    failing = iter([2, 3, came])
    table = Table([Increment(4 + n, 10, {EXPECTED.name: next(failing, 0)}) for n in range(9)])
    reporter = judged(instance, table, monkeypatch)
    minutes(reporter, clock, 1.5)
    check_run(instance, lambda: reporter.report(last=True))
    assert shown(instance) is shows
    assert [each.metadata["failing"].value for each in verdicts(instance) if not each.passed] == (
        [2] if shows else [4, 2]
    )


def test_a_run_that_ended_without_a_verdict_holds_no_report_back(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    table = Table([Increment(4 + n, 10, {EXPECTED.name: 2}) for n in range(9)])
    reporter = judged(instance, table, monkeypatch)
    check_run(instance, lambda: minutes(reporter, clock, 2), dies=True)
    assert shown(instance) is None
    minutes(reporter, clock, 1)
    assert shown(instance) is False


def test_a_judgement_that_keeps_failing_warns_every_ten_minutes_with_their_number(
    instance: DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = Table([*(RuntimeError("a file is gone") for _ in range(20)), Increment(9), RuntimeError("again")])
    reporter = judged(instance, table, monkeypatch)
    minutes(reporter, clock, 9)
    assert [record.getMessage().count("the last increment was not judged") for record in caplog.records] == [
        1
    ]
    minutes(reporter, clock, 3)
    assert "the last 10 increments were not judged" in caplog.records[-1].getMessage()
    assert len(caplog.records) == 2
    minutes(reporter, clock, 10)  # the table can be read again, once
    assert [record.getMessage().endswith(": again") for record in caplog.records] == [False, False, True]
