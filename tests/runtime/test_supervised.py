"""Supervision, of a query and of a loop alike: opened again with back-off after what may pass, stopped for good by what will not."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from headrace.errors import TerminalError, TransientError
from headrace.writing.leases.lease import Holder, LeaseTakenError
from tests.runtime.supervising import LONG, Loop, fail_at_work, held_up, raise_, until

pytestmark = pytest.mark.fast

NOW_MS = 1_714_564_800_000  # 2024-05-01 12:00:00 UTC


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How many seconds the clock is ahead of the real one."""
    ahead, real = [1000.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: ahead[0] + real())
    return ahead


def test_a_stream_runs_from_the_first_poll_on(stream: Loop) -> None:
    assert stream.state == "restarting"
    stream.keep_running()
    stream.keep_running()
    assert (stream.state, stream.opened) == ("running", 1)


def test_what_may_pass_is_tried_again_ever_more_slowly(stream: Loop, clock: list[float]) -> None:
    waits = []
    stream.refusals = [TransientError("Kafka does not answer.") for _ in range(9)]
    stream.keep_running()
    for failures in range(1, 9):
        assert (stream.state, stream.failures, stream.opened) == ("restarting", failures, failures)
        assert str(stream.error) == "Kafka does not answer."
        began = clock[0]
        while stream.opened == failures:
            clock[0] += 1
            stream.keep_running()
        waits.append(clock[0] - began)
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]


def held(expires_in: float | None, *, renewed_ms: int = NOW_MS, epoch: int = 1) -> LeaseTakenError:
    """A refusal: the holder is on another machine, or (None) alive on this one."""
    holder = Holder("process 7 on there", epoch, NOW_MS, renewed_ms, expires_in)
    return LeaseTakenError("Log 'readings' is already being written.", writer="Log 'readings'", holder=holder)


def test_a_lease_that_has_not_expired_yet_is_waited_for_and_the_state_says_so(
    stream: Loop, clock: list[float]
) -> None:
    stream.refusals = [held(60.0 - seconds) for seconds in range(0, 60, 2)]
    seen = []
    for _ in range(30):
        stream.keep_running()
        seen.append((stream.state, stream.failures))
        clock[0] += 2
    assert set(seen) == {("waiting", 0)}
    assert str(stream.error) == (
        "Log 'readings' is waiting for the lease held by process 7 on there since 2024-05-01 12:00:00 UTC; "
        "it expires in 2 s unless that process renews it."
    )
    stream.keep_running()
    assert (stream.state, stream.error, stream.opened) == ("running", None, 31)


@pytest.mark.parametrize("where", ["elsewhere", "on this machine"])
def test_a_lease_that_a_living_writer_keeps_is_a_failure_after_a_minute_and_free_it_is_taken(
    stream: Loop, clock: list[float], where: str
) -> None:
    def refuse(second: int) -> LeaseTakenError:
        return held(None) if where == "on this machine" else held(55.0, renewed_ms=NOW_MS + 1_000 * second)

    stream.refusals = [refuse(second) for second in range(0, 70, 2)]
    states = []
    for second in range(0, 70, 2):
        stream.keep_running()
        states.append(stream.state)
        if second == 20:
            assert "That process is alive: if it still holds the lease in 40 s, the stream fails." in str(
                stream.error
            )
        clock[0] += 2
    assert states == ["waiting"] * 30 + ["failed"] * 5
    assert str(stream.error) == "Log 'readings' is already being written."
    stream.keep_running()
    assert (stream.state, stream.error) == ("running", None)


def test_a_stream_that_stands_by_waits_for_hours_and_then_takes_over(
    stream: Loop, clock: list[float]
) -> None:
    stream.stands_by = True
    stream.refusals = [held(55.0, renewed_ms=NOW_MS + 60_000 * minute) for minute in range(200)]
    states = set()
    for _ in range(200):
        stream.keep_running()
        states.add(stream.state)
        clock[0] += 60
    assert states == {"waiting"}
    assert "That process is alive: this stream stands by, and takes over when it ends." in str(stream.error)
    stream.keep_running()
    assert (stream.state, stream.failures) == ("running", 0)


