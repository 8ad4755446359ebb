"""Turns, and when a log commits: what is waited for, and what is not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from headrace.writing import scheduling
from headrace.writing.scheduling import Coming, CommitSchedule, Turns
from tests.runtime.supervising import LONG, until


def never() -> bool:
    """Nobody gives up."""
    return False


@contextmanager
def thread(work: Callable[[], None]) -> Iterator[threading.Thread]:
    """Work in a thread of its own, which ends before the test does."""
    worker = threading.Thread(target=work)
    worker.start()
    yield worker
    worker.join(LONG)
    assert not worker.is_alive()


def at_rest() -> bool:
    """A log that rests asks whether it should give up."""
    raise AssertionError("it rests")


@pytest.mark.parametrize("cores", [1, 2])
def test_no_more_have_a_turn_at_once_than_there_are_and_who_came_first_is_next(cores: int) -> None:
    turns, order, at_once, highest = Turns(cores), [], 0, 0
    lock, began = threading.Lock(), threading.Event()

    def work(number: int) -> None:
        nonlocal at_once, highest
        with turns.taken(never) as mine:
            assert mine
            with lock:
                at_once += 1
                highest = max(highest, at_once)
                order.append(number)
            began.wait(LONG)
            with lock:
                at_once -= 1

    workers = [threading.Thread(target=work, args=[number]) for number in range(6)]
    for number, worker in enumerate(workers):
        worker.start()
        until(lambda n=number: len(order) + len(turns._waiting) == n + 1)  # type: ignore[misc]
    assert order == [*range(cores)]
    began.set()
    for worker in workers:
        worker.join(LONG)
    assert highest == cores
    assert sorted(order) == [*range(6)]
    if cores == 1:  # two that begin at once may note it in either order
        assert order == [*range(6)]


def test_who_gave_a_turn_back_gets_the_next_one() -> None:
    turns, order = Turns(1), list[str]()

    def waits(name: str, first: bool) -> None:
        with turns.taken(never, first=first):
            order.append(name)

    with ExitStack() as threads, turns.taken(never):
        for place, (name, first) in enumerate((("a", False), ("b", False), ("gave it back", True))):
            threads.enter_context(thread(partial(waits, name, first)))
            until(lambda n=place: len(turns._waiting) == n + 1)  # type: ignore[misc]
    assert order == ["gave it back", "a", "b"]


def test_one_is_to_spare_when_it_is_free_and_nobody_waits() -> None:
    turns = Turns(2)
    with turns.taken(never):
        assert turns.spare
        with turns.taken(never):
            assert not turns.spare
        assert turns.spare


def test_who_gives_up_holds_nobody_up() -> None:
    turns, given_up = Turns(1), threading.Event()
    got: list[bool] = []

    def waits() -> None:
        with turns.taken(given_up.is_set) as mine:
            got.append(mine)

    with turns.taken(never), thread(waits):
        until(lambda: bool(turns._waiting))
        given_up.set()
    assert got == [False]
    with turns.taken(never) as mine:
        assert mine


def test_a_turn_that_takes_long_holds_nobody_up_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "TURN_SECONDS", 0.05)
    turns = Turns(1)
    with turns.taken(never), turns.taken(never) as mine:
        assert mine


def test_a_turn_is_given_back_after_an_error() -> None:
    turns = Turns(1)
    with pytest.raises(RuntimeError), turns.taken(never):
        raise RuntimeError
    with turns.taken(never) as mine:
        assert mine


def test_a_log_rests_until_a_node_asks_which_then_waits_for_its_micro_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduling, "BEGIN_SECONDS", LONG)
    monkeypatch.setattr(scheduling, "REST_SECONDS", LONG)
    monkeypatch.setattr(scheduling, "RECENT_SECONDS", 0.0)
    schedule, done, may_end = CommitSchedule(), [], threading.Event()

    def log() -> None:
        with schedule.at_work():
            done.append(1)
        schedule.rest(never, hurried=False)
        with schedule.at_work():
            assert may_end.wait(LONG)
            done.append(2)

    with thread(log):
        until(lambda: schedule._resting)
        assert schedule.ask(0.0, spare_core=False) == Coming(2, begun=True)
        assert schedule.ask(0.0, spare_core=False) == Coming(2, begun=False), "another node asks meanwhile"
        may_end.set()
        schedule.wait_for(2)
        assert done == [1, 2]


def test_a_node_does_not_wait_for_a_log_that_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "BEGIN_SECONDS", 0.05)
    monkeypatch.setattr(scheduling, "RECENT_SECONDS", 0.0)
    schedule = CommitSchedule()
    with schedule.at_work():
        pass
    with thread(lambda: schedule.rest(never, hurried=False)):
        until(lambda: schedule._resting)
        assert schedule.ask(0.0, spare_core=False) == Coming(2, begun=True)
        schedule.wait_for(2)
    time.sleep(0.05)
    assert schedule.ask(0.0, spare_core=False) is None, "it looks at Kafka by itself, and wakes its nodes"


@pytest.mark.parametrize(
    ("spare_core", "hurried", "trigger_seconds", "recent_seconds"),
    [
        (True, False, 0.0, LONG),
        (False, True, 0.0, LONG),
        (False, False, LONG, 0.0),
        (False, False, 0.0, LONG),
    ],
    ids=["a core is to spare", "the log is behind", "the log is not due", "it has just committed"],
)
def test_a_node_folds_what_is_there_when(
    monkeypatch: pytest.MonkeyPatch,
    spare_core: bool,
    hurried: bool,
    trigger_seconds: float,
    recent_seconds: float,
) -> None:
    monkeypatch.setattr(scheduling, "RECENT_SECONDS", recent_seconds)
    schedule = CommitSchedule()
    with schedule.at_work():
        pass
    with thread(lambda: schedule.rest(never, hurried=hurried)):
        until(lambda: schedule._resting)
        assert schedule.ask(trigger_seconds, spare_core=spare_core) is None
        just_committed = not spare_core and not hurried and recent_seconds > 0
        assert schedule._resting == just_committed, "any other begins meanwhile"
        schedule.go_on()


@pytest.mark.parametrize("spare_core", [True, False])
def test_a_log_that_works_while_a_node_begins_rests_only_if_no_core_is_to_spare(spare_core: bool) -> None:
    schedule = CommitSchedule()
    with schedule.at_work():
        assert schedule.ask(0.0, spare_core=spare_core) == (None if spare_core else Coming(1, begun=False))
    with thread(lambda: schedule.rest(never, hurried=False)) as log:
        if spare_core:
            log.join(LONG)
        else:
            until(lambda: schedule._resting)
            schedule.go_on()


def test_a_log_that_is_asked_before_it_rests_works_at_the_same_time_as_its_node_once() -> None:
    schedule = CommitSchedule()
    with schedule.at_work():
        pass
    assert schedule.ask(0.0, spare_core=True) is None
    schedule.rest(at_rest, hurried=False)
    with schedule.at_work():
        pass
    with thread(lambda: schedule.rest(never, hurried=False)):
        until(lambda: schedule._resting)
        schedule.go_on()


def test_a_log_whose_nodes_have_nothing_to_do_does_not_rest() -> None:
    schedule = CommitSchedule()
    with schedule.at_work():
        pass
    schedule.go_on()
    schedule.rest(at_rest, hurried=False)
    with schedule.at_work():
        pass
    with thread(lambda: schedule.rest(never, hurried=False)):
        until(lambda: schedule._resting)
        schedule.go_on()
