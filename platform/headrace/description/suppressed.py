"""Suppressed aggregates and tables: one row each time that a wait is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.clocks import WALL, WallWait
from headrace.description.emitting import Emitting
from headrace.description.grouping import refuse_regrouping
from headrace.description.relation import apart
from headrace.description.running import RunningAggregate
from headrace.description.schema import ResultColumn
from headrace.description.suppression import UntilTimeLimit, UntilWindowCloses
from headrace.description.table import Table
from headrace.description.table_changes import KEY_DELETED, refuse_mark, table_of_changes
from headrace.description.windowed import WindowedAggregate
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description.feeds import Feed
    from headrace.description.node import Node
    from headrace.description.relation import Relation
    from headrace.description.stream import Stream

Updated = RunningAggregate | WindowedAggregate | Table


@dataclass(frozen=True)
class Suppressed(Emitting):
    """The value of an aggregate or a table each time that a wait is over; rows are appended and never revised.

    In:  updated  what makes the updates; its groups are the record key, for each partition is suppressed by itself
    Out: the columns of `updated`, and of a table `key_deleted`: of a deleted key it is true, and the values are null.
         One row for each wait.
    Law: a function of the log of its topic alone: per partition, record by record in the log's order.
    Source: Kafka Streams, KTableSuppressProcessorSupplier.java.
    """

    updated: Updated
    policy: UntilTimeLimit

    def __post_init__(self) -> None:
        if isinstance(self.policy, UntilWindowCloses):
            raise DescriptionError(
                "suppress: hr.until_window_closes() is for windows, and these rows have none.",
                hint="Write .window(hr.tumbling('5 minutes'), grace='1 minute') before .aggregate(…), or suppress by "
                "hr.until_time_limit('5 minutes').",
            )
        if not isinstance(self.policy, UntilTimeLimit):
            raise DescriptionError(
                f"suppress: {a_value(self.policy)} is no policy.",
                hint="Write hr.until_time_limit('5 minutes').",
            )
        if (why := self.updated.no_updates) is not None:
            raise DescriptionError(f"suppress: {why[0]}", hint=why[1])
        if self.updated.is_latest:
            refuse_mark(self.updated, "suppress")
        refuse_regrouping(self.updated.stream, self.by, "suppress: until_time_limit")
        super().__post_init__()

    @property
    def by(self) -> tuple[str, ...]:
        """The group columns, or the key of the table."""
        return self.updated.group

    @property
    def feeds(self) -> Mapping[str, Feed]:
        """Those of what is updated."""
        return self.updated.feeds

    @property
    def inputs(self) -> tuple[Stream | Node, ...]:
        """The aggregate or the table."""
        return (self.updated,)

    @property
    def update_source(self) -> Node:
        """The aggregate or the table."""
        return self.updated

    def column_sources(self) -> Mapping[str, Sequence[tuple[Stream, str]]]:
        """Those of what is suppressed."""
        return self.updated.column_sources()

    @property
    def suppressed_by(self) -> UntilTimeLimit:
        """As described."""
        return self.policy

    @property
    def key(self) -> tuple[str, ...]:
        """That of what is updated."""
        return self.updated.key

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """Those of what is updated; of a table also whether the key is gone."""
        if not self.updated.is_latest:
            return self.updated.result_columns
        said = "True: the key is gone, and all columns beside it are null."
        return (*self.updated.result_columns, ResultColumn(KEY_DELETED, "BOOLEAN", said))

    # A row belongs to the day at which it left, by its clock: that is past when no more can leave in it
    day_column = "__emitted_at"

    @property
    def longest_wait_ms(self) -> int:
        """The limit."""
        return 0 if self.clock == WALL else self.policy.limit_ms

    @property
    def longest_wall_wait_ms(self) -> int:
        """By the wall clock the limit."""
        return self.policy.limit_ms if self.clock == WALL else 0

    @property
    def clock(self) -> str:
        """That of the limit."""
        return self.policy.clock

    @property
    def wall_waits(self) -> tuple[WallWait, ...]:
        """By the wall clock the limit, which a person may change."""
        return (WallWait(self.policy.limit_ms, node=self.name),) if self.clock == WALL else ()

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        return f"One row per {listed(self.key)} and wait: its latest value, {self.policy.in_words}."

    @property
    def work(self) -> Sequence[tuple[str, bool]]:
        """The policy."""
        return ((f"suppress, {self.policy.in_words}", False),)

    def rules(self) -> dict[str, Any]:
        """The updated node, the limit, and a bound that makes rows leave early."""
        limit = {"limit_ms": self.policy.limit_ms, **self.policy.bound.rules()}
        if self.clock == WALL:
            limit["clock"] = WALL
        return {"suppressed": self.updated.rules(), **limit}


def suppressed(table: Relation, policy: object) -> Suppressed:
    """Suppress a table of any kind; its name, owners and sinks are those of the suppressed one from now on.

    Raises: DescriptionError when the policy does not fit, or the type of a column is known to Spark alone
    """
    plain, kept = apart(table)
    return Suppressed(_followed(plain, policy), policy, **kept)  # type: ignore[arg-type]


def _followed(table: Relation, policy: object) -> Updated:
    """The maker of the updates: the table itself if each partition has all records of its keys, else its changes."""
    if (own := table.own_updates) is not None:
        return own
    return table_of_changes(table) if isinstance(policy, UntilTimeLimit) else table  # type: ignore[return-value]
