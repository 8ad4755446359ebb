"""The sensor's rule, against a real Dagster instance; times are counted from when the last run ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from dagster import DagsterEvent, DagsterEventType, DagsterInstance, DagsterRunStatus, RunRequest, SkipReason
from dagster import build_sensor_context as sensor_context

from assets.readings import reading_counts
from headrace.orchestration.heartbeat import Silences, write_heartbeat
from headrace.orchestration.keys import SHUTDOWN_TAG, STREAM_TAG
from headrace.orchestration.pipeline import Pipeline, pipeline_of
from headrace.orchestration.sensors import LOOK_EVERY_SECONDS, backoff_seconds, supervise
from jobs.definitions import defs

pytestmark = pytest.mark.dagster

HOUR = 3600.0


@dataclass
class Past:
    """What has happened to the stream run so far."""

    instance: DagsterInstance
    began: float = field(default_factory=time.time)
    silences: str | None = None

    def run(self, *events: DagsterEventType, status: DagsterRunStatus = DagsterRunStatus.NOT_STARTED) -> str:
        job = defs.resolve_job_def("streams")
        run = self.instance.create_run_for_job(job, status=status, tags={STREAM_TAG: "streams"})
        for event in events:
            self.report(run.run_id, event)
        return run.run_id

    def report(self, run_id: str, event: DagsterEventType) -> None:
        """Each event comes right after the one before it, however busy the machine is."""
        self.instance.report_dagster_event(
            DagsterEvent(event.value, "streams"), run_id, timestamp=self.newest + 0.001
        )

    @property
    def newest(self) -> float:
        """When a run began or ended last."""
        records = self.instance.get_run_records()
        return max(
            (at for each in records for at in (each.start_time, each.end_time) if at), default=self.began
        )

    def status(self, run_id: str) -> DagsterRunStatus:
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run.status

    def look(self, *, after: float = 1.0, switched_on: float = 0.0) -> RunRequest | SkipReason:
        silences = Silences(self.silences)
        decision = supervise(self.instance, pipeline(), switched_on, self.newest + after, silences=silences)
        self.silences = silences.to_text()
        return decision


START, SUCCESS = DagsterEventType.RUN_START, DagsterEventType.RUN_SUCCESS
FAILURE, CANCELED = DagsterEventType.RUN_FAILURE, DagsterEventType.RUN_CANCELED


def pipeline() -> Pipeline:
    return pipeline_of([reading_counts], partitions_start="2026-11-01")


@pytest.fixture
def past(monkeypatch: pytest.MonkeyPatch) -> Iterator[Past]:
    monkeypatch.setenv("HEADRACE_LAKE", "/nowhere")
    with DagsterInstance.ephemeral() as instance:
        yield Past(instance)


def starts(decision: RunRequest | SkipReason) -> bool:
    return isinstance(decision, RunRequest)


def why(decision: RunRequest | SkipReason) -> str:
    assert isinstance(decision, SkipReason), decision
    return decision.skip_message or ""


def test_nothing_has_run_so_it_starts_every_stream_and_no_check(past: Past) -> None:
    decision = past.look()
    assert isinstance(decision, RunRequest)
    assert [key.to_user_string() for key in decision.asset_selection or ()] == [
        "log/readings",
        "stream/reading_counts_stream",
    ]
    assert decision.asset_check_keys == []


@pytest.mark.parametrize("status", [DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING])
def test_a_run_that_is_about_to_start_is_left_alone(past: Past, status: DagsterRunStatus) -> None:
    past.run(status=status)
    assert status.value.lower() in why(past.look(after=HOUR))


def test_a_run_that_gives_signs_of_life_is_left_alone(past: Past) -> None:
    run = past.run(START)
    write_heartbeat(past.instance, run, past.newest + HOUR - 59)
    assert "started" in why(past.look(after=HOUR))


def test_a_run_that_a_person_stopped_stays_stopped(past: Past) -> None:
    past.run(START, CANCELED)
    assert "stopped by a person" in why(past.look(after=100 * HOUR))


def test_switching_the_sensor_off_and_on_starts_what_a_person_had_stopped(past: Past) -> None:
    past.run(START, CANCELED)
    assert starts(past.look(after=2, switched_on=past.newest + 1))


def test_a_run_that_was_canceled_because_dagster_went_down_comes_back_with_it(past: Past) -> None:
    past.instance.add_run_tags(past.run(START, CANCELED), {SHUTDOWN_TAG: "demo"})
    assert "going down" in why(past.look(after=5))
    assert starts(past.look(after=25))


def test_dagster_may_say_how_long_it_takes_to_go_down(past: Past) -> None:
    run = past.run(START, CANCELED)
    past.instance.add_run_tags(run, {SHUTDOWN_TAG: f"{past.newest + 150:.0f}"})
    assert "going down" in why(past.look(after=145))
    assert starts(past.look(after=155))
    past.instance.add_run_tags(run, {SHUTDOWN_TAG: "0"})
    assert starts(past.look(after=25))


def test_a_run_that_rotated_is_followed_at_once(past: Past) -> None:
    past.run(START, SUCCESS)
    assert starts(past.look())


def test_a_failed_run_is_followed_after_five_seconds_so_that_with_the_next_look_it_is_less_than_twenty(
    past: Past,
) -> None:
    past.run(START, FAILURE)
    assert "next start in" in why(past.look(after=4))
    assert starts(past.look(after=6))
    assert backoff_seconds(1) + LOOK_EVERY_SECONDS < 20


def test_each_failure_in_a_row_doubles_the_wait(past: Past) -> None:
    for _ in range(3):
        past.run(START, FAILURE)
    assert "Failed 3 time(s)" in why(past.look(after=18))
    assert starts(past.look(after=21))
    assert [backoff_seconds(n) for n in (1, 2, 3, 7, 8, 2000)] == [5, 10, 20, 320, 600, 600]


def test_a_rotation_ends_the_row_of_failures(past: Past) -> None:
    for events in ((START, FAILURE), (START, FAILURE), (START, SUCCESS), (START, FAILURE)):
        past.run(*events)
    assert starts(past.look(after=11))


def test_switching_the_sensor_on_forgets_failures(past: Past) -> None:
    for _ in range(5):
        past.run(START, FAILURE)
    assert starts(past.look(after=2, switched_on=past.newest + 1))


def test_a_silent_run_is_declared_failed_and_then_followed(past: Past) -> None:
    run = past.run(START)
    write_heartbeat(past.instance, run, past.newest)
    assert "started" in why(past.look(after=61))
    assert "started" in why(past.look(after=71))
    assert "silent" in why(past.look(after=81))
    assert past.status(run) is DagsterRunStatus.FAILURE
    assert starts(past.look(after=11))


def test_a_run_that_could_not_write_its_signs_of_life_while_dagsters_database_was_away_is_left_alone(
    past: Past,
) -> None:
    """Before, the first look after that came before the next sign of life, and declared a living run failed."""
    run = past.run(START)
    began = past.newest
    write_heartbeat(past.instance, run, began)
    assert "started" in why(past.look(after=71))
    write_heartbeat(past.instance, run, began + 79)
    for after in (81, 91, 101):
        assert "started" in why(past.look(after=after))
    assert past.status(run) is DagsterRunStatus.STARTED


def test_a_run_whose_clock_is_behind_gives_signs_of_life(past: Past) -> None:
    """Before, it was declared failed."""
    run = past.run(START)
    began = past.newest
    for after in range(0, 100, 10):
        write_heartbeat(past.instance, run, began + after - 120)
        assert "started" in why(past.look(after=after))


def test_a_run_that_never_gave_a_sign_of_life_has_three_minutes_to_begin(past: Past) -> None:
    run = past.run(START)
    assert "started" in why(past.look(after=170))
    assert "started" in why(past.look(after=190))
    assert "silent" in why(past.look(after=210))
    assert past.status(run) is DagsterRunStatus.FAILURE


def test_a_second_run_that_failed_beside_one_that_lives_starts_nothing(past: Past) -> None:
    lives = past.run(START)
    write_heartbeat(past.instance, lives, past.newest + HOUR)
    past.run(START, FAILURE)
    assert lives[:8] in why(past.look(after=HOUR))


def test_a_second_start_that_a_person_took_back_does_not_stop_the_first_for_good(past: Past) -> None:
    first = past.run(START)
    write_heartbeat(past.instance, first, past.newest + HOUR)
    past.run(CANCELED)
    past.report(first, FAILURE)
    assert "Failed 1 time(s)" in why(past.look(after=1))
    assert starts(past.look(after=11))


def test_runs_of_another_stream_do_not_count(past: Past) -> None:
    past.instance.create_run_for_job(defs.resolve_job_def("streams"), tags={STREAM_TAG: "others"})
    assert starts(past.look())


def test_the_run_that_stands_by_is_kept_running_by_itself(past: Past) -> None:
    both = pipeline_of([reading_counts], partitions_start="2026-11-01", standby=True)
    past.run(START, CANCELED)
    for run, starting in (("streams", False), ("streams_standby", True)):
        decision = supervise(past.instance, both, 0.0, past.newest + 1, run)
        assert starts(decision) is starting
    assert isinstance(decision, RunRequest)
    assert decision.tags[STREAM_TAG] == "streams_standby"
    assert (decision.run_key or "").startswith("streams_standby:none:")


def test_each_start_has_a_run_key_of_its_own(past: Past) -> None:
    keys = set()
    for _ in range(3):
        decision = past.look(after=HOUR)
        assert isinstance(decision, RunRequest)
        keys.add(decision.run_key)
        past.run(START, FAILURE)
    assert len(keys) == 3


def test_a_run_whose_end_was_noted_after_that_of_its_successor_keeps_no_stream_from_starting(
    past: Past,
) -> None:
    """Before, the key named the run that ended last: Dagster had launched it, and skipped it with each look."""
    first = past.run(START, FAILURE)  # declared silent, but it lives
    before = past.look(after=HOUR)
    past.run(START, FAILURE)
    past.report(first, FAILURE)  # it says so itself, or by a clock that is ahead
    looks = [past.look(after=HOUR) for _ in range(2)]
    assert isinstance(before, RunRequest)
    first_key, *later = [before.run_key, *(each.run_key for each in looks if isinstance(each, RunRequest))]
    assert later == [later[0]] * 2  # two looks start one run
    assert later[0] != first_key


def test_the_sensor_asks_dagster_for_a_run_of_the_job(past: Past) -> None:
    sensor = defs.get_repository_def().get_sensor_def("keep_streams_running")
    with sensor_context(past.instance, repository_def=defs.get_repository_def()) as context:
        tick = sensor.evaluate_tick(context)
    (request,) = tick.run_requests or ()
    assert request.tags[STREAM_TAG] == "streams"
    assert [target.job_name for target in sensor.targets] == ["streams"]


def test_the_sensor_keeps_what_it_knows_of_silent_runs_between_its_looks(past: Past) -> None:
    run = past.run(START)
    write_heartbeat(past.instance, run, time.time() - HOUR)
    repository, cursor = defs.get_repository_def(), None
    for known in (False, True):
        with sensor_context(past.instance, cursor=cursor, repository_def=repository) as context:
            tick = repository.get_sensor_def("keep_streams_running").evaluate_tick(context)
        assert "started" in (tick.skip_message or "")
        assert (cursor == tick.cursor) is known
        cursor = tick.cursor
    assert run in (cursor or "")
