"""The operator as of the log: which rows it takes, and its steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.description import Lookup
from headrace.description.feeds import RECORDS, VERSIONS
from headrace.description.join import INNER
from headrace.description.table import TIMESTAMP
from headrace.fold.contract import Clock, Step
from headrace.fold.kernel import Feeds, Kernel, OpenState
from headrace.fold.lookups.answers import Answers
from headrace.fold.lookups.count_fates import CountFates
from headrace.fold.lookups.release_records import WAITING, Frontier, ReleaseRecords, open_records
from headrace.fold.lookups.sides import Sides
from headrace.operators.lookups.fold.find_in_log import FindInLog


@dataclass(frozen=True)
class LookupInLog(Kernel):
    """Each record with the row that the table had at the record's place in the log (L21)."""

    sides: Sides
    inner: bool
    by_timestamp: bool
    shared: bool  # whether the stream and the table read one topic
    revised_at_commit_end: tuple[str, ...] = ()  # see `Lookup.revised_at_commit_end`
    complete: tuple[str, ...] = ()  # topics that have to be complete before any record is looked up

    @classmethod
    def of(cls, node: Lookup, records: pa.Schema, versions: pa.Schema) -> LookupInLog:
        """The operator of a node. In: the schemas of the rows of the stream's topics and of the table's."""
        return cls(
            Sides.of(node, records, versions),
            node.how == INNER,
            node.right.order_by == TIMESTAMP,
            shares_topics(node),
            node.revised_at_commit_end,
            node.waits_for,
        )

    @property
    def steps(self) -> tuple[Step, ...]:
        """Find; before it release, where a complete table is waited for; first count, where both read the same topic."""
        sides, waits = self.sides, bool(self.complete)
        answers = Answers(sides.record, sides.keys, sides.values, self.inner)
        counting = (CountFates(),) if self.shared else ()
        find = FindInLog(
            answers, sides.rows, self.by_timestamp, not (self.shared or waits), self.revised_at_commit_end
        )
        if not waits:
            return (*counting, find)
        release = ReleaseRecords(
            sides.keys, sides.record, sides.values, self.frontier, sides.rows, not self.shared
        )
        return (*counting, release, replace(find, waited=self.frontier))

    @property
    def frontier(self) -> Frontier:
        """By which records are released that wait for a complete table."""
        return Frontier(complete=self.complete, by_place=True)

    def rows(self, feeds: Feeds) -> pa.Table:
        """Both sides in one table, decided row by row (see `Sides.decide`)."""
        return self.sides.decide(feeds[RECORDS], feeds[VERSIONS])

    @property
    def open_state(self) -> OpenState | None:
        """The records that wait for a complete table."""
        return OpenState(WAITING, self.open_records) if self.complete else None

    def open_records(self, waiting: pa.Table, clock: Clock) -> pa.Table:
        """The records that wait. In: merged rows of `waiting`. Out: TOPIC, PARTITION, `records`."""
        return open_records(waiting, clock, self.frontier)


def shares_topics(node: Lookup) -> bool:
    """Whether the stream and the table read the same topic."""
    return not {topic.name for topic in node.stream.topics}.isdisjoint(
        topic.name for topic in node.right.topics
    )
