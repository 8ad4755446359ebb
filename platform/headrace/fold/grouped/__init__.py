"""Aggregates over the rows that a table has now: what a row contributed is taken back when it changes or goes.

Law (L20): partials are sums over the rows of a group, so they form an abelian group under addition. A change takes the
partials of the row before from its group, and adds those of the row after to its group. The partials after a commit are
those of the rows that the table has after it, whatever came and went in between. A group is there while it has rows.

min, max, collect and the like are no sums. They pick rows, so the state keeps the rows of each group beside it (see
`group_members`).
Source: Kafka Streams, KGroupedTable (adder and subtractor).
"""

from headrace.fold.grouped.contributions import ByGroup
from headrace.fold.grouped.group_members import ByGroupOfRow, GroupedMembers
from headrace.fold.grouped.group_rows import GroupedRows

__all__ = ["ByGroup", "ByGroupOfRow", "GroupedMembers", "GroupedRows"]