def test_another_writer_that_takes_the_lease_meanwhile_has_a_minute_of_its_own(
    stream: Loop, clock: list[float]
) -> None:
    stream.refusals = [held(None), held(None), held(None, epoch=2)]
    states = []
    for _ in range(3):
        stream.keep_running()
        states.append(stream.state)
        clock[0] += 60
    assert states == ["waiting", "failed", "waiting"]


def test_a_lease_that_a_micro_batch_finds_held_ends_nothing_for_good(
    stream: Loop, clock: list[float]
) -> None:
    stream.keep_running()
    fail_at_work(stream, held(None))
    stream.keep_running()
    assert (stream.state, stream.closed) == ("waiting", 1)
    stream.does = lambda: 1
    clock[0] += 2
    stream.keep_running()
    assert stream.state == "running"


def test_one_that_waits_for_a_lease_is_stopped_by_a_drain(stream: Loop) -> None:
    stream.refusals = [held(30.0)]
    stream.keep_running()
    stream.drain()
    stream.keep_running()
    assert (stream.state, stream.opened) == ("stopped", 1)


def test_after_ten_failures_in_a_row_it_counts_as_failed_and_is_tried_on_until_it_passes(
    stream: Loop, clock: list[float]
) -> None:
    stream.refusals = [TransientError("Kafka does not answer.") for _ in range(11)]
    states = []
    for _ in range(12):
        stream.keep_running()
        states.append(stream.state)
        clock[0] += 60
    assert states == ["restarting"] * 9 + ["failed"] * 2 + ["running"]


def test_after_a_failure_everything_taken_is_given_back_and_taken_anew(
    stream: Loop, clock: list[float]
) -> None:
    stream.keep_running()
    fail_at_work(stream, RuntimeError("executor lost"))
    stream.keep_running()
    assert (stream.state, stream.closed, str(stream.error)) == ("restarting", 1, "executor lost")
    stream.does = lambda: 1
    clock[0] += 2
    stream.keep_running()
    assert (stream.state, stream.opened) == ("running", 2)


def test_a_micro_batch_that_succeeds_forgives_the_failures_before_it(
    stream: Loop, clock: list[float]
) -> None:
    go_on = threading.Event()
    stream.does = lambda: int(go_on.wait(LONG))
    stream.refusals = [TransientError("away"), TransientError("away")]
    for _ in range(3):
        stream.keep_running()
        clock[0] += 60
    assert (stream.state, stream.failures) == ("running", 2)
    go_on.set()
    stream.batch()
    assert (stream.failures, stream.error) == (0, None)


def test_what_it_commits_forgives_them_while_the_work_goes_on(stream: Loop, clock: list[float]) -> None:
    seen: list[Any] = []

    def work() -> int:
        stream.went_well()
        seen.append((stream.failures, stream.error))
        return 1

    stream.does = work
    stream.refusals = [TransientError("away")]
    stream.keep_running()
    clock[0] += 60
    stream.keep_running()
    stream.batch()
    assert seen[0] == (0, None)


def test_a_stream_that_dies_at_every_micro_batch_keeps_backing_off(stream: Loop, clock: list[float]) -> None:
    for failures in (1, 2, 3):
        stream.keep_running()
        fail_at_work(stream, RuntimeError("poison"))
        stream.keep_running()
        assert stream.failures == failures
        clock[0] += 60


