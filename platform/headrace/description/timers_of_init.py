"""The timers that a processor's `init` schedules, and the longest of their intervals by each clock."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from headrace.description.durations import Duration, duration_ms
from headrace.description.processor import STREAM, Context, Processor, ProcessorError, Timer

_KNOWN: WeakKeyDictionary[Callable[[], Processor], Mapping[str, int]] = WeakKeyDictionary()


def longest_intervals_ms(processor: Callable[[], Processor]) -> Mapping[str, int]:
    """The longest interval of the timers that `init` schedules, by clock.

    Law: an object is made and its `init` called once for each class or partial, and no group is there. If `init` raises
         here, it schedules nothing, and the node's first micro-batch tells the error.
    """
    if processor not in _KNOWN:
        _KNOWN[processor] = _scheduled(processor)
    return _KNOWN[processor]


def _scheduled(processor: Callable[[], Processor]) -> Mapping[str, int]:
    context = _InitContext()
    try:
        processor().init(context)
    except Exception:  # code of users: where the node runs it may not raise, and there its error is told
        return {}
    longest: dict[str, int] = {}
    for clock, interval_ms in context.timers.values():
        longest[clock] = max(longest.get(clock, 0), interval_ms)
    return longest


class _NoGroup:
    """Stands for a store in `init`, which may be kept and not be used."""

    def __getattr__(self, name: str) -> _NoGroup:
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise ProcessorError("There is no group in init.")


class _InitContext(Context):
    """Notes the timers that are scheduled: by name the clock and the interval."""

    def __init__(self) -> None:
        self.timers: dict[str, tuple[str, int]] = {}

    def schedule(
        self,
        interval: Duration,
        callback: Callable[[dt.datetime], None],
        *,
        clock: str = STREAM,
        name: str | None = None,
        once: bool = False,
    ) -> Timer:
        """Note a timer."""
        name = name or callback.__name__
        self.timers[name] = clock, duration_ms(interval, "schedule")
        return Timer(self, name)

    def cancel(self, name: str) -> None:
        """Forget a timer."""
        self.timers.pop(name, None)

    def store(self, name: str) -> Any:
        """Stand for a store."""
        return _NoGroup()

    window_store = session_store = global_table = store

    def forward(self, /, **columns: Any) -> None:
        """Raise: nothing is forwarded in `init`."""
        raise ProcessorError("There is no group in init.")

    @property
    def key(self) -> Mapping[str, Any]:
        """Raise: `init` stands for all groups."""
        raise ProcessorError("There is no group in init.")

    @property
    def stream_time(self) -> dt.datetime | None:
        """Raise: `init` stands for all groups."""
        raise ProcessorError("There is no group in init.")

    @property
    def wall_time(self) -> dt.datetime:
        """Raise: `init` stands for all groups."""
        raise ProcessorError("There is no group in init.")
