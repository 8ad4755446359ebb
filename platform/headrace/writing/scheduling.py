"""How logs and nodes share the cores of a session: nodes take turns, and a log commits when one of its nodes is ready.

If all of them worked at once, each would take several times as long, in many small micro-batches that cost as much as large
ones. So only as many nodes fold at once as there are cores, in the order in which they became ready. Records that arrive
meanwhile become one micro-batch of the log, just before a node folds them. If a core is spare, the log and the node work at
the same time.

A turn stands for a core. A log has no turns: the node that makes it begin lends it its own, and waits. If a log is at work
already, the nodes that wait for it need no core, so they hold no turn meanwhile; each gets the next one that is free.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOK_SECONDS = 0.1  # how often a thread that waits checks whether it should give up
TURN_SECONDS = 10.0  # after this time a turn no longer holds up the others
RECENT_SECONDS = 0.2  # after a commit: too little has arrived to be worth another one
BEGIN_SECONDS = 0.5  # from the end of a log's rest to its next micro-batch, if it finds records
REST_SECONDS = 10.0  # the longest that a log waits for its nodes, and a node for its logs


class Turns:
    """A limited number of turns at once, first come, first served.

    A turn that takes longer than `TURN_SECONDS` (its sink may be away) is no longer counted.
    """

    def __init__(self, at_once: int) -> None:
        """All turns are free."""
        self._at_once = at_once
        self._waiting: deque[object] = deque()
        self._began: dict[object, float] = {}
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, cancelled: Callable[[], bool], *, first: bool = False) -> Iterator[bool]:
        """A turn for as long as the context lasts; False if the caller gave up before its turn came.

        In: first  it is the next one, before all that wait: the caller has waited for a turn, and gave it back unused
        """
        me = object()
        with self._changed:
            if first:
                self._waiting.appendleft(me)
            else:
                self._waiting.append(me)
            while not (mine := self._is_next(me)) and not cancelled():
                self._changed.wait(LOOK_SECONDS)
            self._waiting.remove(me)
            if mine:
                self._began[me] = time.monotonic()
            self._changed.notify_all()
        try:
            yield mine
        finally:
            with self._changed:
                self._began.pop(me, None)
                self._changed.notify_all()

    @property
    def spare(self) -> bool:
        """Whether a turn is free and nobody waits for it."""
        with self._changed:
            return not self._waiting and self._free

    def _is_next(self, me: object) -> bool:
        return self._waiting[0] is me and self._free

    @property
    def _free(self) -> bool:
        since = time.monotonic() - TURN_SECONDS
        return sum(at > since for at in self._began.values()) < self._at_once


@dataclass(frozen=True)
class Coming:
    """A micro-batch of a log that is worth waiting for.

    number  see `CommitSchedule.wait_for`
    begun   True if the node that asked has made it begin; else it had begun, or another node has
    """

    number: int
    begun: bool


class CommitSchedule:
    """Decides when a log commits: after each commit it rests until a node asks for more, or all its nodes are idle."""

    def __init__(self) -> None:
        """The log has not begun."""
        self._changed = threading.Condition()
        self._at_work = self._resting = self._hurried = False
        self._finished = 0  # micro-batches
        self._restless = -1  # the micro-batch after which the log does not rest
        self._began = self._ended = self._asked = -math.inf  # by the monotonic clock

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """A micro-batch of the log."""
        with self._changed:
            self._at_work, self._began, self._asked = True, time.monotonic(), -math.inf
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._at_work, self._ended = False, time.monotonic()
                self._finished += 1
                self._changed.notify_all()

    def rest(self, cancelled: Callable[[], bool], *, hurried: bool) -> None:
        """Leave the cores to the nodes until one asks for more.

        In: hurried  Kafka holds more than one micro-batch takes: the next need not wait until a node has folded this one
        """
        until = time.monotonic() + REST_SECONDS
        with self._changed:
            self._resting, self._hurried = self._restless < self._finished, hurried
            while self._resting and time.monotonic() < until and not cancelled():
                self._changed.wait(LOOK_SECONDS)
            self._resting = False

    def go_on(self) -> None:
        """End the rest: no node has anything to do."""
        with self._changed:
            self._resting, self._restless = False, self._finished
            self._changed.notify_all()

    def ask(self, trigger_seconds: float, *, spare_core: bool) -> Coming | None:
        """A node is ready to fold; returns the micro-batch to wait for, None if there is none.

        In: spare_core  a core is free for the log while the node folds what is there
        """
        with self._changed:
            now, at_once = time.monotonic(), spare_core or self._hurried
            if self._at_work or now - self._asked < BEGIN_SECONDS:
                coming = self._finished + 1
                if at_once:
                    self._restless = coming
                return None if at_once else Coming(coming, begun=False)
            if not self._resting and at_once:
                self._restless = self._finished  # it is about to rest
            if not self._resting or (now - self._ended < RECENT_SECONDS and not at_once):
                return None
            self._resting = False
            self._changed.notify_all()
            if at_once or now - self._began < trigger_seconds:
                return None
            self._asked = now
            return Coming(self._finished + 1, begun=True)

    def wait_for(self, number: int) -> None:
        """Wait until the micro-batch of this number is done; if none begins soon, there is nothing to read."""
        with self._changed:
            self._changed.wait_for(lambda: self._at_work or self._finished >= number, BEGIN_SECONDS)
            if self._at_work:
                self._changed.wait_for(lambda: self._finished >= number, REST_SECONDS)
