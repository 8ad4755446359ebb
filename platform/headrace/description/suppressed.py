"""Suppressed aggregates and tables: one row each time that a wait is over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.description.expressions import parse_expression
from headrace.description.node import Node
from headrace.description.running import RunningAggregate
from headrace.description.steps import Select, WithColumn
from headrace.description.suppression import UntilTimeLimit
from headrace.description.table import TIMESTAMP, Table
from headrace.description.windowed import WindowedAggregate
from headrace.description.windows import TimeWindows
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.schema import ResultColumn
    from headrace.description.steps import Step
    from headrace.description.stream import Stream
    from headrace.description.topic import Topic

Updated = RunningAggregate | WindowedAggregate | Table


@dataclass(frozen=True)
class Suppressed(Node):
    """What an aggregate or a table is worth each time that a wait is over; rows are appended and never revised.

    In:  updated  what makes the updates; its groups are the record key, for each partition is suppressed by itself
    Out: the columns of `updated`; of a deleted key of a table the values are null. One row for each wait.
    Law: a function of the log of its topic alone: per partition, record by record in the log's order.
    Source: Kafka Streams, KTableSuppressProcessorSupplier.java.
    """

    updated: Updated
    policy: UntilTimeLimit

    def __post_init__(self) -> None:
        if not isinstance(self.policy, UntilTimeLimit):
            raise DescriptionError(
                f"suppress: {a_value(self.policy)} is no policy.",
                hint="Write hr.until_time_limit('5 minutes').",
            )
        if isinstance(self.updated, Table) and self.updated.order_by == TIMESTAMP:
            raise DescriptionError(
                "suppress: a table with order_by='timestamp' has no updates in the log's order.",
                hint="Suppress topic.table(), which goes by position.",
            )
        if isinstance(self.updated, WindowedAggregate) and not isinstance(self.updated.window, TimeWindows):
            raise DescriptionError(
                "suppress: until_time_limit follows tumbling and hopping windows; others are made by the records in them.",
                hint="Write .suppress(hr.until_window_closes()), or hr.tumbling(…) or hr.hopping(…).",
            )
        _require_record_key(self.updated.stream, self.by)
        super().__post_init__()

    @property
    def by(self) -> tuple[str, ...]:
        """The group columns, or the key of the table."""
        return self.updated.key if isinstance(self.updated, Table) else self.updated.by

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topic that it reads."""
        return self.updated.topics

    @property
    def identity(self) -> tuple[str, ...]:
        """That of what is updated: to a sink, a later row replaces an earlier one."""
        return self.updated.identity

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """Those of what is updated."""
        return self.updated.result_columns

    @property
    def day_column(self) -> str:
        """A row belongs to the day of the stream time at which it left: that is past when no more can leave in it."""
        return "__emitted_at"

    @property
    def longest_wait_ms(self) -> int:
        """The limit."""
        return self.policy.limit_ms

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        return f"One row per {listed(self.identity)} and wait: its latest value, {self.policy.in_words}."

    def rules(self) -> dict[str, Any]:
        """What is updated, the limit, and a bound that makes rows leave early."""
        limit = {"limit_ms": self.policy.limit_ms, **self.policy.bound.rules()}
        return {"suppressed": self.updated.rules(), **limit}


def suppressed(updated: Updated, policy: object) -> Suppressed:
    """Suppress an aggregate or a table; its name, owners and sinks are those of the suppressed one from now on.

    Raises: DescriptionError when the policy does not fit.
    """
    kept = {
        "name": updated.name,
        "description": updated.description,
        "owners": updated.owners,
        "sinks": updated.sinks,
    }
    plain = replace(updated, name=None, description="", owners=(), sinks=())
    return Suppressed(plain, policy, **kept)  # type: ignore[arg-type]


def _require_record_key(stream: Stream, by: tuple[str, ...]) -> None:
    """Raise DescriptionError when records of one group may lie in several partitions."""
    what = "suppress: until_time_limit runs in each partition by its own stream time"
    fix = "Group by the record key: .group_by()."
    if len(stream.topics) > 1:
        names = listed(topic.name for topic in stream.topics)
        found = f"this reads {len(stream.topics)} topics, {names}"
        raise DescriptionError(f"{what}, and {found}.", hint="Suppress each by itself.")
    key = tuple(column.name for column in stream.topics[0].key_columns)
    if set(by) != set(key):
        found = f"a group by {listed(by)} can lie in several; the record key is {listed(key)}"
        raise DescriptionError(f"{what}, and {found}.", hint=fix)
    for step in stream.branches[0].steps:
        for name in _rewritten(step, key):
            raise DescriptionError(
                f"{what}, and '{name}' is no longer the record key: a step computes it.", hint=fix
            )


def _rewritten(step: Step, key: tuple[str, ...]) -> list[str]:
    """The key columns that a step computes anew; what a transform does cannot be seen."""
    if isinstance(step, WithColumn):
        made = {step.name: step.expression}
    elif isinstance(step, Select):
        made = {parse_expression(sql, "select").name: sql for sql in step.expressions}
    else:
        return []
    sources = {name: parse_expression(sql, "suppress").source for name, sql in made.items()}
    lower = {name.lower() for name in key}
    return [
        name
        for name, source in sources.items()
        if name.lower() in lower and (source or "").lower() != name.lower()
    ]
