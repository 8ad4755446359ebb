"""Everything that user code is given: the current group, its stores and its timers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from heapq import heappop, heappush
from typing import Any, TypeVar

from headrace.description import (
    Context,
    Duration,
    Processor,
    ProcessorError,
    Timer,
    duration_ms,
    format_duration,
)
from headrace.description.epoch_time import moment
from headrace.description.processor import STREAM, WALL
from headrace.description.stores import KEY_VALUE, SESSION, WINDOW
from headrace.description.wording import a_value, listed
from headrace.fold.segments import LOWEST
from headrace.operators.processors.fold.forwarded import Cause, Forwarded
from headrace.operators.processors.fold.shape import Shape
from headrace.operators.processors.fold.state_tables import BEGIN
from headrace.operators.processors.fold.stores.stores import Entries, GroupStore, StoreOfGroup
from headrace.operators.processors.fold.stores.time_stores import GroupSessionStore, GroupWindowStore

S = TypeVar("S", bound=StoreOfGroup)


@dataclass(frozen=True)
class Scheduled:
    """A timer of a group.

    method  of the processor, by name
    due_ms  when it is due by its clock; None: it was taken back, and `init` does not schedule it again
    """

    name: str
    method: str
    clock: str
    interval_ms: int
    once: bool
    due_ms: int | None = None

    def after(self, now_ms: int) -> Scheduled:
        """The timer after a call. In: now_ms  the clock of the call; its next time lies beyond."""
        assert self.due_ms is not None
        if self.once:
            return replace(self, due_ms=None)
        since_ms = now_ms if self.due_ms == BEGIN else self.due_ms
        passed = max(now_ms - since_ms, 0) // self.interval_ms
        return replace(self, due_ms=since_ms + (passed + 1) * self.interval_ms)


@dataclass
class Group:
    """One group.

    number  of all groups that are folded
    key     its columns
    stores  by name
    timers  by name; changed: the names of those that are other ones than in the state
    before  of the timers that the current record has set those before it; None: there was none
    queue   a heap with at least each stream timer that is set: when it is due, and its name; None: not made yet
    """

    number: int
    key: Mapping[str, Any]
    stores: dict[str, Entries] = field(default_factory=dict)
    timers: dict[str, Scheduled] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    before: dict[str, Scheduled | None] = field(default_factory=dict)
    queue: list[tuple[int, str]] | None = None

    @property
    def holds(self) -> bool:
        """Whether there is an entry in a store, or a timer."""
        return any(each.values for each in self.stores.values()) or any(
            each.due_ms is not None for each in self.timers.values()
        )

    def set_timer(self, timer: Scheduled) -> None:
        """Set a timer, in place of the one of its name."""
        self.before.setdefault(timer.name, self.timers.get(timer.name))
        self._put(timer)
        self.changed.add(timer.name)

    def due(self, upto_ms: int) -> Scheduled | None:
        """The stream timer that is due first, then by name, if that is at or before a time."""
        if not self.timers:
            return None
        if self.queue is None:
            self.queue = []
            for each in [*self.timers.values()]:
                self._put(each)
        while self.queue and self.queue[0][0] <= upto_ms:
            due_ms, name = self.queue[0]
            timer = self.timers.get(name)
            if timer is not None and timer.clock == STREAM and timer.due_ms == due_ms:
                return timer
            heappop(self.queue)  # it was taken back, called, or set to another time
        return None

    def _put(self, timer: Scheduled) -> None:
        self.timers[timer.name] = timer
        if self.queue is not None and timer.clock == STREAM and timer.due_ms is not None:
            heappush(self.queue, (timer.due_ms, timer.name))

    def begin(self) -> None:
        """Changes from now on may be undone."""
        self.before.clear()
        for each in self.stores.values():
            each.before.clear()

    def undo(self) -> None:
        """Take back what was done since `begin`."""
        for each in self.stores.values():
            each.undo()
        for name, earlier in self.before.items():
            if earlier is None:
                del self.timers[name]
                self.changed.discard(name)
            else:
                self._put(earlier)
        self.before.clear()


class RunContext(Context):
    """The context of one object of a processor. The engine sets `group`, `cause` and the clocks before each call.

    clock_ms  the stream clock of the call: of a record its own, of a timer when it was due; LOWEST: it has not begun
    wall_ms   the commit time
    """

    def __init__(self, shape: Shape, forwarded: Forwarded, tables: Mapping[str, GroupStore]) -> None:
        """In: tables  that all groups read."""
        self._shape, self._forwarded, self._tables = shape, forwarded, tables
        self._stores = {
            store.name: _STORES[store.kind](store, lambda: self.clock_ms) for store in shape.stores
        }
        self.processor: Processor | None = None
        self.initial: dict[str, Scheduled] = {}  # what `init` has scheduled
        self.group: Group | None = None
        self.cause: Cause | None = None
        self.clock_ms = LOWEST
        self.wall_ms = 0

    def enter(self, group: Group) -> None:
        """Stand for a group."""
        self.group = group
        for name, store in self._stores.items():
            store.enter(group.stores.setdefault(name, Entries()))

    def expire(self, over_ms: int) -> None:
        """Remove the group's entries that end by a time of the stream clock, which no later call is before."""
        for store in self._stores.values():
            store.expire(over_ms)

    @property
    def key(self) -> Mapping[str, Any]:
        """See the base class."""
        return self._here("key").key

    @property
    def stream_time(self) -> dt.datetime | None:
        """See the base class."""
        self._here("stream_time")
        return None if self.clock_ms == LOWEST else moment(self.clock_ms)

    @property
    def wall_time(self) -> dt.datetime:
        """See the base class."""
        self._here("wall_time")
        return moment(self.wall_ms)

    def store(self, name: str) -> GroupStore:
        """See the base class."""
        return self._tables[name] if name in self._tables else self._store(name, GroupStore, "store")

    def global_table(self, name: str) -> GroupStore:
        """See the base class."""
        if name not in self._tables:
            raise ProcessorError(
                f"context.global_table: there is no global table {a_value(name)}; there are {listed(self._tables)}.",
                hint="Describe it: .process(…, stores=[hr.global_table('…', topic.table())]).",
            )
        return self._tables[name]

    def window_store(self, name: str) -> GroupWindowStore:
        """See the base class."""
        return self._store(name, GroupWindowStore, "window_store")

    def session_store(self, name: str) -> GroupSessionStore:
        """See the base class."""
        return self._store(name, GroupSessionStore, "session_store")

    def forward(self, /, **columns: Any) -> None:
        """See the base class."""
        self._here("forward")
        assert self.cause is not None
        self._forwarded.add(self.cause, columns)

    def schedule(
        self,
        interval: Duration,
        callback: Callable[[dt.datetime], None],
        *,
        clock: str = STREAM,
        name: str | None = None,
        once: bool = False,
    ) -> Timer:
        """See the base class."""
        interval_ms = _interval_ms(interval)
        method = getattr(callback, "__name__", "")
        if self.processor is None or getattr(self.processor, method, None) != callback:
            raise ProcessorError(
                "schedule: the callback is no method of the processor, and would be lost with the process.",
                hint="Write context.schedule('1 second', self.on_time) and a method on_time(self, moment).",
            )
        self._check(interval_ms, clock)
        timer = Scheduled(name or method, method, clock, interval_ms, once)
        if self.group is None:
            self.initial[timer.name] = timer
        else:
            self.start(timer)
        return Timer(self, timer.name)

    def start(self, timer: Scheduled) -> None:
        """Set a timer of the current group from the call's clock on."""
        now_ms = self.wall_ms if timer.clock == WALL else self.clock_ms
        due_ms = BEGIN if now_ms == LOWEST else now_ms + timer.interval_ms
        self._here("schedule").set_timer(replace(timer, due_ms=due_ms))

    def cancel(self, name: str) -> None:
        """See the base class."""
        if self.group is None:
            self.initial.pop(name, None)
        elif (known := self.group.timers.get(name)) is not None:
            self.group.set_timer(replace(known, due_ms=None))

    def _store(self, name: str, of: type[S], what: str) -> S:
        found = self._stores.get(name)
        if not isinstance(found, of):
            own = [each for each, store in self._stores.items() if isinstance(store, of)]
            raise ProcessorError(
                f"context.{what}: there is no {what.replace('_', ' ')} {a_value(name)}; there are {listed(own)}.",
                hint=f"Describe it: .process(…, stores=[hr.{_DESCRIBED[of]}]).",
            )
        return found

    def _here(self, what: str) -> Group:
        if self.group is None:
            raise ProcessorError(
                f"{what}: there is no group in init, which is called once for all groups.",
                hint="Use it in process, in a timer's method, or in close.",
            )
        return self.group

    def _check(self, interval_ms: int, clock: str) -> None:
        longest = {STREAM: self._shape.stream_wait_ms, WALL: self._shape.wall_wait_ms}
        if clock not in longest:
            raise ProcessorError(
                f"schedule: clock {a_value(clock)} does not exist; there are {listed([*longest])}."
            )
        if (longest[clock] or 0) < interval_ms:
            words = format_duration(interval_ms)
            raise ProcessorError(
                f"schedule: the interval {words} is longer than the node says that it waits by the {clock} clock.",
                hint=f"Describe it: .process(…, {clock}_wait='{words}'). A log that falls silent goes on as long.",
            )


_STORES = {KEY_VALUE: GroupStore, WINDOW: GroupWindowStore, SESSION: GroupSessionStore}
_DESCRIBED: Mapping[type, str] = {
    GroupStore: "value_store('…', '…')",
    GroupWindowStore: "window_store('…', '…', '…', retention='…')",
    GroupSessionStore: "session_store('…', '…', '…', retention='…')",
}


@cache
def _interval_ms(interval: Duration) -> int:
    found = duration_ms(interval, "schedule")
    if not found:
        raise ProcessorError("schedule: the interval is 0.", hint="Write for example '1 second'.")
    return found
