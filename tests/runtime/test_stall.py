"""When a query counts as stalled, and what is said; the same figures at the Prometheus endpoint. No Spark."""

from __future__ import annotations

import urllib.request
from dataclasses import replace
from typing import Any

import pytest

from headrace.observe.figures import numbers
from headrace.observe.metrics import MetricsEndpoint
from headrace.observe.stall import StallWatch
from headrace.streams.status.stream_status import StreamStatus
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.fast

NODE = StreamStatus("stream", "counts", "running", None, 0, 100, 12.34, 7, 3.0, 60_000, 5, {"late": 2})
LOG = replace(NODE, kind="log", name="readings", fates={})


def judged(*seen: tuple[float, StreamStatus], now: float) -> str | None:
    """The verdict on one query after it was seen at these seconds."""
    watch = StallWatch()
    for at, status in seen:
        watch.see([status], at)
    (verdict,) = watch.verdicts(now).values()
    return verdict


def every_second(status: StreamStatus, until: int, **changing: Any) -> list[tuple[float, StreamStatus]]:
    return [(float(s), replace(status, **{k: f(s) for k, f in changing.items()})) for s in range(until + 1)]


def test_behind_and_without_a_commit_for_forty_seconds_it_is_stalled_and_told_within_a_minute() -> None:
    seen = every_second(NODE, 55, lag_seconds=lambda s: 3.0 + s)
    assert judged(*seen[:41], now=40) is None
    wrong = judged(*seen, now=55)
    assert wrong is not None
    assert wrong.startswith("The query has not committed for 55 s although there is work. 7 records wait.")
    assert "terminate the run: nothing is lost" in wrong


