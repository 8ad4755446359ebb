"""`stream_is_advancing` in a Dagster instance: reported by the run when the verdict changes, repeated when executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from dagster import AssetCheckEvaluation, AssetKey, DagsterInstance, DagsterRunStatus, ExecuteInProcessResult

from headrace.observe.stall import StallWatch
from headrace.orchestration.keys import ADVANCING, STREAM_TAG
from headrace.orchestration.verdicts.advancing import AdvanceReporter
from headrace.streams.status.stream_status import StreamStatus
from jobs.definitions import defs

pytestmark = pytest.mark.dagster

NODE = StreamStatus("stream", "reading_counts", "running", None, 0, 100, 12.3, 0, 0.0, 60_000, 5, {})
FAILED = replace(NODE, state="failed", error="Offsets 3 to 9 are gone.")
STREAM = AssetKey(["stream", "reading_counts_stream"])


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterInstance]:
    monkeypatch.setenv("HEADRACE_LAKE", "/nowhere")
    with DagsterInstance.ephemeral() as instance:
        yield instance


def is_away(*_: object) -> NoReturn:
    raise ConnectionError("The server closed the connection.")


def execute(instance: DagsterInstance) -> ExecuteInProcessResult:
    graph = defs.get_repository_def().asset_graph
    wanted = {key for key in graph.asset_check_keys if key.asset_key == STREAM}
    job = defs.resolve_job_def("quality").get_subset(asset_check_selection=wanted)
    return job.execute_in_process(instance=instance)


def history(instance: DagsterInstance) -> list[AssetCheckEvaluation]:
    """The verdicts on the running query, newest first."""
    (key,) = [
        key for key in defs.get_repository_def().asset_graph.asset_check_keys if key.asset_key == STREAM
    ]
    assert key.name == ADVANCING
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=10)
    return [record.evaluation for record in records if record.evaluation]


def test_the_run_reports_a_verdict_when_it_changes_and_the_check_by_itself_repeats_it(
    instance: DagsterInstance,
) -> None:
    job = defs.resolve_job_def("streams")
    run = instance.create_run_for_job(job, status=DagsterRunStatus.STARTED, tags={STREAM_TAG: "streams"})
    reporter = AdvanceReporter(instance, run.run_id, StallWatch())
    for status in (NODE, NODE, FAILED, FAILED, NODE):
        reporter.see([status])
        reporter.report()
        reporter.report()
    verdicts = history(instance)
    assert [verdict.passed for verdict in verdicts] == [True, False, True]
    assert "Offsets 3 to 9 are gone." in (verdicts[1].description or "")
    reporter.see([FAILED])
    reporter.report()
    result = execute(instance)
    (evaluation,) = result.get_asset_check_evaluations()
    assert (evaluation.passed, evaluation.description) == (False, verdicts[1].description)


def test_a_verdict_that_dagster_did_not_take_is_told_with_the_next_beat(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it counted as told, and the check went on passing while the stream stood still."""
    job = defs.resolve_job_def("streams")
    run = instance.create_run_for_job(job, status=DagsterRunStatus.STARTED, tags={STREAM_TAG: "streams"})
    reporter = AdvanceReporter(instance, run.run_id, StallWatch())
    reporter.see([FAILED])
    with monkeypatch.context() as patch:
        patch.setattr(type(instance), "report_runless_asset_event", is_away)
        reporter.report()
        reporter.report()
    assert history(instance) == []
    reporter.report()
    reporter.report()
    assert [verdict.passed for verdict in history(instance)] == [False]


def test_verdicts_of_many_runs_take_one_row_of_dagsters_database_each_asset(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, each run left one for each of its assets there for ever."""
    storage, keys = type(instance.daemon_cursor_storage), set[str]()
    write = storage.set_cursor_values

    def noted(self: Any, pairs: Mapping[str, str]) -> None:
        keys.update(pairs)
        write(self, pairs)

    monkeypatch.setattr(storage, "set_cursor_values", noted)
    job = defs.resolve_job_def("streams")
    for status in (FAILED, NODE, FAILED):
        run = instance.create_run_for_job(job, status=DagsterRunStatus.STARTED, tags={STREAM_TAG: "streams"})
        reporter = AdvanceReporter(instance, run.run_id, StallWatch())
        reporter.see([status])
        reporter.report()
        (evaluation,) = execute(instance).get_asset_check_evaluations()
        assert evaluation.passed is (status is NODE)
        instance.report_run_canceled(run)
        (evaluation,) = execute(instance).get_asset_check_evaluations()
        assert evaluation.passed  # what a run has said that is gone does not count
    assert len(keys) == 1


def test_nothing_stands_still_where_nothing_runs(instance: DagsterInstance) -> None:
    (evaluation,) = execute(instance).get_asset_check_evaluations()
    assert (evaluation.passed, evaluation.description) == (True, "It does not run: nothing can stand still.")
