"""Tables: the latest value of every key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeGuard

from headrace.description.durations import exact_ms, format_duration
from headrace.description.feeds import Feed
from headrace.description.fingerprint import rules_of, rules_of_steps
from headrace.description.grouping import grouping_columns, require_known_columns, why_regrouped
from headrace.description.known_types import require_condition
from headrace.description.record_metadata import refuse_metadata
from headrace.description.relation import Refinable
from headrace.description.schema import ResultColumn
from headrace.description.shape import Shape
from headrace.description.spark_steps import SPARK, each_with_need
from headrace.description.steps import Where, predicate
from headrace.description.wording import a_value, listed, require_choice
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description.stream import Stream

POSITION, TIMESTAMP = "position", "timestamp"
ORDERS = (POSITION, TIMESTAMP)


@dataclass(frozen=True)
class Table(Refinable):
    """Keeps the latest value of every key; a tombstone deletes its key.

    In:  order_by    which of two records of a key is the later one: "position", the one further on in the log;
                     "timestamp", the one with the higher event time, and of equal ones that further on in the log
         conditions  SQL; a row that fails one is not in the table, so a key whose latest row fails is deleted
         forget_deletes_ms  by timestamp, how long after its event time a delete is remembered; a record that is as far
                            behind the stream time of its partition is late. None: for ever, and none is late
    Out: columns `key`, then the other columns of the stream.
    Law: a function of the logs of its topics alone: the maximum, by that order, of each key's records.
    """

    stream: Stream
    key: tuple[str, ...]
    order_by: str = POSITION
    conditions: tuple[str, ...] = ()
    forget_deletes_ms: int | None = None

    def __post_init__(self) -> None:
        require_choice("table: order_by", self.order_by, ORDERS, "orders are")
        self._check_forgetting()
        require_known_columns(self.stream, "table")
        object.__setattr__(self, "key", grouping_columns(self.stream, self.key, "table"))
        refuse_metadata(self.conditions, "where")
        for condition in self.conditions:
            require_condition(predicate(condition, "where"), self.stream.shape, f"where({condition!r})")
        super().__post_init__()

    def where(self, expression: str) -> Table:
        """Keep the keys whose latest row makes the SQL expression true; one that no longer does is deleted.

        Source: Kafka Streams, KTable.filter. (`stream.where(…).table()` never sees a record that it refuses, so the
        row before stays: KStream.filter.)
        """
        return replace(self, conditions=(*self.conditions, expression))

    is_latest = True

    @property
    def own_updates(self) -> Table | None:
        """Its own, if it goes by position, and its key is the record key."""
        is_whole = self.no_updates is None and why_regrouped(self.stream, self.key) is None
        return self if is_whole else None

    @property
    def no_updates(self) -> tuple[str, str] | None:
        """By event time the latest record is not the last one."""
        what = "a table with order_by='timestamp' has no updates in the log's order."
        return (
            (what, "Suppress topic.table(), which goes by position.") if self.order_by == TIMESTAMP else None
        )

    @property
    def feed(self) -> Feed:
        """The rows of its stream, tombstones too, and what decides whether a row is in it."""
        read = self.columns
        return Feed(self.stream, self.conditions, deletes=self.tombstones_delete, read=read)

    def column_sources(self) -> Mapping[str, Sequence[tuple[Stream, str]]]:
        """Those of its stream."""
        return {name: [(self.stream, name)] for name in self.columns}

    @property
    def tombstones_delete(self) -> bool:
        """Whether a record without a value has the key: not if `key_by` has made it of columns of the value."""
        keys = ({column.name for column in topic.key_columns} for topic in self.topics)
        return not self.stream.new_key or all({*self.key} <= key for key in keys)

    @property
    def shape(self) -> Shape:
        """The columns, key first, and those of their types that are known."""
        return Shape((*self.key, *self.values), self.stream.shape.types)

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that are not in the key."""
        assert self.stream.columns is not None
        return tuple(name for name in self.stream.columns if name not in self.key)

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The key columns, then the values."""
        return (
            *(self.shape.result_column(name, "Part of the key.") for name in self.key),
            *(self.shape.result_column(name, "Of the latest record of the key.") for name in self.values),
        )

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        latest = "its highest timestamp" if self.order_by == TIMESTAMP else "its latest record"
        forgets = (
            f"; deletes are forgotten after {format_duration(self.forget_deletes_ms)}"
            if self.forget_deletes_ms
            else ""
        )
        return f"One row per {listed(self.key)}, as of {latest}{forgets}."

    @property
    def conditions_with_need(self) -> Iterator[tuple[Where, bool]]:
        """The conditions, and whether only Spark computes each."""
        return each_with_need(map(Where, self.conditions), self.stream.shape)

    @property
    def work(self) -> Sequence[tuple[str, bool]]:
        """The order and the conditions."""
        latest = (f"latest row by {listed(self.key)}, by {self.order_by}", False)
        return (latest, *((f"where {step.expression}", need) for step, need in self.conditions_with_need))

    def rules(self) -> dict[str, Any]:
        """Stream, key, order and conditions."""
        return rules_of(self.stream, self.columns) | {
            "table": True,
            "key": self.key,
            "order_by": self.order_by,
            "conditions": [
                rules if SPARK in rules else rules["expression"]
                for rules in rules_of_steps(self.conditions_with_need)
            ],
            **({} if self.forget_deletes_ms is None else {"forget_deletes_ms": self.forget_deletes_ms}),
        }

    def _check_forgetting(self) -> None:
        forget_ms = self.forget_deletes_ms
        if forget_ms is None:
            return
        if exact_ms(forget_ms, "forget_deletes_after") != forget_ms or not forget_ms:
            raise DescriptionError(
                f"table: deletes cannot be forgotten after {a_value(forget_ms)} ms.",
                hint="Write for example forget_deletes_after='7 days'.",
            )
        if self.order_by != TIMESTAMP:
            raise DescriptionError(
                "table: forget_deletes_after is for order_by='timestamp'; by position a delete is forgotten once all topics "
                "have been read beyond it.",
                hint="Leave it out, or write order_by='timestamp'.",
            )


def is_latest(value: object) -> TypeGuard[Table]:
    """Whether something is the table of the latest records of a stream, with no step after it."""
    return getattr(type(value), "is_latest", False) is True
