"""Processors: a user's own operator, as a class; and what the engine hands to it.

The classes here say what a processor may do. The kernel and the oracle each have their own of `Context`, stores and timers.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.description.durations import Duration
from headrace.description.epoch_time import moment
from headrace.description.time_stores import SessionStore, WindowStore
from headrace.description.wording import listed
from headrace.errors import TerminalError

STREAM, WALL = "stream", "wall"  # the clocks of timers
HEADERS_OF_RECORD = "headers_of_record"  # a column that `Record.headers` shows
_FROZEN = "_headrace_frozen"


class ProcessorError(TerminalError):
    """A processor raised an error, or did what a processor may not do."""


class Record(Mapping[str, Any]):
    """One record: the columns of its stream by name, and where it comes from.

    topic, partition, offset  its position
    late                      in the order of time: whether its event time is before its moment
    """

    __slots__ = (
        "_event_ms",
        "_headers",
        "_ingested_ms",
        "_stream_ms",
        "_values",
        "late",
        "offset",
        "partition",
        "topic",
    )

    def __init__(
        self,
        values: Mapping[str, Any],
        position: tuple[str, int, int],
        times_ms: tuple[int, int | None, int | None],
        *,
        late: bool = False,
    ) -> None:
        """In:  times_ms  commit time, event time, and stream time of its partition through the record."""
        self._headers: Any = None
        if HEADERS_OF_RECORD in values:
            self._headers = values[HEADERS_OF_RECORD] or ()
            values = {name: value for name, value in values.items() if name != HEADERS_OF_RECORD}
        self._values = values
        self.topic, self.partition, self.offset = position
        self._ingested_ms, self._event_ms, self._stream_ms = times_ms
        self.late = late

    def __getitem__(self, column: str) -> Any:
        return self._values[column]

    if not TYPE_CHECKING:  # a type checker refuses other attributes

        def __getattr__(self, name: str) -> Any:
            """Raise an AttributeError that names the way to a column."""
            if name.startswith("_") or name not in self._values:
                there = f"The columns are {listed(self._values)}." if not name.startswith("_") else ""
                raise AttributeError(f"A record has no '{name}'. {there}".strip())
            raise AttributeError(
                f"A record has no attribute '{name}', and a column of that name: write record['{name}']."
            )

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """The record's headers: names and values, as Kafka has them. A node's rows have none.

        Raises: ProcessorError when the node does not read them
        """
        if self._headers is None:
            raise ProcessorError(
                "record.headers: the node does not read headers, because no method of the processor names them.",
                hint="Write reads_headers = True in the class, if a function outside of it reads them.",
            )
        return tuple((header["key"], header["value"]) for header in self._headers)

    @property
    def timestamp(self) -> dt.datetime | None:
        """The record's event time, in UTC."""
        return None if self._event_ms is None else moment(self._event_ms)

    @property
    def stream_time(self) -> dt.datetime | None:
        """The highest event time of the record's partition, up to and including this record; its clock, of a node's row."""
        return None if self._stream_ms is None else moment(self._stream_ms)

    @property
    def ingested_at(self) -> dt.datetime:
        """The time of the record's log commit: the wall clock, as the log recorded it."""
        return moment(self._ingested_ms)


class ReadOnlyStore(ABC):
    """Holds entries by key that can be read: a global table, or the entries of the current group.

    A key, or a value, of one column is that column's value. A key of several columns is a tuple. A value of several columns
    is a mapping by name. The columns of a global table's value are those that are not in its key.
    """

    @abstractmethod
    def get(self, *key: Any) -> Any:
        """Get the value of a key; None if there is none."""

    @abstractmethod
    def all(self) -> Iterator[tuple[Any, Any]]:
        """Give all keys and values, in the order of keys, as they are now: later changes of the store do not show."""

    @abstractmethod
    def range(self, first: Any, last: Any) -> Iterator[tuple[Any, Any]]:
        """Give keys and values from one key through another, both included: see `all`."""