def test_one_that_commits_is_not_stalled_however_far_behind_it_is() -> None:
    assert (
        judged(*every_second(NODE, 300, lag_seconds=lambda s: 3.0 + s, batches=lambda s: s // 30), now=300)
        is None
    )


def test_one_that_has_nothing_to_read_is_not_stalled() -> None:
    assert judged(*every_second(replace(NODE, lag_seconds=0.0), 900), now=900) is None


def test_a_log_that_only_ticks_while_kafka_holds_records_is_stalled() -> None:
    assert judged(*every_second(LOG, 60, batches=lambda s: s), now=60) is not None


def test_what_is_slow_by_itself_has_longer() -> None:
    slow, throttled = replace(NODE, batch_seconds=60.0), replace(NODE, throttle_seconds=300.0)
    first = replace(NODE, batches=0)
    for status, seconds in ((slow, 120), (throttled, 340), (first, 600)):
        seen = every_second(status, seconds + 5)
        assert judged(*seen, now=seconds) is None
        assert judged(*seen, now=seconds + 5) is not None


def test_a_query_that_failed_for_good_is_told_at_once_with_its_cause() -> None:
    wrong = judged(
        (0.0, NODE),
        (1.0, replace(NODE, state="failed", tried_again=False, error="Offsets 3 to 9 are gone.")),
        now=1,
    )
    assert wrong == (
        "The query has failed and stays stopped; the other queries run on. Offsets 3 to 9 are gone. Fix the cause, then "
        "start the run again."
    )


def test_a_query_that_is_tried_again_although_it_failed_is_told_to_be_so() -> None:
    failed = replace(NODE, state="failed", failures=10, error="Kafka does not answer.")
    assert judged((0.0, NODE), (1.0, failed), now=1) == (
        "The query has failed 10 times in a row. It is tried again automatically; the other queries run on. Kafka does not "
        "answer. Fix the cause."
    )


def test_a_query_may_wait_for_a_lease_until_it_expires_and_is_told_when_it_waits_longer() -> None:
    seen = every_second(replace(NODE, state="waiting", error="Log 'readings' is waiting."), 95)
    assert judged(*seen, now=90) is None
    assert judged(*seen, now=95) == "The query has not started for 95 s. Log 'readings' is waiting."


def test_a_query_that_starts_again_and_again_is_told_although_it_runs_in_between() -> None:
    error = "No space left."
    states = [replace(NODE, state=state, error=error, failures=4) for state in ("restarting", "running")]
    seen = [(float(s), states[s % 2]) for s in range(51)]
    wrong = judged((0.0, NODE), *seen, now=50)
    assert (
        wrong
        == "The query has failed 4 times in a row and restarts automatically. No space left. Fix the cause."
    )


def test_a_run_that_no_longer_looks_at_its_queries_is_told() -> None:
    wrong = judged((0.0, replace(NODE, lag_seconds=0.0)), now=50)
    assert wrong is not None
    assert wrong.startswith("The run has not checked its queries for 50 s")


def test_a_run_on_a_busy_machine_may_take_twice_as_long_for_a_look_as_for_the_one_before() -> None:
    watch = StallWatch(began=0.0)
    watch.see([replace(NODE, lag_seconds=0.0)], 100)
    assert set(watch.verdicts(300).values()) == {None}
    assert None not in watch.verdicts(301).values()
    watch.see([replace(NODE, lag_seconds=0.0)], 400)
    watch.see([replace(NODE, lag_seconds=0.0)], 401)
    assert set(watch.verdicts(441).values()) == {None}
    assert None not in watch.verdicts(442).values()


def test_however_busy_the_machine_is_a_run_that_hangs_is_told_after_ten_minutes() -> None:
    watch = StallWatch(began=0.0)
    watch.see([replace(NODE, lag_seconds=0.0)], 2_000)
    assert set(watch.verdicts(2_600).values()) == {None}
    assert None not in watch.verdicts(2_601).values()


def test_a_log_shows_what_a_million_records_cost_if_an_hour_has_a_price() -> None:
    busy = replace(LOG, rows_per_second=10_000.0)
    assert numbers(busy, 0.0, 0.36)["cost_per_million_records"] == 0.01
    assert "cost_per_million_records" not in numbers(busy, 0.0)
    assert "cost_per_million_records" not in numbers(replace(busy, rows_per_second=0.0), 0.0, 0.36)
    assert "cost_per_million_records" not in numbers(replace(NODE, rows_per_second=10_000.0), 0.0, 0.36)


def test_the_endpoint_shows_the_figures_of_the_last_poll_on_loopback_and_closes() -> None:
    with MetricsEndpoint(port=0) as endpoint:
        waits = {"suppression_buffer_count_current": 3, "suppression_emit_total": 9}
        endpoint.see([replace(NODE, buffer=waits, state_bytes_read=4_096), LOG])
        url = f"http://127.0.0.1:{endpoint.port}/metrics"
        text = urllib.request.urlopen(url, timeout=PATIENCE_S).read().decode()
        lines = text.splitlines()
        assert 'headrace_lag_records{asset="stream/counts_stream"} 7.0' in lines
        assert 'headrace_rows_total{asset="log/readings"} 100.0' in lines
        assert 'headrace_late_total{asset="stream/counts_stream"} 2.0' in lines
        assert 'headrace_late_total{asset="log/readings"}' not in text
        assert 'headrace_state{asset="stream/counts_stream",state="running"} 1.0' in lines
        assert 'headrace_suppression_buffer_count_current{asset="stream/counts_stream"} 3.0' in lines
        assert 'headrace_suppression_emit_total{asset="stream/counts_stream"} 9.0' in lines
        assert 'headrace_state_bytes_read{asset="stream/counts_stream"} 4096.0' in lines
        assert 'headrace_stream_time_seconds{asset="stream/counts_stream"} 60.0' in lines
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=PATIENCE_S)


def test_without_a_port_there_is_no_endpoint_and_one_that_is_taken_ends_no_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with MetricsEndpoint() as none:
        assert none.port is None
    with MetricsEndpoint(port=0) as first:
        monkeypatch.setenv("HEADRACE_METRICS_PORT", str(first.port))
        with MetricsEndpoint() as second:
            second.see([NODE])
