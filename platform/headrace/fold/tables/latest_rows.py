"""The latest row of each key after each commit, from records in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.table import TIMESTAMP
from headrace.fold.changes.deltas import (
    AFTER,
    BEFORE,
    INTERNAL,
    KEYS,
    SIGN,
    commits,
    delta_schema,
    picked,
    signed,
)
from headrace.fold.changes.ordering import PLACE, int64, last_of_each, order, places, ranks
from headrace.fold.contract import DELETED, EVENT, HASH, INGESTED, KEY, Clock, StateTable
from headrace.fold.fates import with_column
from headrace.fold.keys import combined, group
from headrace.fold.segments import LOWEST, before, begins, running_max
from headrace.fold.tables.decide_records import UNDATED, decide_records

if TYPE_CHECKING:
    from headrace.description import Table

_MOVED = (EVENT, *PLACE)  # of a row before, those of the record that follows it


@dataclass(frozen=True)
class LatestRows:
    """How the latest rows of a table are found and kept.

    columns       of the table
    kept          those that the state holds; of a row before, the others are null
    topics        of the table
    by_timestamp  the order of two records of a key is event time, then position; False: position
    per_commit    changes are told for each commit; False: for the micro-batch as a whole
    forget_ms     by timestamp, how long deletes are remembered after their event time; None: for ever
    """

    columns: pa.Schema
    kept: tuple[str, ...]
    topics: tuple[str, ...]
    by_timestamp: bool
    per_commit: bool = True
    forget_ms: int | None = None

    @property
    def remembers(self) -> bool:
        """Whether a later micro-batch may bring a record that one of an earlier micro-batch follows in the order.

        Within one topic positions rise from commit to commit; between two topics, and by timestamp, they need not.
        """
        return self.by_timestamp or len(self.topics) > 1

    @property
    def state(self) -> StateTable:
        """One row per key: the latest, with its place; DELETED where it deletes its key."""
        columns = [self.columns.field(name) for name in self.kept]
        internal = [field for field in INTERNAL if field.name != SIGN]
        schema = pa.schema([*columns, *KEYS, pa.field(DELETED, pa.bool_()), *internal])
        return StateTable(schema, (HASH, KEY), self.merge, expired=self.expired)

    def decide(self, rows: pa.Table, key: Sequence[str]) -> pa.Table:
        """See `decide_records`. In: key  of the table."""
        return decide_records(rows, key, self.forget_ms, by_timestamp=self.by_timestamp)

    def merge(self, rows: pa.Table) -> pa.Table:
        """The latest of the rows of each key, whichever micro-batch wrote it."""
        rows = rows.combine_chunks()
        keys = group(rows[KEY])
        return rows if len(keys) == rows.num_rows else rows.take(pa.array(self._highest(rows, keys.codes)))

    def expired(self, rows: pa.Table, after: Clock) -> pa.Array:
        """Deletes that no later record can precede.

        Law: by position those that all topics have been read beyond. By timestamp those of an event time e with
             e + forget_ms <= L. A later record r that they would beat has e(r) <= e, and by L4 s(r) >= L; so
             e(r) + forget_ms <= s(r), and it is late by its own row.
        """
        if self.by_timestamp:
            closing_ms = None if self.forget_ms is None else after.lowest_ms
            if self.forget_ms is None or closing_ms is None:
                return pa.array(np.zeros(rows.num_rows, bool))
            forgotten = rows[DELETED].to_numpy() & (int64(rows[EVENT]) + self.forget_ms <= closing_ms)
            return pa.array(forgotten)
        read_ms = min(after.upto_ms.get(topic, LOWEST) for topic in self.topics)
        beyond = pc.less_equal(rows[INGESTED], read_ms)
        found = pc.and_(rows[DELETED], beyond).combine_chunks()
        return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)

    def reduced(self, rows: pa.Table) -> pa.Table:
        """The latest record of each key in each commit; the others are not needed."""
        key = group(rows[KEY])
        if len(key) == rows.num_rows:
            return rows
        codes = combined(key.codes, commits(rows, per_commit=True)).codes if self.per_commit else key.codes
        found = self._highest(rows, codes)
        return rows if len(found) == rows.num_rows else rows.take(pa.array(np.sort(found)))

    def puts(self, rows: pa.Table) -> pa.Table:
        """Records as changes of which the row before is not known: AFTER where they hold a row, BEFORE where they delete.

        In: the columns, DELETED, and those of `deltas` but SIGN
        """
        signs = np.where(rows[DELETED].to_numpy(), BEFORE, AFTER)
        return signed(rows, signs).select(delta_schema(self.columns).names)

    def advance(self, puts: pa.Table, known: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The changes that records make.

        In:  puts   records (see `puts`)
             known  rows of the state; at least those of the same keys
        Out: the changes, and the new rows of the state
        """
        came = with_column(puts, DELETED, pc.equal(puts[SIGN], BEFORE)).drop_columns([SIGN])
        both = pa.concat_tables([known.select(self.state.schema.names), came], promote_options="default")
        both = both.combine_chunks()
        is_known = np.arange(both.num_rows) < known.num_rows
        at = np.concatenate([np.full(known.num_rows, LOWEST), commits(came, per_commit=self.per_commit)])
        return self._changes_and_rows(both, is_known, at)

    def _changes_and_rows(
        self, rows: pa.Table, is_known: np.ndarray, at: np.ndarray
    ) -> tuple[pa.Table, pa.Table]:
        key, row_of_rank = group(rows[KEY]).codes, self._order(rows)
        sorted_by_key = order(key, at)
        key, at = key[sorted_by_key], at[sorted_by_key]
        winner = row_of_rank[running_max(begins(key), ranks(row_of_rank)[sorted_by_key])]
        last = _ends(key, at)
        key, at, winner = key[last], at[last], winner[last]
        earlier = before(begins(key), winner, -1)
        deleted = np.append(rows[DELETED].to_numpy(), True)  # no row before is as good as a deleted one
        changed = ~is_known[winner] & (winner != earlier)
        gone = np.flatnonzero(changed & ~deleted[earlier])
        there = np.flatnonzero(changed & ~deleted[winner])
        now = winner[_ends(key)]
        deltas = pa.concat_tables(
            [
                signed(_caused(rows, earlier[gone], winner[gone]), np.full(len(gone), BEFORE)),
                signed(picked(rows, winner[there]), np.full(len(there), AFTER)),
            ]
        )
        gained = picked(rows, now[~is_known[now]])
        return deltas.select(delta_schema(self.columns).names), gained.select(self.state.schema.names)

    def _highest(self, rows: pa.Table, codes: np.ndarray) -> np.ndarray:
        """The number of the latest row of each group."""
        return last_of_each(codes, self._order(rows))

    def _order(self, rows: pa.Table) -> np.ndarray:
        """The permutation that sorts records from the earliest to the latest."""
        at = places(rows)
        return order(int64(rows[EVENT]), at) if self.by_timestamp else order(at)


