"""The operator as of event time: which rows it takes, and its steps."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.description import Lookup
from headrace.description.feeds import RECORDS, VERSIONS
from headrace.description.join import INNER
from headrace.fold.contract import Clock, Scope, Step
from headrace.fold.fates import LATE, has_fate
from headrace.fold.kernel import Feeds, Kernel, OpenState
from headrace.fold.late_view import late_by_age
from headrace.fold.lookups.answers import Answers
from headrace.fold.lookups.count_fates import CountFates
from headrace.fold.lookups.release_records import WAITING, Frontier, ReleaseRecords, open_records
from headrace.fold.lookups.sides import Sides
from headrace.operators.lookups.fold.find_in_time import FindInTime
from headrace.operators.lookups.fold.lookup_in_log import shares_topics


@dataclass(frozen=True)
class LookupInTime(Kernel):
    """Each record with the row that was valid at its event time, given when that time is past (L22)."""

    sides: Sides
    inner: bool
    shared: bool  # whether the stream and the table read one topic
    grace_ms: int = 0
    within_ms: int | None = None
    itself: bool = False  # see `Lookup.finds_earlier_of_its_own`
    complete: tuple[str, ...] = ()  # topics that have to be complete before any record is released

    @classmethod
    def of(cls, node: Lookup, records: pa.Schema, versions: pa.Schema) -> LookupInTime:
        """The operator of a node. In: the schemas of the rows of the stream's topics and of the table's."""
        return cls(
            Sides.of(node, records, versions),
            node.how == INNER,
            shares_topics(node),
            node.grace_ms,
            node.prior.within_ms if node.prior else None,
            node.finds_earlier_of_its_own,
            node.waits_for,
        )

    @property
    def steps(self) -> tuple[Step, ...]:
        """Release, then find; before them count, where the stream and the table read the same topic."""
        sides = self.sides
        answers = Answers(sides.record, sides.keys, sides.values, self.inner)
        release = ReleaseRecords(
            sides.keys, sides.record, sides.values, self.frontier, sides.rows, not self.shared
        )
        times = sides.history_ms, self.within_ms
        find = FindInTime(answers, sides.rows, self.frontier, *times, self.itself)
        return (CountFates(), release, find) if self.shared else (release, find)

    @property
    def frontier(self) -> Frontier:
        """Below which event time records are released."""
        return Frontier(self.grace_ms, self.complete)

    def rows(self, feeds: Feeds) -> pa.Table:
        """Both sides in one table, decided row by row (see `Sides.decide`)."""
        return self.sides.decide(feeds[RECORDS], feeds[VERSIONS])

    @property
    def open_state(self) -> OpenState:
        """The records that wait for their time."""
        return OpenState(WAITING, self.open_records)

    late_scope = Scope.ANYWHERE  # each row by itself

    def late(self, decided: pa.Table) -> pa.Table:
        """Records that were further behind stream time than `history` goes back, as people see them.

        Out: topic, partition, offset, timestamp, stream_time, late_by_ms (by how much)
        """
        late = decided.filter(pa.array(has_fate(decided, LATE)))
        return late_by_age(late, self.sides.history_ms or 0)

    def open_records(self, waiting: pa.Table, clock: Clock) -> pa.Table:
        """The records that wait. In: merged rows of `waiting`. Out: TOPIC, PARTITION, `records`."""
        return open_records(waiting, clock, self.frontier)
