"""Processors: a user's own operator, as a class; and what the engine hands to it.

The classes here say what a processor may do. The kernel and the oracle each have their own of `Context`, stores and timers.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from headrace.description.durations import Duration
from headrace.description.time_stores import SessionStore, WindowStore
from headrace.errors import TerminalError

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
STREAM, WALL = "stream", "wall"  # the clocks of timers
_FROZEN = "_headrace_frozen"


class ProcessorError(TerminalError):
    """A processor raises, or does what it may not do."""


class Record(Mapping[str, Any]):
    """One record: the columns of its stream by name, and where it comes from.

    topic, partition, offset  its position
    late                      in the order of time: whether it came after its moment
    """

    __slots__ = ("_event_ms", "_ingested_ms", "_stream_ms", "_values", "late", "offset", "partition", "topic")

    def __init__(
        self,
        values: Mapping[str, Any],
        position: tuple[str, int, int],
        times_ms: tuple[int, int | None, int | None],
        *,
        late: bool = False,
    ) -> None:
        """In: times_ms  commit time, event time, and stream time of its partition through the record."""
        self._values = values
        self.topic, self.partition, self.offset = position
        self._ingested_ms, self._event_ms, self._stream_ms = times_ms
        self.late = late

    def __getitem__(self, column: str) -> Any:
        return self._values[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def timestamp(self) -> dt.datetime | None:
        """Its event time."""
        return None if self._event_ms is None else moment(self._event_ms)

    @property
    def stream_time(self) -> dt.datetime | None:
        """The highest event time of its partition up to and including it."""
        return None if self._stream_ms is None else moment(self._stream_ms)

    @property
    def ingested_at(self) -> dt.datetime:
        """The commit time of its log commit: the wall clock, as the log recorded it."""
        return moment(self._ingested_ms)


class ReadOnlyStore(ABC):
    """Entries by key that can be read: a global table, or those of the current group.

    A key, or a value, of one column is that column's value. A key of several columns is a tuple. A value of several columns
    is a mapping by name. The columns of a global table's value are those that are not in its key.
    """

    @abstractmethod
    def get(self, *key: Any) -> Any:
        """The value of a key; None: there is none."""

    @abstractmethod
    def all(self) -> Iterator[tuple[Any, Any]]:
        """Keys and values, in the order of keys. The store may change meanwhile: what is given is as it was at the start."""

    @abstractmethod
    def range(self, first: Any, last: Any) -> Iterator[tuple[Any, Any]]:
        """The same from one key through another, both included."""


class KeyValueStore(ReadOnlyStore):
    """Entries of the current group, by key. A value store has one entry, and `get`, `put` and `delete` take no key."""

    @abstractmethod
    def put(self, *key_and_value: Any) -> None:
        """Set the value of a key; None, where a value has one column, deletes it. In: the key, then the value."""

    @abstractmethod
    def delete(self, *key: Any) -> None:
        """Remove a key; nothing happens if it is not there."""


class Context(ABC):
    """A processor gets this in `init`, and keeps as an attribute: it always stands for the current group."""

    @property
    @abstractmethod
    def key(self) -> Mapping[str, Any]:
        """The columns of the current group; without `group_by` its `topic` and `partition`."""

    @property
    @abstractmethod
    def stream_time(self) -> dt.datetime | None:
        """In `process` the record's stream time; else the stream clock of the group; None: it has none yet.

        In the order of time, in `process` the record's event time or, if it came late, the stream clock.
        """

    @property
    @abstractmethod
    def wall_time(self) -> dt.datetime:
        """The commit time of the current log commit."""

    @abstractmethod
    def store(self, name: str) -> KeyValueStore:
        """One of the key-value stores, or value stores, that the node was described with.

        Also a global table, whose `put` and `delete` raise; `global_table` lets a type checker refuse them.
        """

    @abstractmethod
    def window_store(self, name: str) -> WindowStore:
        """One of its window stores."""

    @abstractmethod
    def session_store(self, name: str) -> SessionStore:
        """One of its session stores."""

    @abstractmethod
    def global_table(self, name: str) -> ReadOnlyStore:
        """One of the tables that all groups read (see `hr.global_table`)."""

    @abstractmethod
    def forward(self, **columns: Any) -> None:
        """Give a row. In: all columns of the output by name; None is null. `to`: of several outputs which."""

    @abstractmethod
    def schedule(
        self,
        interval: Duration,
        callback: Callable[[dt.datetime], None],
        *,
        clock: str = STREAM,
        name: str | None = None,
        once: bool = False,
    ) -> Timer:
        """Call a method of the processor when a clock has moved on by `interval`, and then again and again.

        In:  callback  a method of the processor; it gets the clock's time
             clock     "stream": event time; "wall": commit times
             name      of the timer: a group has one of each name, and scheduling it again replaces it. None: the method's
             once      whether it is called once alone
        Law: called in `init`, each group gets the timer with its first record, and never again.
        """

    @abstractmethod
    def cancel(self, name: str) -> None:
        """Take back the timer of a name; nothing happens if there is none."""

    def commit(self) -> None:  # noqa: B027
        """A hint that changes nothing: each micro-batch commits whole."""


class Timer:
    """A timer that was scheduled."""

    def __init__(self, context: Context, name: str) -> None:
        self._context, self.name = context, name

    def cancel(self) -> None:
        """Take it back from the current group."""
        self._context.cancel(self.name)


class Frozen:
    """An object of a user's class: after its `init` no attribute can be changed."""

    closes: ClassVar[bool] = False

    def __setattr__(self, name: str, value: Any) -> None:
        if _FROZEN in vars(self):
            raise ProcessorError(
                f"{type(self).__name__}.{name} is set after init, but attributes are lost with the process.",
                hint=f"Keep it in a store: stores=[hr.value_store({name!r}, '… BIGINT')], and store.put(…).",
            )
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)
        super().__delattr__(name)


class Processor(Frozen, ABC):
    """A user's own operator over the records of a group.

    `init` is called once for each object, which stands for all groups; so it reads no store. After it no attribute can be
    changed, and its lists, dicts and sets are read only: what is to be remembered goes into a store.

    Source: Kafka Streams, Processor (KIP-28, KIP-478).
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.closes = cls.close is not Processor.close

    def init(self, context: Context) -> None:
        """Keep the context and stores as attributes; schedule what each group is to have from its first record on."""

    @abstractmethod
    def process(self, record: Record) -> None:
        """Take one record of the current group; they come in the log's order."""

    def close(self) -> None:
        """The log records a drain. It is called for each group that has an entry in a store, or a timer."""


def freeze(processor: Frozen) -> None:
    """Let no attribute change any more."""
    read_only: dict[type, Callable[[Any], Any]] = {
        list: tuple,
        set: frozenset,
        bytearray: bytes,
        dict: MappingProxyType,
    }
    for name, value in vars(processor).items():
        processor.__dict__[name] = read_only.get(type(value), lambda same: same)(value)
    processor.__dict__[_FROZEN] = True


def moment(ms: int) -> dt.datetime:
    """Milliseconds since 1970 as a time in UTC."""
    return EPOCH + dt.timedelta(milliseconds=ms)
