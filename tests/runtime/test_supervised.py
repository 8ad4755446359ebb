"""A supervised query: opened again with back-off after what may pass, stopped for good by what will not."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from headrace.errors import TerminalError, TransientError
from headrace.runtime.supervised import SupervisedQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.fast


class SparkStub:
    """Stands where Spark's writer and query stand: `stop` waits for the trigger under way, as Spark's does."""

    def __init__(self) -> None:
        self.isActive = False
        self.failed: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._handle: Any = None

    def foreachBatch(self, handle: Any) -> SparkStub:  # noqa: N802
        self._handle = handle
        return self

    def option(self, *_: str) -> SparkStub:
        return self

    def queryName(self, _: str) -> SparkStub:  # noqa: N802
        return self

    def start(self) -> SparkStub:
        self.isActive = True
        return self

    def exception(self) -> BaseException | None:
        return self.failed

    def trigger(self) -> threading.Thread:
        """Begin a micro-batch on a thread of Spark's."""

        def run() -> None:
            try:
                self._handle(None, 0)
            except BaseException:
                self.isActive = False

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        return self._thread

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.join(10)
            assert not self._thread.is_alive(), (
                "the trigger waits for the drain, and the drain for the trigger"
            )
        self.isActive = False


class Stream(SupervisedQuery):
    kind, name = "stream", "tried"

    def __init__(self) -> None:
        super().__init__()
        self.spark = SparkStub()
        self.opened = self.closed = 0
        self.refusals: list[BaseException] = []
        self.does: Any = lambda: 1

    def open(self) -> DataStreamWriter:
        self.opened += 1
        if self.refusals:
            raise self.refusals.pop(0)
        self.spark = SparkStub()
        return cast("DataStreamWriter", self.spark)

    def work(self, batch: DataFrame) -> int:
        return int(self.does())

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def raise_(error: BaseException) -> None:
    raise error


def fail_at_work(stream: Stream, error: BaseException) -> None:
    stream.does = lambda: raise_(error)
    stream.spark.trigger().join()


def test_a_stream_runs_from_the_first_poll_on() -> None:
    stream = Stream()
    assert stream.state == "restarting"
    stream.keep_running()
    stream.keep_running()
    assert (stream.state, stream.opened) == ("running", 1)


def test_what_may_pass_is_tried_again_ever_more_slowly(clock: list[float]) -> None:
    stream, waits = Stream(), []
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


def test_after_ten_failures_in_a_row_it_counts_as_failed_and_is_tried_on_until_it_passes(
    clock: list[float],
) -> None:
    stream = Stream()
    stream.refusals = [TransientError("Kafka does not answer.") for _ in range(11)]
    states = []
    for _ in range(12):
        stream.keep_running()
        states.append(stream.state)
        clock[0] += 60
    assert states == ["restarting"] * 9 + ["failed"] * 2 + ["running"]


def test_after_a_failure_everything_taken_is_given_back_and_taken_anew(clock: list[float]) -> None:
    stream = Stream()
    stream.keep_running()
    fail_at_work(stream, RuntimeError("executor lost"))
    stream.keep_running()
    assert (stream.state, stream.closed, str(stream.error)) == ("restarting", 1, "executor lost")
    clock[0] += 2
    stream.keep_running()
    assert (stream.state, stream.opened) == ("running", 2)


def test_a_micro_batch_that_succeeds_forgives_the_failures_before_it(clock: list[float]) -> None:
    stream = Stream()
    stream.refusals = [TransientError("away"), TransientError("away")]
    for _ in range(3):
        stream.keep_running()
        clock[0] += 60
    assert (stream.state, stream.failures) == ("running", 2)
    stream.spark.trigger().join()
    assert (stream.failures, stream.error) == (0, None)


def test_what_it_commits_forgives_them_while_the_work_goes_on(clock: list[float]) -> None:
    stream, seen = Stream(), []
    stream.refusals = [TransientError("away")]
    stream.keep_running()
    clock[0] += 60
    stream.keep_running()

    def work() -> int:
        stream.went_well()
        seen.append((stream.failures, stream.error))
        return 1

    stream.does = work
    stream.spark.trigger().join()
    assert seen == [(0, None)]


def test_a_stream_that_dies_at_every_micro_batch_keeps_backing_off(clock: list[float]) -> None:
    stream = Stream()
    for failures in (1, 2, 3):
        stream.keep_running()
        fail_at_work(stream, RuntimeError("poison"))
        stream.keep_running()
        assert stream.failures == failures
        clock[0] += 60


