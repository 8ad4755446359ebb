"""The kernel of a join of streams: which rows it takes, its steps, and its open and late records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import StreamJoin, feeds
from headrace.fold.contract import EVENT, PARTITION, ROW_COLUMNS, TOPIC, Clock, Scope, Step
from headrace.fold.fates import LATE, has_fate
from headrace.fold.kernel import Feeds, Kernel, OpenState
from headrace.fold.late_view import late_view
from headrace.fold.lookups.count_fates import CountFates, once
from headrace.fold.lookups.sides import SIDE
from headrace.fold.positions import POSITION
from headrace.fold.values.columns import int64
from headrace.operators.stream_joins.fold.both_sides import LEFT, BothSides
from headrace.operators.stream_joins.fold.join_records import RECORDS, JoinRecords


@dataclass(frozen=True)
class StreamJoins(Kernel):
    """Pairs of records of two streams, and records without a partner (L33)."""

    sides: BothSides

    @classmethod
    def of(cls, node: StreamJoin, left: pa.Schema, right: pa.Schema) -> StreamJoins:
        """The kernel of a node. In: the schemas of the rows of both feeds."""
        return cls(BothSides.of(node, left, right))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The join. If a topic is on both sides, a step that counts its records once comes first."""
        joins = JoinRecords(self.sides)
        return (CountFates(), joins) if self.sides.shared else (joins,)

    def rows(self, of: Feeds) -> pa.Table:
        """Both sides in one table, decided row by row (see `BothSides.decide`)."""
        return self.sides.decide(of[feeds.LEFT], of[feeds.RIGHT])

    def decided(self, of: Feeds) -> pa.Table:
        """The rows of both sides. A row that is on both is there once, with the fate that counts (see `once`)."""
        rows = self.rows(of)
        return (once(rows) if self.sides.shared else rows).select(ROW_COLUMNS.names)

    @property
    def open_state(self) -> OpenState:
        """The records that may still find a partner."""
        return OpenState(RECORDS, self.open_records)

    late_scope = Scope.ANYWHERE  # each row by itself

    def late(self, decided: pa.Table) -> pa.Table:
        """Late records with the event times of the partners that each might have had (see `late_view`)."""
        late = decided.filter(pa.array(has_fate(decided, LATE)))
        event_ms, sides = int64(late[EVENT]), self.sides
        is_left = int64(late[SIDE]) == LEFT
        earliest_ms = event_ms - np.where(is_left, sides.before_ms, sides.after_ms)
        latest_ms = event_ms + np.where(is_left, sides.after_ms, sides.before_ms)
        grace_ms = sides.open_ms[LEFT] - sides.after_ms
        return late_view(late, sides.on, earliest_ms, latest_ms, final_ms=grace_ms)

    def open_records(self, records: pa.Table, clock: Clock) -> pa.Table:
        """How many records of each partition are open. In: merged rows of `records`. Out: TOPIC, PARTITION, `records`."""
        rows = records.filter(pc.invert(self.sides.is_closed(records, clock)))
        if self.sides.shared:  # a record that is on both sides is one
            rows = rows.group_by([*POSITION]).aggregate([])
        counted = rows.group_by([TOPIC, PARTITION]).aggregate([([], "count_all")])
        return counted.rename_columns({"count_all": "records"})
