"""What is said, how often, and in which words; no Spark."""

from __future__ import annotations

import datetime as dt
import os
import signal
import threading
import time
from dataclasses import replace
from typing import Any, cast

import pytest
from dagster import AssetObservation, DagsterInstance, MetadataValue
from dagster._core.utils import make_new_run_id

import headrace as hr
from assets.readings import reading_counts, readings
from headrace.errors import TerminalError
from headrace.lifecycle.backfills.backfill_plan import DayVerdict
from headrace.nodes.days import last_complete_day
from headrace.orchestration.events.completed import Tries
from headrace.orchestration.events.progress import Cadence, ProgressReporter, Throttle, figures
from headrace.orchestration.heartbeat import Heartbeat, read_heartbeat, write_heartbeat
from headrace.orchestration.interrupts import StopRequest
from headrace.orchestration.jobs.backfills import as_table, in_words
from headrace.orchestration.resources import LakeResource
from headrace.orchestration.streams import Reported, StreamConfig
from headrace.streams.status.stream_status import StreamStatus
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.dagster

DAY = dt.date(2026, 11, 18)
MINUTE_MS, DAY_MS = 60_000, 86_400_000
MIDNIGHT_MS = int(dt.datetime(2026, 11, 19, tzinfo=dt.UTC).timestamp() * 1000)
STEADY = Cadence(20, 20)
RUNNING = StreamStatus(
    *("stream", "reading_counts", "running", None, 0, 5_000, 12.345, 7, 0.25, MIDNIGHT_MS, 40),
    fates={"kept": 4_990, "late": 8, "replay": 2, "dead_letter": 0},
)
WAITING, STOPPED = replace(RUNNING, state="waiting"), replace(RUNNING, state="stopped")
EQUAL = DayVerdict(DAY, True, 720, 720, 0, (), False)


def told(throttle: Throttle, asset: str, state: str, now: float) -> bool:
    """Tell, if it is due."""
    if due := throttle.due(asset, state, now):
        throttle.note(asset, state, now)
    return due


def test_an_asset_speaks_once_an_interval_however_often_it_is_asked() -> None:
    throttle = Throttle(STEADY)
    assert [now for now in range(100) if told(throttle, "a", "running", now)] == [0, 20, 40, 60, 80]


def test_a_run_that_has_settled_speaks_less() -> None:
    throttle = Throttle(Cadence(20, 120, settles_after=60))
    assert [now for now in range(500) if told(throttle, "a", "running", now)] == [0, 20, 40, 160, 280, 400]


def test_a_day_of_two_assets_adds_few_hundred_events_to_dagsters_database() -> None:
    config = StreamConfig()
    settles_after = config.settle_after_minutes * 60
    observe = Cadence(config.observe_every_seconds, config.observe_settled_every_seconds, settles_after)
    run_seconds = round(config.rotate_after_hours * 3600)
    throttle = Throttle(observe)
    events = sum(told(throttle, "a", "running", now) for now in range(run_seconds))
    runs_a_day = 24 / config.rotate_after_hours
    assert events * runs_a_day * 2 < 500  # of 8.5 kB each, see benchmarks/RESULTS.md


def test_each_asset_has_an_interval_of_its_own() -> None:
    throttle = Throttle(STEADY)
    assert told(throttle, "a", "running", 0)
    assert told(throttle, "b", "running", 1)
    assert not told(throttle, "b", "running", 20)


def test_a_change_of_state_is_told_sooner_but_flapping_does_not_flood() -> None:
    throttle = Throttle(STEADY)
    states = ("running", "restarting")
    assert [now for now in range(40) if told(throttle, "a", states[now % 2], now)] == [
        0,
        5,
        10,
        15,
        20,
        25,
        30,
        35,
    ]


class Log:
    """Takes the events of a run, unless Dagster's database is away."""

    def __init__(self) -> None:
        self.log, self.events, self.away = self, list[AssetObservation](), set[str]()
        self.warnings = list[str]()

    def log_event(self, event: AssetObservation) -> None:
        if event.asset_key.to_user_string() in self.away:
            raise ConnectionError("The server closed the connection.")
        self.events.append(event)

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    info = error = warning


