"""The loop of a node: what wakes it, how often it looks, and that no wake-up is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from headrace.errors import TransientError
from headrace.streams.loops.supervised_loop import PACE
from tests.runtime.supervising import LONG, Loop, Timeline, raise_, until

pytestmark = pytest.mark.fast

HOUR_MS = 3_600_000


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.does = lambda: 1
    made.drain()


@pytest.fixture
def timeline(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Timeline:
    return Timeline(loop, monkeypatch)


def opened(loop: Loop, trigger_ms: int) -> Loop:
    """Runs, and has worked once."""
    loop.trigger_ms = trigger_ms
    loop.keep_running()
    until(lambda: loop.worked == 1 and not loop._busy.locked())
    return loop


def test_it_works_once_when_it_is_opened_for_what_came_before_woke_nobody(loop: Loop) -> None:
    opened(loop, HOUR_MS)
    assert (loop.worked, loop.looks) == (1, 0)


def used_up(loop: Loop) -> Loop:
    """The same, and once more early: the next time has to wait for the interval."""
    opened(loop, HOUR_MS)
    loop.check_now()
    until(lambda: loop.worked == 2 and not loop._busy.locked())
    return loop


def test_a_wake_up_does_not_wait_for_the_next_look(loop: Loop) -> None:
    used_up(loop)
    loop._due_at -= HOUR_MS / 1000  # an hour has passed
    loop._looked_at = time.monotonic()
    loop.check_now()
    until(lambda: loop.worked == 3)
    assert loop.looks == 0


def test_one_call_comes_early_so_that_it_follows_what_woke_it_and_the_next_waits(loop: Loop) -> None:
    used_up(loop)
    loop.check_now()
    time.sleep(0.05)
    assert loop.worked == 2


def test_it_keeps_step_with_what_wakes_it_once_an_interval(loop: Loop, timeline: Timeline) -> None:
    """A node that has used its early call up waits for the interval at first; soon it folds each commit as it comes."""
    began: list[float] = []

    def work() -> int:
        began.append(timeline.now)
        return 1

    loop.does, loop.trigger_ms = work, 200
    commits = [0.2 * number for number in range(1, 11)]
    timeline.live(2.1, [0.01, 0.02, *commits])
    late = [at - commit for at, commit in zip(began[-10:], commits, strict=True)]
    assert late[0] > 0.05, "at first it waits"
    assert late[5:] == pytest.approx([0.0] * 5)


def test_it_looks_once_an_interval_and_works_when_a_look_finds_work(loop: Loop, timeline: Timeline) -> None:
    looked: list[float] = []

    def finds() -> bool:
        looked.append(timeline.now)
        return len(looked) == 5

    loop.looks_find, loop.trigger_ms = finds, 10
    timeline.live(0.155)
    assert looked == pytest.approx([0.01 * number for number in range(1, 16)])
    assert loop.worked == 2, "at the beginning, and for what was found"


@pytest.mark.parametrize("work_seconds", [(0.0,), (0.004, 0.2, 0.0)])
def test_calls_begin_on_average_an_interval_apart_however_often_it_is_woken(
    loop: Loop, timeline: Timeline, work_seconds: tuple[float, ...]
) -> None:
    began: list[float] = []

    def work() -> int:
        began.append(timeline.now)
        loop.check_now()
        timeline.now += work_seconds[len(began) % len(work_seconds)]
        return 1

    loop.does, loop.trigger_ms = work, 30
    timeline.live(1.5)
    least = [
        (last - first, at - begun)
        for last, at in enumerate(began)
        for first, begun in enumerate(began[:last])
    ]
    assert all(seconds >= (calls * PACE - 1) * 0.03 - 1e-9 for calls, seconds in least)
    assert len(began) > 15
    assert loop.looks == 0


def test_a_wake_up_while_it_works_is_followed_by_more_work(loop: Loop) -> None:
    opened(loop, 1)
    begun, go_on = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        go_on.wait(LONG)
        return 1

    loop.does = work
    loop.check_now()
    begun.wait(LONG)
    loop.check_now()
    go_on.set()
    until(lambda: loop.worked == 3)


def test_a_wake_up_while_it_looks_is_followed_by_work(loop: Loop) -> None:
    opened(loop, 1)
    woken = iter([loop.check_now])

    def look() -> bool:
        wake = next(woken, None)
        if wake is not None:
            wake()
        return False

    loop.looks_find = look
    until(lambda: loop.worked == 2)


@pytest.mark.parametrize("trigger_ms", [0, 1, 3])
def test_no_wake_up_is_lost_whenever_it_comes(loop: Loop, trigger_ms: int) -> None:
    done = folded = 0
    counting = threading.Lock()

    def work() -> int:
        nonlocal folded
        folded = done
        return 1

    def commit() -> None:
        nonlocal done
        for number in range(300):
            with counting:
                done += 1
            loop.check_now()
            if number % 7 == 0:
                time.sleep(0.001)

    loop.does = work
    opened(loop, trigger_ms)
    commits = [threading.Thread(target=commit) for _ in range(4)]
    for each in commits:
        each.start()
    for each in commits:
        each.join(LONG)
    until(lambda: folded == 1_200)  # by wake-ups alone: its looks find nothing


def test_a_drain_does_not_wait_for_the_interval(loop: Loop) -> None:
    used_up(loop)
    loop.check_now()
    loop.drain()
    assert (loop.state, loop.worked) == ("stopped", 2)
    assert not loop.running


def test_another_interval_holds_at_once_and_the_loop_goes_on(loop: Loop) -> None:
    used_up(loop)
    loop.check_now()
    loop.set_trigger(10)
    until(lambda: loop.worked == 3 and loop.looks > 2)
    assert (loop.opened, loop.closed, loop.trigger_ms) == (1, 0, 10)


def test_a_look_that_fails_ends_the_loop_as_work_does(loop: Loop) -> None:
    opened(loop, 1)
    loop.looks_find = lambda: raise_(TransientError("The lake is away."))
    until(lambda: not loop.running)
    assert (loop.state, str(loop.error)) == ("restarting", "The lake is away.")
    loop.keep_running()
    assert (loop.failures, loop.closed, loop.opened) == (1, 1, 1)


def test_only_work_forgives_a_failure(loop: Loop) -> None:
    opened(loop, 1)
    loop.failures = 3
    looks = loop.looks
    until(lambda: loop.looks > looks + 3)
    assert loop.failures == 3
    loop.batch()
    assert loop.failures == 0


def test_the_rate_is_read_while_the_loop_counts_rows(loop: Loop) -> None:
    """Before: "deque mutated during iteration", which ended the run of all streams."""

    class Moment(float):
        """A time at which another trigger ends, just while the rate is computed."""

        def __rsub__(self, now: float) -> float:
            loop._handle(lambda: 1)
            return now - float(self)

    loop._handle(lambda: 1)
    loop._counted.append((Moment(time.monotonic()), 1))
    loop._handle(lambda: 1)
    assert loop.rows_per_second() > 0
    assert len(loop._counted) == 4
