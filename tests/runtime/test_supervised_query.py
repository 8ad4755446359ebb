"""What only a supervised query of Spark does: Spark may end it, and writes where each micro-batch ends."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import TransientError
from tests.runtime.supervising import LONG, Query, fail_at_work

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast


def test_a_query_that_ends_by_itself_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, real = [0.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: ahead[0] + real())
    stream = Query()
    stream.keep_running()
    stream.spark.isActive, stream.spark.failed = False, RuntimeError("Kafka: offset out of range")
    stream.keep_running()
    assert (stream.state, str(stream.error)) == ("restarting", "Kafka: offset out of range")
    ahead[0] += 2
    stream.keep_running()
    assert stream.state == "running"


def test_a_micro_batch_that_spark_begins_late_for_a_query_that_was_given_up_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead, real = [0.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: ahead[0] + real())
    stream = Query()
    stream.keep_running()
    given_up = stream.spark
    given_up.isActive, given_up.failed = False, RuntimeError("Kafka: offset out of range")
    stream.keep_running()
    given_up.trigger().join(LONG)
    ahead[0] += 2
    stream.keep_running()
    given_up.trigger().join(LONG)
    assert (stream.worked, stream.state, stream.opened) == (0, "running", 2)
    stream.batch()
    assert (stream.worked, stream.error) == (1, None)


def test_a_micro_batch_of_kafkas_source_ends_where_sparks_checkpoint_says(tmp_path: Path) -> None:
    stream: Any = Query()
    stream._scratch = SimpleNamespace(name=str(tmp_path))
    (tmp_path / "offsets").mkdir()
    metadata = '{"batchWatermarkMs":0,"batchTimestampMs":1795866720000,"conf":{}}'
    (tmp_path / "offsets" / "7").write_text(f'v1\n{metadata}\n{{"readings":{{"1":9,"0":4}}}}')
    assert stream.ends_of(7) == {"readings": {0: 4, 1: 9}}


def test_a_trigger_of_a_query_that_closes_does_nothing() -> None:
    stream = Query()
    stream.keep_running()
    stream.spark.trigger().join(LONG)
    assert stream.worked == 1
    stream.halt()
    stream.spark.trigger().join(LONG)
    assert stream.worked == 1


def test_between_a_failed_trigger_and_the_end_of_its_query_nothing_begins() -> None:
    stream, cause = Query(), TransientError("The database does not answer.")
    stream.keep_running()
    fail_at_work(stream, cause)
    stream.spark.isActive = True  # Spark has not noticed yet

    worked = stream.worked
    stream.spark.trigger().join(LONG)
    assert stream.worked == worked, "nothing was done"
    assert stream.error is cause


def test_with_another_trigger_it_begins_anew_between_two_micro_batches_and_keeps_what_it_counted() -> None:
    stream, begun, go_on = Query(), threading.Event(), threading.Event()
    stream.trigger_ms = 1_000
    stream.keep_running()

    def work() -> int:
        begun.set()
        go_on.wait(LONG)
        return 30

    stream.does = work
    trigger = stream.spark.trigger()
    begun.wait()
    stream.set_trigger(300)
    assert (stream.trigger_ms, stream.state) == (1_000, "running")
    go_on.set()
    trigger.join(LONG)
    stream.set_trigger(300)
    stream.keep_running()
    assert (stream.trigger_ms, stream.state, stream.opened, stream.closed) == (300, "running", 2, 1)
    assert stream.rows_per_second() == 1.0
