"""The operator as of the log: which rows it takes, and its steps."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.description import Lookup
from headrace.description.join import INNER
from headrace.description.table import TIMESTAMP
from headrace.fold.contract import Step
from headrace.fold.lookups.answers import Answers
from headrace.fold.lookups.count_fates import CountFates
from headrace.fold.lookups.find_in_log import FindInLog
from headrace.fold.lookups.sides import Sides


@dataclass(frozen=True)
class LookupInLog:
    """Each record with the row that the table had at the record's place in the log (L21).

    ordered  an increment takes all topics through one commit time
    """

    sides: Sides
    inner: bool
    by_timestamp: bool
    shared: bool  # whether the stream and the table read one topic
    told_after: tuple[str, ...] = ()  # see `Lookup.told_after`
    ordered = True

    @classmethod
    def of(cls, node: Lookup, records: pa.Schema, versions: pa.Schema) -> LookupInLog:
        """The operator of a node. In: the schemas of the rows of the stream's topics and of the table's."""
        return cls(
            Sides.of(node, records, versions),
            node.how == INNER,
            node.right.order_by == TIMESTAMP,
            shares_topics(node),
            node.told_after,
        )

    @property
    def steps(self) -> tuple[Step, ...]:
        """Find; before it count, where the stream and the table read the same topic."""
        answers = Answers(self.sides.record, self.sides.keys, self.sides.values, self.inner)
        find = FindInLog(answers, self.sides.rows, self.by_timestamp, not self.shared, self.told_after)
        return (CountFates(), find) if self.shared else (find,)

    def decide(self, records: pa.Table, versions: pa.Table) -> pa.Table:
        """Both sides in one table, decided row by row (see `Sides.decide`)."""
        return self.sides.decide(records, versions)


def shares_topics(node: Lookup) -> bool:
    """Whether the stream and the table read the same topic."""
    return not {topic.name for topic in node.stream.topics}.isdisjoint(
        topic.name for topic in node.right.topics
    )
