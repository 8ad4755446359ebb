"""What a look of a node finds: commits of other processes, an interval that begins, upkeep. No Spark."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

import headrace as hr
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.log.site import Site
from headrace.streams.loops.log_watch import LogWatch
from headrace.streams.loops.node_stream import NodeStream, Shared
from headrace.writing.node_runner import NodeRunner
from headrace.writing.scheduling import Turns

pytestmark = pytest.mark.fast

LEFT = hr.Topic("left", key="k STRING", value="k STRING, v BIGINT", idle_timeout=None)
RIGHT = hr.Topic("right", key="k STRING", value="k STRING, w BIGINT", idle_timeout=None)
JOINED = LEFT.table().join(RIGHT.table(), on="k", how="left").named("joined")


class Runner:
    """Finds as many micro-batches as it is told."""

    def __init__(self) -> None:
        self.unread = self.unfolded = self.found = self.asked = self.cleared = 0
        self.is_due, self.is_unpacked, self.packed = True, False, list[bool]()
        self.node = SimpleNamespace(reads_together=False)
        self.progress = SimpleNamespace(batch=1, buffer={}, totals=dict)

    def due(self, now_ms: int) -> bool:
        return self.is_due

    def advance(self) -> bool:
        self.asked += 1
        self.found -= 1
        return self.found >= 0

    def is_packing_due(self, *, at_rest: bool = False) -> bool:
        return self.is_unpacked

    def pack(self, *, whole: bool, at_rest: bool) -> None:
        self.packed.append(at_rest)
        self.is_unpacked = False

    def clear(self) -> None:
        self.cleared, self.unread = self.unread, 0


class Looked:
    """A node that is opened but for its thread: a test looks and works in its place."""

    def __init__(self, own: Callable[[str], bool]) -> None:
        self.versions, self.promises = {"left": 3, "right": 5}, {"left": 30, "right": 50}
        self.looked_for_promises = list[str]()
        self.stream = NodeStream(
            Site(cast("Any", None), Lake("file:/nowhere"), ManualClock(0)),
            JOINED,
            Shared(Turns(1), Turns(1)),
            trigger_ms=100,
        )
        self.runner = Runner()
        self.stream.runner = cast("Any", self.runner)
        self.stream._watch = LogWatch(lambda topic: self.versions[topic.name], self._promise)
        self.stream.logs = [
            cast(
                "Any",
                SimpleNamespace(name=name, writes=True, ask=lambda *, spare_core: None, schedule=Schedule()),
            )
            for name in self.versions
            if own(name)
        ]
        self.stream.due()  # the first look is at all logs
        self.stream.work()
        self.runner.asked = 0

    def _promise(self, topic: hr.Topic) -> int:
        self.looked_for_promises.append(topic.name)
        return self.promises[topic.name]


class Schedule:
    def go_on(self) -> None:
        """The log need not rest."""


def foreign() -> Looked:
    return Looked(lambda name: False)


def test_nothing_is_due_while_nothing_changes() -> None:
    assert not foreign().stream.due()


def test_a_commit_of_another_process_is_due_until_it_is_read() -> None:
    looked = foreign()
    looked.versions["right"] += 1
    assert looked.stream.due()
    assert looked.stream.due(), "one look more forgets nothing"
    looked.runner.found = 1
    looked.stream.work()
    assert looked.runner.asked == 2
    assert not looked.stream.due()


def test_logs_of_this_process_are_looked_at_every_half_minute_for_they_wake_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = Looked(lambda name: name == "left")
    looked.versions["left"] += 1
    assert not looked.stream.due()
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + 30)
    assert looked.stream.due(), "another process may write it now"


def test_what_waits_for_its_interval_is_due_when_that_begins() -> None:
    looked = foreign()
    looked.versions["left"] += 1
    looked.runner.is_due = False
    assert not looked.stream.due()
    looked.stream.work()
    assert looked.runner.asked == 0
    looked.runner.is_due = True
    assert looked.stream.due()


@pytest.mark.parametrize("why", ["it reads logs in one order", "its own log has to promise"])
def test_a_promise_is_due_for_a_node_that_needs_it_and_others_do_not_look_for_it(why: str) -> None:
    looked, own = foreign(), Looked(lambda name: True)
    looked.promises["left"] += 1
    assert not looked.stream.due()
    assert looked.looked_for_promises == []
    for each in (looked, own):
        each.runner.node.reads_together = why == "it reads logs in one order"
        each.stream.is_ordered = not each.runner.node.reads_together
    assert looked.stream.due()
    looked.stream.work()
    assert not looked.stream.due(), "while nothing is promised there is nothing new"
    looked.promises["left"] += 1
    assert looked.stream.due()
    assert not own.stream.due(), "promises of this process's logs wake it"
    assert own.looked_for_promises == []


def test_state_that_nobody_reads_any_more_is_dropped_by_the_next_look() -> None:
    looked = foreign()
    looked.runner.unread = 7
    assert looked.stream.due()
    looked.stream.work()
    assert looked.runner.cleared == 7
    assert not looked.stream.due()


def test_a_fold_into_the_table_is_due_in_its_time() -> None:
    looked = foreign()
    looked.runner.unfolded = 2
    looked.stream._upkeep.fold_at = math.inf
    assert not looked.stream.due()
    looked.stream._upkeep.fold_at = 0.0
    assert looked.stream.due()


def test_a_node_that_has_caught_up_packs_its_state_at_once() -> None:
    looked = foreign()
    looked.runner.is_unpacked, looked.runner.found = True, 9
    looked.stream.paused = False
    looked.stream.work()
    looked.stream._upkeep.end()
    assert looked.runner.packed == [True]
    assert looked.runner.found < 0, "its logs were read to their end"


def test_work_without_a_stream_packs_as_it_goes() -> None:
    """As of rebuilds: fifty increments would leave fifty runs, each of which every further one reads."""
    runner = NodeRunner.__new__(NodeRunner)
    left, packed = [True, True, False], []
    runner.advance = lambda: left.pop(0)  # type: ignore[method-assign]
    runner.is_packing_due = lambda *, at_rest=False: len(left) == 1  # type: ignore[method-assign]
    runner.pack = lambda *, whole=False, at_rest=False: packed.append(at_rest)  # type: ignore[method-assign]
    while runner.advance_packed():
        pass
    assert packed == [False]


def test_while_it_works_a_node_packs_when_there_are_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = foreign()
    looked.runner.is_unpacked = True
    looked.runner.progress.batch = 20
    looked.stream._upkeep.after_micro_batch(cast("Any", looked.runner))
    looked.stream._upkeep.end()
    assert looked.runner.packed == [False]
    looked.runner.is_unpacked, looked.runner.progress.batch = True, 21
    looked.stream._upkeep.after_micro_batch(cast("Any", looked.runner))
    looked.stream._upkeep.end()
    assert looked.runner.packed == [False], "runs are counted every ten micro-batches"


def test_upkeep_that_failed_ends_the_node_at_the_next_look() -> None:
    looked = foreign()
    looked.stream._upkeep.error = OSError("the disk was away")
    assert looked.stream.due()
    with pytest.raises(OSError, match="the disk was away"):
        looked.stream.work()


def test_a_rebuild_that_is_behind_the_tables_is_not_swapped_in_and_tried_again() -> None:
    """A node that it reads is rebuilt, too, and has not come so far yet."""
    looked, swapped = foreign(), []
    rebuild = SimpleNamespace(
        advance=lambda: False, is_behind=True, swap=lambda: swapped.append(1), close=lambda: None
    )
    looked.stream._rebuild = cast("Any", rebuild)
    assert looked.stream.work() == 0
    assert (looked.stream._rebuild, swapped, looked.runner.asked) == (rebuild, [], 0)
    assert looked.stream.due()
