"""The step of a join of streams: pairs, and records that close without a partner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import (
    EVENT,
    HASH,
    KEY,
    STREAM,
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
from headrace.fold.lookups.sides import SIDE
from headrace.fold.positions import POSITION, order_of, position_columns
from headrace.fold.segments import LOWEST
from headrace.fold.values.columns import int64
from headrace.fold.window_shape import first_commits, lowest
from headrace.operators.stream_joins.fold.both_sides import LEFT, RIGHT, BothSides, lowest_ms
from headrace.operators.stream_joins.fold.find_pairs import Candidates, find_pairs
from headrace.operators.stream_joins.fold.result_rows import rows_alone, rows_of_pairs

RECORDS, MATCHED = "records", "matched"


@dataclass(frozen=True)
class JoinRecords(Step):
    """Join the records of both sides: steps 3 to 5 of the package.

    In:    rows as `BothSides.decide` gives them
    State: `records`, one row per record that is open, written once: SIDE, its columns, stream time, event time, position
           `matched`, if any leave alone: marks, one row per open record that has a partner: event time, position
    Out:   `results` as `rows_of_pairs` gives them, one row per pair and per record that leaves alone
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
        """See the class. A record that finds a second partner is marked a second time; merged, it has one mark."""
        sides, rows = self.sides, self.sides.rows
        key, hashed = pa.field(KEY, pa.binary()), pa.field(HASH, pa.int64())
        users = (*sides.on, *sides.left, *sides.right)
        place = [rows.field(name) for name in (EVENT, *POSITION)]
        own = [rows.field(name) for name in (SIDE, *users, STREAM, *sides.causes)]
        records = pa.schema([key, hashed, *own, *place])
        tables = {RECORDS: StateTable(records, (EVENT, HASH), as_they_are, EVENT, sides.is_closed)}
        if sides.alone:
            side = [rows.field(SIDE)] if sides.shared else []
            marks = pa.schema([hashed, *side, *place])
            tables[MATCHED] = StateTable(marks, (EVENT, HASH), _once, EVENT, self._is_forgotten)
        return tables

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The open records near the new ones. If any leave alone, also those that close, and the marks of their times."""
        new = rows.filter(pa.array(is_kept(rows)))
        new = new.filter(pa.array(self.sides.has_key(new)))
        near, closing = None, self._closing(times) if self.sides.alone else None
        if new.num_rows:
            bounds, apart_ms = pc.min_max(new[EVENT]).as_py(), max(self.sides.before_ms, self.sides.after_ms)
            near = Needs(distinct_hashes(new), (bounds["min"] - apart_ms, bounds["max"] + apart_ms))
        if closing is None:
            return {} if near is None else {RECORDS: near}
        return {RECORDS: Needs(times=closing, either=near), MATCHED: Needs(times=closing)}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        sides, schema = self.sides, self.state[RECORDS].schema
        kept = rows.filter(pa.array(is_kept(rows)))
        known = state.get(RECORDS, self.state[RECORDS].empty()).select(schema.names)
        records = pa.concat_tables([known, kept.select(schema.names)]).combine_chunks()
        candidates = self._candidates(records, known.num_rows)
        pairs = find_pairs(candidates, sides.before_ms, sides.after_ms)
        results = [rows_of_pairs(records, pairs, candidates, sides)]
        still_open = kept.filter(pc.invert(sides.is_closed(kept, times.after)))
        changes = {RECORDS: still_open.select(schema.names).cast(schema)}
        if sides.alone:
            of_side = {LEFT: pairs.left, RIGHT: pairs.right}
            matched = np.unique(np.concatenate([of_side[side] for side in sides.alone]))
            alone = self._alone(records, candidates, matched, state.get(MATCHED), times)
            leaves_at_ms = first_commits(candidates.closes_ms[alone], times, lowest)
            results.append(rows_alone(records, alone, candidates, leaves_at_ms, sides))
            open_ones = matched[candidates.closes_ms[matched] > lowest_ms(times.after)]
            changes[MATCHED] = self._marks(records, open_ones)
        # A topic on both sides is counted before (`CountFates`).
        tally = None if sides.shared else tally_of(rows)
        return Folded(outputs={"results": pa.concat_tables(results)}, changes=changes, tally=tally)

    def _candidates(self, records: pa.Table, known: int) -> Candidates:
        return Candidates(
            known=known,
            group=group(records[KEY]).codes,
            is_left=int64(records[SIDE]) == LEFT,
            has_key=self.sides.has_key(records),
            place=order_of(position_columns(records)),
            event_ms=int64(records[EVENT]),
            stream_ms=int64(records[STREAM], LOWEST),
            closes_ms=self.sides.closes_ms(records),
        )

    def _alone(
        self,
        records: pa.Table,
        candidates: Candidates,
        matched: np.ndarray,
        marks: pa.Table | None,
        times: Times,
    ) -> np.ndarray:
        """The numbers of the records that close in this micro-batch and never had a partner."""
        before_ms, after_ms = (lowest_ms(clock) for clock in (times.before, times.after))
        is_alone = np.isin(int64(records[SIDE]), self.sides.alone)
        is_alone &= (before_ms < candidates.closes_ms) & (candidates.closes_ms <= after_ms)
        is_alone[matched] = False
        alone = np.flatnonzero(is_alone)
        if marks is None or not marks.num_rows:
            return alone
        names = [name for name in (SIDE, *POSITION) if name in marks.column_names]
        place = _places(pa.concat_tables([records.select(names).take(pa.array(alone)), marks.select(names)]))
        return np.asarray(alone[~np.isin(place[: len(alone)], place[len(alone) :])])

    def _marks(self, records: pa.Table, which: np.ndarray) -> pa.Table:
        schema = self.state[MATCHED].schema
        return records.select(schema.names).take(pa.array(which, pa.int64())).cast(schema)

    def _closing(self, times: Times) -> tuple[int, int] | None:
        """The event times of records that close in this micro-batch; None: none can."""
        before_ms, after_ms = (lowest_ms(clock) for clock in (times.before, times.after))
        if before_ms == after_ms:
            return None
        return before_ms - max(self.sides.open_ms) + 1, after_ms - min(self.sides.open_ms)

    def _is_forgotten(self, marks: pa.Table, after: Clock) -> pa.Array:
        """Which marks no record asks for. A mark may have no SIDE, so it stays as long as a record of either side does."""
        return pa.array(int64(marks[EVENT]) + max(self.sides.open_ms) <= lowest_ms(after))


def _once(marks: pa.Table) -> pa.Table:
    """One mark per record."""
    _, first = np.unique(_places(marks), return_index=True)
    return marks.take(pa.array(np.sort(first)))


def _places(rows: pa.Table) -> np.ndarray:
    """Numbers that tell records apart: by position and, where the rows have it, SIDE."""
    place = order_of(position_columns(rows))
    if SIDE not in rows.column_names:
        return place
    _, codes = np.unique(place, return_inverse=True)
    return np.asarray(codes * 2 + int64(rows[SIDE]))
