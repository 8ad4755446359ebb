"""The last fold of a run that stops, while a commit fails: no row comes twice, and no node is left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.errors import TransientError
from headrace.log.clock import SystemClock
from headrace.log.site import Site
from headrace.settings.kafka import KafkaSettings
from headrace.streams.loops.node_stream import NodeStream, Shared
from headrace.streams.stream_runtime import StreamRuntime
from headrace.testing import TestDriver
from headrace.writing.scheduling import Turns
from tests.runtime.supervising import kept_running
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

MINUTE_MS = 60_000
BEGIN_MS = 1_700_000_040_000
COUNTS = (
    hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE", idle_timeout=None)
    .group_by("sensor_id")
    .window(hr.tumbling("1 minute"), grace="0 seconds")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("counts")
)
AWAY = TransientError("The store did not do as asked (HTTP 503).")


@pytest.fixture
def driver() -> Iterator[TestDriver]:
    """Its log has a window that closes."""
    made = TestDriver([COUNTS])
    feed(made, 0)
    feed(made, 1)
    made.cut([])
    yield made
    made.close()


def feed(driver: TestDriver, minute: int) -> None:
    driver.pipe("readings", key="a", value={"value": 1.0}, timestamp_ms=BEGIN_MS + minute * MINUTE_MS)


def stream_of(driver: TestDriver, on_step: Callable[[str], None]) -> NodeStream:
    site = Site(driver._session, driver.lake, SystemClock(), on_step)
    return NodeStream(site, COUNTS, Shared(Turns(1), Turns(1)), trigger_ms=20)


def counted(driver: TestDriver) -> list[int]:
    """The rows after another run has gone on."""
    again = stream_of(driver, lambda step: None)
    try:
        kept_running(again, lambda: bool(again.runner and not again.lag_ms()))
    finally:
        again.drain()
    return [row["n"] for row in driver.rows("counts")]


@pytest.mark.fast
def test_a_stop_that_waits_for_a_micro_batch_which_is_broken_off_folds_nothing(driver: TestDriver) -> None:
    """Before, it planned the same rows again behind results that stood already: they were there twice, for good."""
    at_results, may_fail = threading.Event(), threading.Event()

    def on_step(step: str) -> None:
        if step == "after outputs" and not at_results.is_set():
            at_results.set()
            assert may_fail.wait(PATIENCE_S)
            raise AWAY

    stream = stream_of(driver, on_step)
    stream.keep_running()
    assert at_results.wait(PATIENCE_S)
    feed(driver, 2)
    driver.cut([])
    last = threading.Thread(target=stream.finish, args=(time.monotonic() + PATIENCE_S,))
    last.start()
    time.sleep(0.3)
    may_fail.set()
    last.join()
    stream.drain()
    assert counted(driver) == [1, 1]


@pytest.mark.fast
def test_a_last_fold_that_fails_ends_the_thread_of_its_node(driver: TestDriver) -> None:
    """Before, the thread folded on, and planned the same rows again."""
    fails = threading.Event()

    def on_step(step: str) -> None:
        if step == "after outputs" and threading.current_thread() is threading.main_thread():
            fails.set()
            raise AWAY

    stream = stream_of(driver, on_step)
    stream.trigger_ms = 1_000
    kept_running(stream, lambda: bool(stream.runner and stream.runner.progress.batch))
    feed(driver, 2)
    driver.cut([])
    with pytest.raises(TransientError, match="503"):
        stream.finish(time.monotonic() + PATIENCE_S)
    assert stream.runner is not None
    with pytest.raises(TransientError, match="broke off a micro-batch"):
        stream.runner.advance()
    stream.stop()
    assert fails.is_set()
    assert not stream.running
    stream.drain()
    assert counted(driver) == [1, 1]


@pytest.mark.spark
def test_one_node_whose_last_fold_fails_keeps_no_other_from_its_drain(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, later nodes kept their leases, and the upkeep of tables went on."""
    done: list[str] = []
    nodes = [COUNTS.named(name) for name in ("a", "b", "c")]
    runtime = StreamRuntime(
        spark, lake, nodes, kafka=KafkaSettings(bootstrap_servers="localhost:1"), trigger_ms=20
    )

    def finish(stream: Any, deadline: float) -> None:
        done.append(f"finish {stream.name}")
        if stream.name == "b":
            raise AWAY

    monkeypatch.setattr(NodeStream, "finish", finish)
    monkeypatch.setattr(NodeStream, "drain", lambda stream: done.append(f"drain {stream.name}"))
    monkeypatch.setattr(runtime._upkeep, "end", lambda: done.append("upkeep"))
    monkeypatch.setattr(runtime._mirroring, "end", lambda: done.append("mirror"))
    with pytest.raises(TransientError, match="503"):
        runtime.drain(5)
    of_nodes = [f"{what} {name}" for name in "abc" for what in ("finish", "drain")]
    assert done == [*of_nodes, "upkeep", "mirror"]