class KeyValueStore(ReadOnlyStore):
    """Holds the entries of the current group, by key.

    A value store has one entry, and `get`, `put` and `delete` take no key.
    """

    @abstractmethod
    def put(self, *key_and_value: Any) -> None:
        """Set the value of a key: the key comes first, then the value. If a value has one column, None deletes the key."""

    @abstractmethod
    def delete(self, *key: Any) -> None:
        """Remove a key; nothing happens if it is not there."""

    def put_if_absent(self, *key_and_value: Any) -> Any:
        """Set the value of a key that has none. Out: the value that the key had before; None: it had none.

        Source: Kafka Streams, KeyValueStore.putIfAbsent.
        """
        before = self.get(*key_and_value[:-1])
        if before is None:
            self.put(*key_and_value)
        return before


class Context(ABC):
    """Gives a processor its stores, its clocks and its output.

    A processor gets it in `init` and keeps it as an attribute. It always stands for the current group.
    """

    @property
    @abstractmethod
    def key(self) -> Mapping[str, Any]:
        """The columns of the current group; without `group_by` its `topic` and `partition`."""

    @property
    @abstractmethod
    def stream_time(self) -> dt.datetime | None:
        """The clock of the call; None: it has not begun.

        In `process` it is the record's stream time; with order="time" the record's moment. In a stream timer's method it
        is the time at which the timer was due. Elsewhere it is the group's stream clock.
        """

    @property
    @abstractmethod
    def wall_time(self) -> dt.datetime:
        """The time of the current log commit, in UTC: the wall clock, as the log recorded it."""

    @abstractmethod
    def store(self, name: str) -> KeyValueStore:
        """Get a key-value store or a value store by its name. Raises: ProcessorError if the node has none of it.

        It gives a global table, too, whose `put` and `delete` raise. `global_table` lets a type checker refuse them.
        """

    @abstractmethod
    def window_store(self, name: str) -> WindowStore:
        """Get a window store by its name: see `store`."""

    @abstractmethod
    def session_store(self, name: str) -> SessionStore:
        """Get a session store by its name: see `store`."""

    @abstractmethod
    def global_table(self, name: str) -> ReadOnlyStore:
        """Get a table that all groups read, by its name: see `hr.global_table`. Raises: as `store`."""

    @abstractmethod
    def forward(self, /, **columns: Any) -> None:
        """Give a row of the output.

        In:     columns  all columns of the output by name; None is null
                to       the name of the output, if the node has several
        Raises: ProcessorError naming a column that is missing, unknown or of another type
        """

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

        In:  callback  a method of the processor; it gets the time at which the timer is due
             clock     "stream": event time; "wall": commit times
             name      of the timer: a group has one of each name, and scheduling it again replaces it. None: the method's
             once      whether it is called once alone
        Law: called in `init`, each group gets the timer with its first record, and never again.
        """

    @abstractmethod
    def cancel(self, name: str) -> None:
        """Cancel the timer of a name; nothing happens if there is none."""

    def commit(self) -> None:  # noqa: B027
        """Do nothing: each micro-batch commits whole. Code from Kafka Streams may go on calling it."""


class Timer:
    """Stands for a timer that was scheduled."""

    def __init__(self, context: Context, name: str) -> None:
        self._context, self.name = context, name

    def cancel(self) -> None:
        """Cancel the timer of the current group."""
        self._context.cancel(self.name)


class Frozen:
    """An object of a user's class: after its `init` no attribute can be changed."""

    closes: ClassVar[bool] = False

    @staticmethod
    def _in_words_of(node: Any) -> str | None:
        """One sentence about a node that runs it; None: the node has its own."""
        return None

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
    """The base of operators of your own over the records of a group.

    The engine calls `init` once for each object. An object stands for all groups, so `init` reads no store. After `init` no
    attribute can be changed, and lists, dicts and sets in attributes are read only. A store keeps what a group remembers.
    While the node is described, `init` is called once, too: the timers that it schedules say how long the node waits.

    reads_headers  whether the node reads the headers of records; it does, too, if a method of the class names `headers`

    Source: Kafka Streams, Processor (KIP-28, KIP-478).
    """

    reads_headers: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.closes = cls.close is not Processor.close

    def init(self, context: Context) -> None:
        """Keep the context and stores as attributes; schedule the timers that each group has from its first record on.

        Without an `init` of its own a processor has `self.context`.
        """
        self.context = context

    @abstractmethod
    def process(self, record: Record) -> None:
        """Take one record of the current group. Records come in the log's order."""

    def close(self) -> None:
        """Finish a group when the log records a drain. Called for each group that has a timer, or an entry in a store."""


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
