"""A record as one feed of a node has it: its fate by the oracle, what it missed, and the rows that it is in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.explain.recomputation import WORK_MAX, Recomputation, place_of
from headrace.fold.fates import DUPLICATE, FILTERED, LATE, OPEN, TOMBSTONE, USED
from headrace.operators.provenance import Miss, may_take_part, miss_of, passed_before
from headrace.oracle import Log
from headrace.oracle.values import identity

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.explain.row_cause import ExplainedNode
    from headrace.oracle import Results
    from headrace.oracle.log import Row

ROWS_MAX = 5  # of a node's rows that are named, and followed into the nodes below
Values = Mapping[str, Any]


class RecordInFeed:
    """A record as one feed of a node has it."""

    def __init__(self, of: ExplainedNode, feed: str, row: Row) -> None:
        self.of, self.feed, self.row, self.place = of, feed, row, place_of(row)
        self.reason, self.missed, self.rows = row.reason, list[Miss](), list[Values]()
        self.fate = row.fate or USED
        if row.fate in (None, TOMBSTONE):
            self._decide()

    def _decide(self) -> None:
        scope = self.of.scope
        keys = scope.keys_of(self.feed, self.row)
        if keys is None:
            self.of.require_small(keyed=False)
        recomputed = Recomputation(scope, scope.log(keys), keys, {})
        results = recomputed.results()
        record = next(
            r for name, r in recomputed.records() if name == self.feed and place_of(r) == self.place
        )
        self.fate = results.fates.get(self.place, record.fate or USED)
        self.missed = self._misses(record, results)
        if self.fate in (USED, OPEN):
            self.rows = self._rows(recomputed, record, keys)
            if not record.passes:
                self.reason = "a condition of its table is false, so the table has no row of it"
        elif self.fate == DUPLICATE:
            self.reason = self._copy_of(recomputed, record, results)
        elif self.fate == FILTERED:
            self.reason = "its key has a null, which nothing is equal to"

    def _misses(self, record: Row, results: Results) -> list[Miss]:
        table = self.of.scope.table_of(self.feed)
        ends = [(start, end) for *place, start, end in results.late if tuple(place) == self.place]
        if self.fate == LATE and not ends and record.event_ms is not None:
            ends = [(record.event_ms, record.event_ms)] if not table.has_windows else []
        return [miss for ends_at in ends if (miss := miss_of(table, record, *ends_at)) is not None]

    def _rows(self, recomputed: Recomputation, record: Row, keys: pa.Table | None) -> list[Values]:
        """The rows that the record is in; none if that would cost too much to find out."""
        node = self.of.scope.node
        rows = recomputed.rows()
        if rows and may_take_part(node, rows[0], record) is not None:
            own = [row for row in rows if may_take_part(node, row, record)]
        elif sum(map(len, recomputed.log.feeds.values())) > WORK_MAX:
            return []
        else:
            by_values = {recomputed.shown(row): row for row in rows}
            without = Counter(map(recomputed.shown, recomputed.rows({self.place})))
            own = [by_values[each] for each in (Counter(map(recomputed.shown, rows)) - without).elements()]
        return [self._as_stored(row, keys) for row in own[-ROWS_MAX:]]

    def _as_stored(self, row: Values, keys: pa.Table | None) -> Values:
        """A row as the table has it: over a cut log the oracle does not know what the opening balance adds."""
        node = self.of.scope.node
        if not self.of.opening_records or not node.key:
            return {name: row.get(name) for name in node.columns}
        own = identity(row.get(name) for name in node.key)
        stored = self.of.evidence.table(self.of.scope.by, keys)
        there = (each for each in stored if identity(each[name] for name in node.key) == own)
        return next(there, {name: row.get(name) for name in node.key})

    def _copy_of(self, recomputed: Recomputation, record: Row, results: Results) -> str | None:
        earlier = [
            r
            for _, r in recomputed.records()
            if r.place < record.place and results.fates.get(place_of(r)) == USED
        ]
        first = passed_before(self.of.scope.node, record, earlier)
        return None if first is None else f"a copy of {first.topic} {first.partition}/{first.offset}"


def rows_at(of: ExplainedNode, feed: str, place: tuple[str, int, int]) -> list[Row]:
    """A record as the rows of a feed; a topic that flows in twice gives two."""
    return Log({feed: of.evidence.at(feed, *place)}).feeds[feed]
