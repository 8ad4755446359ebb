"""The step of a join of streams: pairs, and records that close without a partner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import (
    CAUSE,
    CLOCK,
    EVENT,
    HASH,
    INGESTED,
    KEY,
    OFFSET,
    PARTITION,
    STREAM,
    TOPIC,
    Clock,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
    as_they_are,
)
from headrace.fold.fates import is_kept, tally_of
from headrace.fold.keys import distinct_hashes, group
from headrace.fold.positions import POSITION, order_of, position_columns
from headrace.fold.segments import LOWEST
from headrace.fold.values.columns import int64, moments
from headrace.operators.stream_joins.fold.both_sides import LEFT, RIGHT, SIDE, BothSides, taken, values
from headrace.operators.stream_joins.fold.find_pairs import Candidates, Pairs, find_pairs

RELEASED_AT, TIMESTAMP, SEQUENCE = "__released_at", "__timestamp", "__sequence"
LATER = (TOPIC, PARTITION, OFFSET)  # of a row: the record that completed it
PARTNER = ("__partner_topic", "__partner_partition", "__partner_offset")  # the earlier record of a pair
PARTNER_CAUSE = "__partner_cause"  # and the place of its cause
RECORDS, MATCHED = "records", "matched"


@dataclass(frozen=True)
class JoinRecords(Step):
    """Join the records of both sides.

    In:    rows as `BothSides.decide` gives them; state `records`: those that are open; `matched`: which have had a partner
    Out:   `results`: the columns of the key, of the left and of the right side; LATER and PARTNER; RELEASED_AT and
           SEQUENCE (the commit at which the row is final); TIMESTAMP (the higher event time of a pair); CLOCK; SIDE of
           LATER, if a topic is on both sides; CAUSE and PARTNER_CAUSE, if a node writes a topic
    Law:   L33.
    """

    sides: BothSides
    scope = Scope.GROUP

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The key of the join."""
        return self.sides.on

    @cached_property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """`records`: one row per record that is open, written once; `matched`, if any leave alone: one per partner found."""
        sides, rows = self.sides, self.sides.rows
        key, hashed = pa.field(KEY, pa.binary()), pa.field(HASH, pa.int64())
        users = (*sides.on, *sides.left, *sides.right)
        place = [rows.field(name) for name in (EVENT, *POSITION)]
        own = [rows.field(name) for name in (SIDE, *users, STREAM, *self._causes)]
        records = pa.schema([key, hashed, *own, *place])
        found = {RECORDS: StateTable(records, (EVENT, HASH), as_they_are, EVENT, self._is_closed)}
        if sides.alone:
            side = [rows.field(SIDE)] if sides.shared else []
            marks = pa.schema([hashed, *side, *place])
            found[MATCHED] = StateTable(marks, (EVENT, HASH), _once, EVENT, self._is_forgotten)
        return found

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The records near those that come, and those that close, with their marks."""
        came = rows.filter(pa.array(is_kept(rows)))
        came = came.filter(pa.array(self.sides.has_key(came)))
        near, closing = None, self._closing(times) if self.sides.alone else None
        if came.num_rows:
            bounds, apart_ms = pc.min_max(came[EVENT]).as_py(), max(self.sides.before_ms, self.sides.after_ms)
            near = Needs(distinct_hashes(came), (bounds["min"] - apart_ms, bounds["max"] + apart_ms))
        if closing is None:
            return {} if near is None else {RECORDS: near}
        return {RECORDS: Needs(times=closing, either=near), MATCHED: Needs(times=closing)}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        names = self.state[RECORDS].schema.names
        kept = rows.filter(pa.array(is_kept(rows)))
        held = state.get(RECORDS, self.state[RECORDS].empty()).select(names)
        both = pa.concat_tables([held, kept.select(names)]).combine_chunks()
        told = self._candidates(both, held.num_rows)
        pairs = find_pairs(told, self.sides.before_ms, self.sides.after_ms)
        results = [self._paired(both, pairs, told.stream_ms)]
        changes = {RECORDS: self._still_open(kept, times)}
        if self.sides.alone:
            own = (LEFT in self.sides.alone, pairs.left), (RIGHT in self.sides.alone, pairs.right)
            matched = np.unique(np.concatenate([side for leaves, side in own if leaves]))
            results.append(self._alone(both, told, matched, state.get(MATCHED), times))
            changes[MATCHED] = self._marks(both, matched, times)
        tally = None if self.sides.shared else tally_of(rows)  # counted before
        return Folded(outputs={"results": pa.concat_tables(results)}, changes=changes, tally=tally)

    def _candidates(self, both: pa.Table, known_count: int) -> Candidates:
        event_ms = values(both, EVENT)
        return Candidates(
            earlier=known_count,
            group=group(both[KEY]).codes,
            is_left=values(both, SIDE) == LEFT,
            has_key=self.sides.has_key(both),
            place=order_of(position_columns(both)),
            event_ms=event_ms,
            stream_ms=int64(both[STREAM], LOWEST),
            closes_ms=event_ms + self.sides.open_of(both).to_numpy(),
        )

    def _paired(self, both: pa.Table, pairs: Pairs, stream_ms: np.ndarray) -> pa.Table:
        """The result rows of pairs; their clock is the later one of both records. In: the stream time of each record."""
        event_ms = values(both, EVENT)
        columns = taken(both, (*self.sides.on, *self.sides.left), pairs.left)
        columns |= taken(both, self.sides.right, pairs.right)
        columns |= taken(both, (*LATER, *self._causes), pairs.later)
        partner = taken(both, (*LATER, *self._causes), pairs.earlier)
        columns |= {name: partner[of] for name, of in self._of_partner}
        columns |= self._side(both, pairs.later)
        latest_ms = np.maximum(event_ms[pairs.left], event_ms[pairs.right])
        clock_ms = np.maximum(stream_ms[pairs.left], stream_ms[pairs.right])
        return _final(columns, (latest_ms, clock_ms), values(both, INGESTED)[pairs.later])

    def _alone(
        self,
        both: pa.Table,
        candidates: Candidates,
        matched: np.ndarray,
        marks: pa.Table | None,
        times: Times,
    ) -> pa.Table:
        """The result rows of records that close without a partner; their clock is the deadline."""
        before_ms, after_ms = (_lowest(clock) for clock in (times.before, times.after))
        alone = np.isin(values(both, SIDE), self.sides.alone)
        alone &= (before_ms < candidates.closes_ms) & (candidates.closes_ms <= after_ms)
        alone[matched] = False
        which = np.flatnonzero(alone)
        if marks is not None and marks.num_rows:
            names = [name for name in (SIDE, *POSITION) if name in marks.column_names]
            place = _places(pa.concat_tables([both.select(names).take(pa.array(which)), marks.select(names)]))
            which = which[~np.isin(place[: len(which)], place[len(which) :])]
        shown = (*self.sides.on, *self.sides.left, *self.sides.right, *LATER, *self._causes)
        columns = taken(both, shown, which)
        for name, of in self._of_partner:
            columns[name] = pa.chunked_array([pa.nulls(len(which), both.schema.field(of).type)])
        columns |= self._side(both, which)
        at_ms = self._closed_at(candidates.closes_ms[which], times)
        return _final(columns, (candidates.event_ms[which], candidates.closes_ms[which]), at_ms)

    @property
    def _causes(self) -> list[str]:
        return [CAUSE] if CAUSE in self.sides.rows.names else []

    @property
    def _of_partner(self) -> list[tuple[str, str]]:
        """The columns of a pair's earlier record: in the results, and of the record."""
        return [*zip(PARTNER, LATER, strict=True), *((PARTNER_CAUSE, name) for name in self._causes)]

    def _side(self, both: pa.Table, which: np.ndarray) -> dict[str, pa.ChunkedArray]:
        """On which side the records are that complete rows; only where one topic is on both sides."""
        return taken(both, [SIDE], which) if self.sides.shared else {}

    def _closed_at(self, closes_ms: np.ndarray, times: Times) -> np.ndarray:
        """The first commit after which the lowest stream time has reached each of these."""
        at_ms = np.array([ms for ms, _ in times.commits], np.int64)
        lowest_ms = np.array([_lowest(clock) for _, clock in times.commits], np.int64)
        return np.append(at_ms, LOWEST)[np.searchsorted(lowest_ms, closes_ms, "left")]

    def _still_open(self, kept: pa.Table, times: Times) -> pa.Table:
        """The records that came and are open after the micro-batch."""
        schema = self.state[RECORDS].schema
        is_open = ~self._closed(values(kept, EVENT) + self.sides.open_of(kept).to_numpy(), times.after)
        return kept.select(schema.names).filter(pa.array(is_open)).cast(schema)

    def _marks(self, both: pa.Table, matched: np.ndarray, times: Times) -> pa.Table:
        """The records that have found a partner and are open after the micro-batch."""
        schema = self.state[MATCHED].schema
        closes_ms = values(both, EVENT) + self.sides.open_of(both).to_numpy()
        still = matched[~self._closed(closes_ms[matched], times.after)]
        return both.select(schema.names).take(pa.array(still, pa.int64())).cast(schema)

    def _closing(self, times: Times) -> tuple[int, int] | None:
        """The event times of records that close in this micro-batch; None: none can."""
        before_ms, after_ms = (_lowest(clock) for clock in (times.before, times.after))
        if before_ms == after_ms:
            return None
        first_ms = LOWEST if before_ms == LOWEST else before_ms - max(self.sides.open_ms) + 1
        return first_ms, after_ms - min(self.sides.open_ms)

    def _closed(self, closes_ms: np.ndarray, clock: Clock) -> np.ndarray:
        closed: np.ndarray = closes_ms <= _lowest(clock)
        return closed

    def _is_closed(self, rows: pa.Table, after: Clock) -> pa.Array:
        closes_ms = values(rows, EVENT) + self.sides.open_of(rows).to_numpy()
        return pa.array(self._closed(closes_ms, after))

    def _is_forgotten(self, rows: pa.Table, after: Clock) -> pa.Array:
        """Marks that no record of either side asks for; a mark does not tell its side."""
        return pa.array(self._closed(values(rows, EVENT) + max(self.sides.open_ms), after))