@pytest.mark.parametrize("where", ["open", "work", "beside"])
def test_what_will_not_pass_waits_for_a_person(where: str, clock: list[float]) -> None:
    stream, error = Stream(), TerminalError("Kafka has deleted records.", hint="Accept the gap.")
    if where == "open":
        stream.refusals = [error]
    stream.keep_running()
    if where == "work":
        fail_at_work(stream, error)
    if where == "beside":
        stream.give_up(error)
    stream.keep_running()
    clock[0] += 3600
    stream.keep_running()
    assert (stream.state, stream.opened, stream.closed) == ("failed", 1, 1)
    assert str(stream.error) == "Kafka has deleted records.\nAccept the gap."
    stream.drain()
    assert stream.state == "failed"


def test_a_query_that_ends_by_itself_is_opened_again(clock: list[float]) -> None:
    stream = Stream()
    stream.keep_running()
    stream.spark.isActive, stream.spark.failed = False, RuntimeError("Kafka: offset out of range")
    stream.keep_running()
    assert (stream.state, str(stream.error)) == ("restarting", "Kafka: offset out of range")
    clock[0] += 2
    stream.keep_running()
    assert stream.state == "running"


def test_a_drain_waits_for_the_micro_batch_under_way() -> None:
    stream, begun, done = Stream(), threading.Event(), []
    stream.keep_running()

    def work() -> int:
        begun.set()
        time.sleep(0.2)
        done.append(True)
        return 1

    stream.does = work
    stream.spark.trigger()
    begun.wait()
    stream.drain()
    assert (done, stream.state, stream.closed) == ([True], "stopped", 1)


def test_a_drain_and_a_micro_batch_that_begins_meanwhile_do_not_wait_for_each_other() -> None:
    stream = Stream()
    stream.keep_running()
    with stream._busy:
        trigger = stream.spark.trigger()
        draining = threading.Thread(target=stream.drain, daemon=True)
        draining.start()
        time.sleep(0.1)
    draining.join(5)
    assert not draining.is_alive()
    trigger.join(5)
    assert stream.state == "stopped"


def test_a_drained_stream_stays_stopped_though_it_was_waiting_out_a_back_off() -> None:
    stream = Stream()
    stream.refusals = [TransientError("Kafka does not answer.")]
    stream.keep_running()
    stream.drain()
    stream.keep_running()
    assert (stream.state, stream.opened) == ("stopped", 1)


def test_that_something_cannot_be_given_back_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    monkeypatch.setattr(stream, "close", lambda: raise_(OSError("disk full")))
    stream.keep_running()
    stream.drain()
    assert stream.state == "stopped"


@pytest.mark.parametrize(
    ("error", "state"),
    [(TerminalError("The buffer is full."), "failed"), (TransientError("The store is away."), "restarting")],
)
def test_what_was_found_beside_the_triggers_is_not_hidden_by_one_that_waited(
    error: Exception, state: str, clock: list[float]
) -> None:
    stream, waited = Stream(), []
    stream.keep_running()

    def found() -> int:
        waited.append(stream.spark.trigger())
        raise error

    stream.does = lambda: raise_(RuntimeError("interrupted, for the query is stopped"))
    stream.do(found)
    waited[0].join(5)
    stream.keep_running()
    assert (stream.state, stream.error) == (state, error)
    stream.does = lambda: 1
    clock[0] += 60
    stream.keep_running()
    if state == "restarting":
        stream.spark.trigger().join()
        assert (stream.state, stream.error, stream.opened) == ("running", None, 2)


def test_what_a_person_has_mended_goes_on_by_itself(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream()
    stream.keep_running()
    fail_at_work(stream, TerminalError("The buffer is full."))
    stream.keep_running()
    assert stream.state == "failed"
    monkeypatch.setattr(stream, "mended", lambda: True)
    stream.keep_running()
    assert (stream.state, stream.error, stream.opened) == ("running", None, 2)
    stream.drain()
    stream.keep_running()
    assert stream.state == "stopped"


def test_with_another_trigger_it_begins_anew_between_two_micro_batches_and_keeps_what_it_counted() -> None:
    stream, begun, go_on = Stream(), threading.Event(), threading.Event()
    stream.trigger_ms = 1_000
    stream.keep_running()

    def work() -> int:
        begun.set()
        go_on.wait(5)
        return 30

    stream.does = work
    trigger = stream.spark.trigger()
    begun.wait()
    stream.set_trigger(300)
    assert (stream.trigger_ms, stream.state) == (1_000, "running")
    go_on.set()
    trigger.join(5)
    stream.set_trigger(300)
    stream.keep_running()
    assert (stream.trigger_ms, stream.state, stream.opened, stream.closed) == (300, "running", 2, 1)
    assert stream.rows_per_second() == 1.0


def test_what_has_stopped_for_good_does_not_begin_anew_for_another_trigger() -> None:
    stream = Stream()
    stream.trigger_ms = 1_000
    stream.keep_running()
    stream.drain()
    stream.set_trigger(300)
    stream.keep_running()
    assert (stream.state, stream.opened) == ("stopped", 1)
