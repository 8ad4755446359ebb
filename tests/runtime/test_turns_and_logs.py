"""Which nodes hold a turn while their logs work: those that made these begin, for them the turn is lent; no others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

import headrace as hr
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.log.site import Site
from headrace.streams.loops.node_stream import NodeStream, Shared
from headrace.writing import scheduling
from headrace.writing.scheduling import Coming, CommitSchedule, Turns
from tests.runtime.supervising import LONG, until
from tests.runtime.test_scheduling import never, thread

pytestmark = pytest.mark.fast

NODE = hr.Topic("t", key="k STRING", value="n BIGINT").group_by("k").aggregate(n=hr.count()).named("totals")


class Log:
    """As much of a log's stream as a node asks for."""

    name = "t"

    def __init__(self) -> None:
        self.schedule, self.asked = CommitSchedule(), threading.Event()

    def ask(self, *, spare_core: bool) -> Coming | None:
        found = self.schedule.ask(0.0, spare_core=spare_core)
        self.asked.set()
        return found


class Runner:
    """Counts micro-batches."""

    def __init__(self, has_rows: bool = True) -> None:
        self.folded, self.has_rows = 0, has_rows

    def due(self, now_ms: int) -> bool:
        return True

    def advance(self) -> bool:
        self.folded += self.has_rows
        return self.has_rows


def node_of(turns: Turns, *logs: Log) -> NodeStream:
    spark: Any = None
    site = Site(spark, Lake("file:/nowhere"), ManualClock(0))
    stream = NodeStream(site, NODE, Shared(turns, Turns(1)), trigger_ms=1)
    stream.logs = cast(Any, [*logs])
    return stream


def folds(stream: NodeStream, runner: Runner) -> Callable[[], None]:
    def work() -> None:
        assert stream._fold(cast(Any, runner)) == runner.has_rows

    return work


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "TURN_SECONDS", 10 * LONG)
    monkeypatch.setattr(scheduling, "BEGIN_SECONDS", LONG)
    monkeypatch.setattr(scheduling, "RECENT_SECONDS", 0.0)
    monkeypatch.setattr(scheduling, "REST_SECONDS", LONG)


def test_a_node_whose_log_is_at_work_leaves_its_turn_to_others() -> None:
    turns, log, runner, done = Turns(1), Log(), Runner(), threading.Event()
    with thread(log_at_work(log.schedule, done)):
        until(lambda: log.schedule._at_work)
        with thread(folds(node_of(turns, log), runner)):
            assert log.asked.wait(LONG)
            deadline = time.monotonic() + LONG / 2
            with turns.taken(lambda: time.monotonic() > deadline) as mine:
                done.set()
                assert mine
                assert runner.folded == 0
    assert runner.folded == 1


def test_a_node_that_makes_its_log_begin_lends_it_its_turn() -> None:
    turns, log, runner, seen = Turns(1), Log(), Runner(), list[bool]()
    schedule = log.schedule

    def works() -> None:
        with schedule.at_work():
            pass
        schedule.rest(never, hurried=False)
        with schedule.at_work():
            seen.append(turns.spare)

    with thread(works):
        until(lambda: schedule._resting)
        with thread(folds(node_of(turns, log), runner)):
            pass
    assert (seen, runner.folded) == ([False], 1)


def test_a_node_that_gave_its_turn_back_asks_no_log_again() -> None:
    turns, log, runner, asked = Turns(1), Log(), Runner(), list[Coming]()

    def ask(*, spare_core: bool) -> Coming:
        asked.append(Coming(0, begun=False))
        return asked[-1]

    log.ask = ask  # type: ignore[method-assign]
    folds(node_of(turns, log), runner)()
    assert (len(asked), runner.folded) == (1, 1)


def test_a_node_with_nothing_to_fold_sends_its_logs_on() -> None:
    turns, log, runner = Turns(1), Log(), Runner(has_rows=False)
    with log.schedule.at_work():
        pass
    with thread(lambda: log.schedule.rest(never, hurried=False)):
        until(lambda: log.schedule._resting)
        log.ask = lambda *, spare_core: None  # type: ignore[method-assign]
        folds(node_of(turns, log), runner)()
    assert turns.spare


def log_at_work(schedule: CommitSchedule, done: threading.Event) -> Callable[[], None]:
    def works() -> None:
        with schedule.at_work():
            assert done.wait(LONG)

    return works
