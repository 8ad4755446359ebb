"""A processor's parts, as tasks need them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.description import Column, Processed
from headrace.description.epoch_time import milliseconds
from headrace.description.processed import SET_APART, Makes
from headrace.description.processor_order import TIME
from headrace.description.stores import KEY_VALUE
from headrace.description.stores import TIMES as TIMES_OF
from headrace.fold.contract import CAUSE, PARTITION, TOPIC

AsFields = Callable[[Iterable[Column]], list[pa.Field]]


@dataclass(frozen=True)
class StoreShape:
    """The columns of a store's keys and values; its kind, and how long entries are there (see `description.Store`)."""

    name: str
    key: tuple[pa.Field, ...]
    value: tuple[pa.Field, ...]
    kind: str
    lives_ms: int | None

    @property
    def times(self) -> int:
        """How many columns of a key are times: the last ones."""
        return len(TIMES_OF[self.kind])

    @property
    def has_ttl(self) -> bool:
        """Whether the end of an entry depends on when it was put."""
        return self.lives_ms is not None and self.kind == KEY_VALUE

    def end_of(self, key: tuple[Any, ...]) -> int:
        """When the entry of a window or a session ends by the stream clock."""
        assert self.lives_ms is not None
        last: dt.datetime = key[-1]
        return milliseconds(last) + self.lives_ms


@dataclass(frozen=True)
class Shape:
    """A processor.

    node            its name, for errors
    make            makes an object of the user's class
    called          what that class, or the user's function, is called
    vectorised      whether it takes tables of records
    columns         of a record
    by              columns of the rows that make a group: the user's, or topic and partition
    group           the columns of a group, as users call them
    topics          of the stream: whose clocks are the group's, if that of its own partition is not
    read            all topics that an increment reads: those of global tables, too
    output          the columns of its rows
    outputs         of several outputs their columns by name; empty: there is one alone
    stream_wait_ms  the longest interval of timers by the stream clock; None: there are none
    wall_wait_ms    the same by the wall clock
    closes          whether it has a `close`
    sets_apart      whether a record for which it raises is a dead letter; else it stops the node
    attempts        how often a record is tried before
    waiting         the schema of the rows, if records may wait; None: none does
    in_time         whether they come in the order of time; else in the log's
    grace_ms        in the order of time, how long a record may come after those that it belongs before
    complete        topics that have to be complete before any record is processed
    causes          whether its rows have CAUSE
    """

    node: str
    make: Makes
    called: str
    vectorised: bool
    columns: tuple[str, ...]
    by: tuple[str, ...]
    group: tuple[pa.Field, ...]
    topics: tuple[str, ...]
    read: tuple[str, ...]
    output: tuple[pa.Field, ...]
    outputs: Mapping[str, frozenset[str]] = field(hash=False)
    stores: tuple[StoreShape, ...]
    stream_wait_ms: int | None
    wall_wait_ms: int | None
    closes: bool
    sets_apart: bool
    attempts: int
    waiting: pa.Schema | None
    in_time: bool
    grace_ms: int = 0
    complete: tuple[str, ...] = ()
    causes: bool = False

    @classmethod
    def of(cls, node: Processed, inputs: pa.Schema, fields: AsFields) -> Shape:
        """The shape of a node. In: the schema of its rows; what makes Arrow's fields of declared columns."""
        by = node.by or (TOPIC, PARTITION)
        group = [inputs.field(own).with_name(name) for own, name in zip(by, node.group_names, strict=True)]
        return cls(
            node.name or "",
            node.processor,
            node.processor_name,
            node.is_vectorised,
            tuple(node.stream.columns or ()),
            by,
            tuple(group),
            tuple(topic.name for topic in node.stream.topics),
            tuple(topic.name for topic in node.topics),
            tuple(fields(node.output_columns)),
            {name: frozenset(each.name for each in of) for name, of in node.outputs.items()},
            tuple(
                StoreShape(
                    store.name,
                    tuple(fields(store.key)),
                    tuple(fields(store.value)),
                    store.kind,
                    store.lives_ms,
                )
                for store in node.stores
            ),
            node.stream_wait_ms,
            node.wall_wait_ms,
            node.closes,
            node.on_error == SET_APART,
            node.attempts,
            inputs if node.order == TIME or node.waits_for else None,
            node.order == TIME,
            node.grace_ms,
            node.waits_for,
            CAUSE in inputs.names,
        )

    @property
    def by_partition(self) -> bool:
        """Whether a group is a partition."""
        return self.by == (TOPIC, PARTITION)

    @property
    def has_timers(self) -> bool:
        """Whether it may schedule anything."""
        return self.stream_wait_ms is not None or self.wall_wait_ms is not None