def open_records(records: pa.Table, sides: BothSides, clock: Clock) -> pa.Table:
    """How many records of each partition are open.

    In:  records  merged rows of the state
    Out: TOPIC, PARTITION, `records` BIGINT
    """
    rows = records.filter(pc.greater(pc.add(records[EVENT], sides.open_of(records)), _lowest(clock)))
    if sides.shared:  # a record that is on both sides is one
        rows = rows.group_by([*POSITION]).aggregate([])
    counted = rows.group_by([TOPIC, PARTITION]).aggregate([([], "count_all")])
    return counted.rename_columns({"count_all": "records"})


def _final(
    columns: Mapping[str, pa.ChunkedArray], times_ms: tuple[np.ndarray, np.ndarray], at_ms: np.ndarray
) -> pa.Table:
    """Rows. In: event time and clock of each; the commit with which it is final."""
    event, clock = map(pa.array, times_ms)
    times = {RELEASED_AT: moments(at_ms), TIMESTAMP: event, CLOCK: clock, SEQUENCE: pa.array(at_ms)}
    return pa.table({**columns, **times})


def _lowest(clock: Clock) -> int:
    """The lowest stream time of the node; LOWEST until there is one."""
    found = clock.lowest_ms
    return LOWEST if found is None else found


def _once(rows: pa.Table) -> pa.Table:
    """One row of each position and, if they tell it, side."""
    _, first = np.unique(_places(rows), return_index=True)
    return rows.take(pa.array(np.sort(first)))


def _places(rows: pa.Table) -> np.ndarray:
    """Numbers that tell records apart by their positions and, if they tell it, sides."""
    place = order_of(position_columns(rows))
    if SIDE not in rows.column_names:
        return place
    _, codes = np.unique(place, return_inverse=True)
    found: np.ndarray = codes * 2 + values(rows, SIDE)
    return found
