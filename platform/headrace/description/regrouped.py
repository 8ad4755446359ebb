"""Aggregates over the current rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.aggregate_inputs import columns_read, grouped_in_words
from headrace.description.aggregates import ARITHMETIC, RANKED, Aggregate
from headrace.description.checks import checked_aggregates
from headrace.description.grouping import grouped_columns, grouping_columns
from headrace.description.relation import Refinable, Relation, require_side
from headrace.description.schema import ResultColumn
from headrace.description.steps import WithColumn
from headrace.description.ways_on import WaysOn
from headrace.description.wording import listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Kinds that a row can be taken out of again.
OF_TABLES = ("count", *ARITHMETIC, "min", "max", "collect", *RANKED, "count_distinct", "quantiles")


@dataclass(frozen=True)
class GroupedTable(WaysOn, kind="grouped table"):
    """A table and the columns that its rows are grouped by."""

    table: Relation
    by: tuple[str, ...]

    def aggregate(self, **aggregates: Aggregate) -> TableAggregate:
        """One row per group, with a column for each aggregate over the rows that are in the table now.

        `hr.collect` gives the values in the order of the rows' keys; where `hr.max_by` and the like find rows equal, the
        one with the lowest key is the first.
        """
        table: Relation = self.table
        columns, made = columns_read(table.shape, aggregates)
        for name, expression in columns.items():
            table = table._and(WithColumn(name, expression))
        return TableAggregate(table, self.by, made)


@dataclass(frozen=True)
class TableAggregate(Refinable):
    """Aggregates over the current rows of a table: one row per group that has rows.

    The contribution of a row is taken back when it changes or goes. Null is a group. An input that is out of
    range counts as null. Where an aggregate of a stream goes by position, this one goes by the table's key.

    Out: columns `by`, then the aggregates by name.
    Law: a function of the table's rows, and so of the logs of its topics alone.
    Source: Kafka Streams, KGroupedTable (adder and subtractor).
    """

    table: Relation
    by: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]

    def __post_init__(self) -> None:
        require_side(self.table, "group_by")
        by = grouping_columns(self.table, self.by)
        object.__setattr__(self, "by", by)
        object.__setattr__(self, "aggregates", checked_aggregates(self.table.shape, self.aggregates, by))
        for name, aggregate in self.aggregates:
            if aggregate.kind not in OF_TABLES:
                said = aggregate.in_words if aggregate.own else f"{aggregate.kind}('{aggregate.column}')"
                raise DescriptionError(
                    f"aggregate: {name}={said} of a table: {_why(aggregate.kind)}",
                    hint=f"Of tables there are {listed(OF_TABLES)}.",
                )
            if aggregate.ties:
                raise DescriptionError(
                    f"aggregate: {name}=hr.top(…, ties=True) of a table: a group picks so many rows and no more.",
                    hint="Leave ties out; of a stream there are ties.",
                )
        super().__post_init__()

    @property
    def parts(self) -> Mapping[str, Relation]:
        """The table."""
        return {"rows": self.table}

    @property
    def key(self) -> tuple[str, ...]:
        """The group columns."""
        return self.by

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The group columns, then the aggregates."""
        return grouped_columns(self.table.shape, self.by, self.aggregates)

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        return f"One row per {listed(self.by)}, over the rows that the table has now."

    @property
    def work(self) -> Sequence[tuple[str, bool]]:
        """The groups and the aggregates."""
        return ((grouped_in_words(listed(self.by), self.aggregates), False),)

    def rules(self) -> dict[str, Any]:
        """The table, the groups and the aggregates."""
        return {
            "table": self.table.rules(),
            "by": self.by,
            "aggregates": [[name, aggregate.rules()] for name, aggregate in self.aggregates],
        }


def _why(kind: str) -> str:
    """Why a kind of aggregate does not exist for tables."""
    if kind in ("first", "last"):
        return "the rows of a table have keys, and no order in which they came."
    return "when a row goes, what it contributed cannot be taken back."