def test_a_database_that_is_away_ends_no_stream_and_loses_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the run failed; and an event counted as reported before Dagster had it."""
    now, log = 100.0, Log()
    monkeypatch.setattr(f"{Tries.__module__}.time.monotonic", lambda: now)
    paused = [replace(RUNNING, name=name, state="paused") for name in ("a", "b")]
    reporter = ProgressReporter(cast("Any", log), {}, {}, observe=STEADY, materialize=STEADY)
    log.away = {"stream/a_stream"}
    for at in (0.0, 1.0):
        now = 100.0 + at
        reporter.report(paused, now=at, wall=0)
    assert [event.asset_key.path[-1] for event in log.events] == ["b_stream"]
    assert [text for text in log.warnings if "not reported" in text] == [
        "stream/a_stream: its figures not reported yet: The server closed the connection."
    ]
    log.away, now = set(), 161.0
    reporter.report(paused[:1], now=1.5, wall=0)  # sooner than another event would be due
    assert [event.asset_key.path[-1] for event in log.events] == ["b_stream", "a_stream"]
    log.away = {"stream/a_stream"}
    reporter.farewell(paused, wall=0)
    assert [event.asset_key.path[-1] for event in log.events] == ["b_stream", "a_stream", "b_stream"]


def test_an_observation_shows_rates_lag_stream_time_and_fates() -> None:
    shown = figures(RUNNING, wall=MIDNIGHT_MS / 1000 + 90)
    assert shown == {
        "state": "running",
        "rows_per_second": 12.3,
        "rows_total": 5_000,
        "lag_records": 7,
        "lag_seconds": 0.2,
        "late": 8,
        "replays": 2,
        "dead_letters": 0,
        "stream_time": MetadataValue.timestamp(MIDNIGHT_MS / 1000),
        "stream_time_behind_seconds": 90.0,
        "records_shown_by": "headrace records reading_counts late\nheadrace records reading_counts replay",
    }


def test_what_is_not_known_is_left_out_and_not_shown_as_zero() -> None:
    unknown = replace(RUNNING, lag_records=None, lag_seconds=None, stream_time_ms=None, fates={})
    assert figures(unknown, wall=0).keys().isdisjoint({"lag_records", "lag_seconds", "stream_time", "late"})


def test_a_failed_query_shows_its_error() -> None:
    failed = replace(RUNNING, state="failed", error="offsets 3 to 9 are gone")
    assert figures(failed, wall=0)["error"] == "offsets 3 to 9 are gone"


def test_a_day_is_complete_when_its_last_window_has_closed() -> None:
    # windows of two minutes, two more of grace: the day's last window closes at 00:02 of the next
    closed_at = [MIDNIGHT_MS + minutes * MINUTE_MS for minutes in (0, 1.99, 2, 1439)]
    expected = [DAY - dt.timedelta(days=1), DAY - dt.timedelta(days=1), DAY, DAY]
    assert [last_complete_day(reading_counts, round(ms)) for ms in closed_at] == expected
    assert last_complete_day(reading_counts, None) is None


def test_a_day_of_hopping_windows_waits_for_those_that_start_in_it_and_end_in_the_next() -> None:
    node = (
        readings.group_by()
        .window(hr.hopping("1 hour", advance="10 minutes"), grace=0)
        .aggregate(n=hr.count())
    )
    last_start = MIDNIGHT_MS - 10 * MINUTE_MS
    assert last_complete_day(node, last_start + 60 * MINUTE_MS - 1) == DAY - dt.timedelta(days=1)
    assert last_complete_day(node, last_start + 60 * MINUTE_MS) == DAY


def test_a_day_of_batches_is_complete_when_the_log_was_read_past_the_last_deadline() -> None:
    grouped = reading_counts.stream.topics[0].group_by()
    node = grouped.batch(max_records=3, max_wait="1 minute", collect=["value"])
    end_ms = round(dt.datetime.combine(DAY, dt.time(), dt.UTC).timestamp() * 1000) + 24 * 60 * MINUTE_MS
    before = DAY - dt.timedelta(days=1)
    found = [last_complete_day(node, None, ms) for ms in (end_ms, end_ms + MINUTE_MS - 1, end_ms + MINUTE_MS)]
    assert found == [before, before, DAY]
    assert last_complete_day(node, end_ms * 2, None) is None
    assert last_complete_day(grouped.batch(max_records=3, collect=["value"]), None, end_ms * 2) is None


def test_equal_days_are_told_in_one_sentence() -> None:
    words = in_words([EQUAL, replace(EQUAL, day=DAY + dt.timedelta(days=1))])
    assert words.startswith("**Equal.** 2 days, 1,440 rows: the log gives exactly what the table held.")


def test_days_that_differ_are_named_with_what_was_done_and_the_first_rows() -> None:
    differs = replace(
        EQUAL, equal=False, rows_differing=3, first_differences=("table: sensor_id=s1, n=4",), swapped=True
    )
    words = in_words([EQUAL, differs])
    assert "1 of 2 days (2026-11-18), 3 rows. They were replaced in one commit." in words
    assert "- table: sensor_id=s1, n=4" in words
    assert "left as they were" in in_words([replace(differs, swapped=False)])
    assert "| 2026-11-18 | different, replaced | 720 | 720 | 3 |" in as_table([differs])


def test_a_stop_request_keeps_the_first_reason_and_ends_the_wait() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        stop.wait(PATIENCE_S)
        assert time.monotonic() - began < PATIENCE_S
        stop.ask("later")
        assert stop.reason == "interrupted (SIGINT)"
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_whose_record_was_closed_elsewhere_is_told_so() -> None:
    with DagsterInstance.ephemeral() as instance:
        told: list[str] = []
        with Heartbeat(instance, "no-such-run", told.append, every_seconds=60):
            beat = read_heartbeat(instance, "no-such-run")
        assert beat is not None
        assert time.time() - beat < 60
        assert told == ["the run's record was closed by someone else"]
        assert read_heartbeat(instance, "another") is None


def test_signs_of_life_of_many_runs_take_few_rows_of_dagsters_database() -> None:
    """Before, each run left one there for ever."""
    with DagsterInstance.ephemeral() as instance:
        kept, storage = dict[str, str](), instance.daemon_cursor_storage
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(storage, "set_cursor_values", kept.update)
            patch.setattr(storage, "get_cursor_values", lambda keys: {k: kept[k] for k in keys if k in kept})
            runs = [make_new_run_id() for _ in range(3_000)]
            for hour, run in enumerate(runs):
                write_heartbeat(instance, run, 3_600.0 * hour)
            assert len(kept) <= 256
            assert len("".join(kept.values())) < 256 * 200
            beats = [read_heartbeat(instance, run) for run in runs[-24:]]
            assert beats == [
                3_600.0 * hour for hour in range(2_976, 3_000)
            ]  # those that may live are told apart


def test_a_page_is_a_link_when_its_folder_is_served_and_a_path_when_not() -> None:
    served = LakeResource(root="/lake", docs="/docs", docs_url="http://127.0.0.1:3001/")
    assert served.page("/docs/a page.html") == MetadataValue.url("http://127.0.0.1:3001/a%20page.html")
    assert LakeResource(root="/lake", docs="/docs").page("/docs/a.html") == MetadataValue.path("/docs/a.html")


def test_the_pages_of_a_lake_elsewhere_need_a_folder_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_DOCS", raising=False)
    assert LakeResource(root="file:/lake").docs_folder == "/lake/quality"
    with pytest.raises(TerminalError, match="HEADRACE_DOCS"):
        _ = LakeResource(root="s3://bucket/lake").docs_folder


def test_a_run_that_stands_by_reports_of_a_query_from_when_it_has_it() -> None:
    told: list[str] = []
    reported = Reported(stands_by=True, report=told.append)
    for statuses in ([WAITING], [WAITING], [STOPPED]):
        assert reported.of(statuses) == []
    assert told == ["Stands by for stream/reading_counts_stream.", "Stands by for nothing more."]
    for status in (RUNNING, STOPPED):
        assert reported.of([status]) == [status]
    assert reported.of([WAITING]) == []
    assert Reported(stands_by=False, report=told.append).of([WAITING]) == [WAITING]
