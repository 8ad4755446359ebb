"""Running aggregates: one row per group, over all its records so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.aggregate_inputs import aggregated_feed, aggregated_sources, grouped_in_words
from headrace.description.aggregates import Aggregate
from headrace.description.checks import checked_aggregates
from headrace.description.durations import format_duration
from headrace.description.fingerprint import rules_of
from headrace.description.grouping import grouped_columns, grouping_columns, why_regrouped
from headrace.description.relation import Refinable
from headrace.description.schema import ResultColumn
from headrace.description.wording import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description.feeds import Feed
    from headrace.description.stream import Stream


@dataclass(frozen=True)
class RunningAggregate(Refinable):
    """A running aggregate: one row per group.

    Out: columns `by`, then the aggregates by name; the table holds the current totals.
    Law: a function of the logs of its topics alone; `throttle_ms` decides how often it is worked out, not what it is.
    """

    stream: Stream
    by: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]

    def __post_init__(self) -> None:
        by = grouping_columns(self.stream, self.by)
        object.__setattr__(self, "by", by)
        object.__setattr__(self, "aggregates", checked_aggregates(self.stream.shape, self.aggregates, by))
        super().__post_init__()

    @property
    def feed(self) -> Feed:
        """The rows of its stream; of their columns the groups, and what is aggregated."""
        return aggregated_feed(self.stream, self.by, self.aggregates)

    def column_sources(self) -> Mapping[str, Sequence[tuple[Stream, str]]]:
        """A group has its column, an aggregate those that it is made of."""
        return aggregated_sources(self.stream, self.by, self.aggregates)

    @property
    def key(self) -> tuple[str, ...]:
        """The group columns."""
        return self.by

    @property
    def own_updates(self) -> RunningAggregate | None:
        """Its own, if its groups are those of the record key."""
        return self if why_regrouped(self.stream, self.by) is None else None

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The group columns, then the aggregates."""
        return grouped_columns(self.stream.shape, self.by, self.aggregates)

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        throttled = f", worked out every {format_duration(self.throttle_ms)}" if self.throttle_ms else ""
        return f"One row per {', '.join(self.by)}, over all its records so far{throttled}."

    @property
    def work(self) -> Sequence[tuple[str, bool]]:
        """The groups and the aggregates."""
        return ((grouped_in_words(listed(self.by), self.aggregates), False),)

    def rules(self) -> dict[str, Any]:
        """Stream, groups and aggregates."""
        return rules_of(
            self.stream, (*self.by, *(name for _, a in self.aggregates for name in a.columns))
        ) | {
            "running": True,
            "by": self.by,
            "aggregates": [[name, aggregate.rules()] for name, aggregate in self.aggregates],
        }