@pytest.mark.parametrize("where", ["open", "work", "elsewhere"])
def test_what_will_not_pass_waits_for_a_person(stream: Loop, where: str, clock: list[float]) -> None:
    error = TerminalError("Kafka has deleted records.", hint="Accept the gap.")
    if where == "open":
        stream.refusals = [error]
    stream.keep_running()
    if where == "work":
        fail_at_work(stream, error)
    if where == "elsewhere":
        stream.give_up(error)
    stream.keep_running()
    clock[0] += 3600
    stream.keep_running()
    assert (stream.state, stream.opened, stream.closed) == ("failed", 1, 1)
    assert str(stream.error) == "Kafka has deleted records.\nAccept the gap."
    stream.drain()
    assert stream.state == "failed"


def test_a_drain_waits_for_the_micro_batch_under_way(stream: Loop) -> None:
    begun, done = threading.Event(), []
    stream.keep_running()

    def work() -> int:
        begun.set()
        time.sleep(0.2)
        done.append(True)
        return 1

    stream.does = work
    stream.check_now()
    begun.wait()
    stream.drain()
    assert (done, stream.state, stream.closed) == ([True], "stopped", 1)


def test_a_drain_and_a_micro_batch_that_begins_meanwhile_do_not_wait_for_each_other(stream: Loop) -> None:
    stream.keep_running()
    with stream._busy:
        stream.check_now()
        draining = threading.Thread(target=stream.drain, daemon=True)
        draining.start()
        time.sleep(0.1)
    draining.join(LONG)
    assert not draining.is_alive()
    assert stream.state == "stopped"


def test_a_drained_stream_stays_stopped_though_it_was_waiting_out_a_back_off(stream: Loop) -> None:
    stream.refusals = [TransientError("Kafka does not answer.")]
    stream.keep_running()
    stream.drain()
    stream.keep_running()
    assert (stream.state, stream.opened) == ("stopped", 1)


def test_that_something_cannot_be_given_back_stops_nothing(
    stream: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "close", lambda: raise_(OSError("disk full")))
    stream.keep_running()
    stream.drain()
    assert stream.state == "stopped"


def test_the_error_that_ends_a_stream_is_not_hidden_by_the_one_that_its_end_causes(
    stream: Loop, clock: list[float]
) -> None:
    error = TerminalError("The buffer is full.")
    go_on = held_up(stream, lambda: raise_(RuntimeError("interrupted, for the query is stopped")))
    giving_up = threading.Thread(target=stream.give_up, args=[error])
    giving_up.start()
    until(lambda: stream.error is error)
    go_on.set()
    giving_up.join(LONG)
    stream.keep_running()
    assert (stream.state, stream.error) == ("failed", error)


def test_a_stream_is_not_opened_again_before_its_own_micro_batch_has_ended(
    stream: Loop, clock: list[float]
) -> None:
    go_on = held_up(stream, lambda: 1)
    stream._end_with(TransientError("The source is away."))
    for _ in range(3):
        clock[0] += 60
        stream.keep_running()
        assert (stream.opened, stream.closed) == (1, 0), "its lease is not given back, nor taken anew"
    go_on.set()
    until(lambda: not stream.running and not stream._busy.locked())
    stream.keep_running()
    assert (stream.opened, stream.closed, str(stream.error)) == (1, 1, "The source is away.")
    clock[0] += 2
    stream.keep_running()
    assert (stream.opened, stream.state) == (2, "running")


def test_what_a_person_has_mended_goes_on_by_itself(
    stream: Loop, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.keep_running()
    fail_at_work(stream, TerminalError("The buffer is full."))
    stream.keep_running()
    assert stream.state == "failed"
    stream.does = lambda: 1
    monkeypatch.setattr(stream, "mended", lambda: True)
    stream.keep_running()
    assert (stream.state, stream.error, stream.opened) == ("running", None, 2)
    stream.drain()
    stream.keep_running()
    assert stream.state == "stopped"


def test_what_has_stopped_for_good_does_not_begin_anew_for_another_trigger(stream: Loop) -> None:
    stream.trigger_ms = 1_000
    stream.keep_running()
    stream.drain()
    stream.set_trigger(300)
    stream.keep_running()
    assert (stream.state, stream.opened) == ("stopped", 1)