def _caused(rows: pa.Table, which: np.ndarray, by: np.ndarray) -> pa.Table:
    """Rows by number, with time and place of the records that cause their change; an UNDATED cause leaves the time."""
    rows_before, causes = rows.take(pa.array(which)), rows.select(_MOVED).take(pa.array(by))
    dated = pc.not_equal(causes[EVENT], UNDATED)
    event = pc.if_else(dated, causes[EVENT], rows_before[EVENT])
    for name in _MOVED:
        rows_before = with_column(rows_before, name, event if name == EVENT else causes[name])
    return rows_before


def _ends(*segment: np.ndarray) -> np.ndarray:
    """The number of the last row of each segment of sorted rows."""
    if not len(segment[0]):
        return np.empty(0, np.int64)
    last = np.zeros(len(segment[0]), bool)
    last[-1] = True
    for column in segment:
        last[:-1] |= column[1:] != column[:-1]
    return np.flatnonzero(last)


def latest_rows_of(node: Table, inputs: pa.Schema, kept: Sequence[str], *, per_commit: bool) -> LatestRows:
    """How the latest rows of a node are found. In: kept  the columns that the state holds."""
    columns = pa.schema([inputs.field(name) for name in node.columns])
    topics = tuple(topic.name for topic in node.topics)
    by_timestamp, forget_ms = node.order_by == TIMESTAMP, node.forget_deletes_ms
    return LatestRows(columns, tuple(kept), topics, by_timestamp, per_commit, forget_ms)
