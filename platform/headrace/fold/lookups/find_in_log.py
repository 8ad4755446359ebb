"""Each record with the row that the table had at the record's place in the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import (
    DELETED,
    EVENT,
    HASH,
    INGESTED,
    KEY,
    TOPIC,
    Clock,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
)
from headrace.fold.fates import tally_of
from headrace.fold.group_order import order_by_group
from headrace.fold.keys import distinct_hashes, group
from headrace.fold.lookups.answers import NOTHING, Answers
from headrace.fold.lookups.sides import ABSENT, RECORD, VERSION, kept_of
from headrace.fold.positions import POSITION, order_of, position_columns


@dataclass(frozen=True)
class FindInLog(Step):
    """Look up each record among the rows before it.

    In:    rows as `Sides.decide` gives them; state `rows`: the table
    Out:   `results` (see `Answers.of`), in order by SEQUENCE, TOPIC, PARTITION and OFFSET
    Law:   L21; `rows` after the fold is the table through the last commit.
    """

    answers: Answers
    rows: pa.Schema
    by_timestamp: bool
    counts: bool  # whether this step counts the fates
    told_after: tuple[str, ...] = ()  # topics whose versions stand after all records of their commit
    scope = Scope.GROUP

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The key that is looked up."""
        return self.answers.keys

    @property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """`rows`: the latest row of each key, with its place; DELETED where it deletes its key."""
        fields = [pa.field(KEY, pa.binary()), pa.field(HASH, pa.int64())]
        fields += [self.rows.field(name) for name in (*self.answers.values, EVENT, *POSITION)]
        schema = pa.schema([*fields, pa.field(DELETED, pa.bool_())])
        return {"rows": StateTable(schema, (HASH, KEY), self._merge, expired=self._expired)}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The rows of the keys that are looked up. Keys that only change need none: `merge` finds the latest row."""
        touched = kept_of(rows, RECORD, [HASH])
        return {"rows": Needs(distinct_hashes(touched))} if touched.num_rows else {}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        shared = [KEY, EVENT, *POSITION]
        records = kept_of(rows, RECORD, [*self.keys, *self.answers.record, *shared])
        known = self._known(state)
        versions = pa.concat_tables([known, kept_of(rows, VERSION, known.column_names)])
        both = pa.concat_tables([versions.select(shared), records.select(shared)])
        codes, place = group(both[KEY]).codes, order_of(position_columns(both))
        told = np.arange(both.num_rows) < versions.num_rows
        # At one place the record comes first: it does not find what it says itself.
        place = place * 2 + told
        if self.told_after:
            place = _told_after(
                place, both, told & pc.is_in(both[TOPIC], pa.array(self.told_after)).to_numpy()
            )
        in_order = self._in_order(codes[told], place[told], versions)
        sequence = order_by_group(codes, place)
        found = _highest_before(sequence, codes, in_order)
        newest = in_order[_lasts(codes[in_order])]
        gained = newest[newest >= known.num_rows]
        return Folded(
            outputs={"results": self.answers.of(records, versions, found, INGESTED)},
            changes={"rows": self._rows(versions, gained)},
            tally=tally_of(rows) if self.counts else None,
        )

    def _known(self, state: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of the state, as versions."""
        columns = [KEY, HASH, *self.answers.values, EVENT, *POSITION]
        known = state.get("rows", self.state["rows"].empty())
        return known.select([*columns, DELETED]).rename_columns([*columns, ABSENT])

    def _in_order(self, codes: np.ndarray, place: np.ndarray, versions: pa.Table) -> np.ndarray:
        """The permutation that sorts versions by key, then by the order of the table."""
        if self.by_timestamp:
            by_time = np.lexsort((place, versions[EVENT].to_numpy()))
            place = np.empty(len(by_time), np.int64)
            place[by_time] = np.arange(len(by_time))
        return order_by_group(codes, place)

    def _rows(self, versions: pa.Table, which: np.ndarray) -> pa.Table:
        """Versions as rows of the state; deleted ones without values."""
        rows = versions.take(pa.array(which))
        deleted = rows[ABSENT].to_numpy()
        values = rows.select(list(self.answers.values)).take(pa.array(np.arange(len(which)), mask=deleted))
        schema = self.state["rows"].schema
        columns = {
            name: values[name] if name in self.answers.values else rows[name] for name in schema.names[:-1]
        }
        return pa.table([*columns.values(), rows[ABSENT]], schema=schema)

    def _merge(self, rows: pa.Table) -> pa.Table:
        """The latest row of each key."""
        codes, place = group(rows[KEY]).codes, order_of(position_columns(rows))
        in_order = self._in_order(codes, place, rows)
        return rows.take(pa.array(np.sort(in_order[_lasts(codes[in_order])])))

    def _expired(self, rows: pa.Table, after: Clock) -> pa.Array:
        """Deletes; but by timestamp none, for an older record can come later."""
        never = pa.array(np.zeros(rows.num_rows, bool))
        return never if self.by_timestamp else rows[DELETED].combine_chunks()


def _told_after(place: np.ndarray, rows: pa.Table, after: np.ndarray) -> np.ndarray:
    """Numbers that compare as places do, if some rows stand after all others of their commit."""
    order = np.lexsort((place, after, rows[INGESTED].to_numpy()))
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order))
    return found


def _highest_before(sequence: np.ndarray, codes: np.ndarray, in_order: np.ndarray) -> np.ndarray:
    """For each record the version of its key that is highest in the table's order, of those before the record.

    In:  sequence  all rows, versions and then records by number, as they follow one another in each group
         in_order  the versions by group and the table's order
    Out: for each record the number of a version, or NOTHING
    """
    versions, records = len(in_order), len(codes) - len(in_order)
    found = np.full(records, NOTHING)
    if not versions:
        return found
    rank = np.full(len(codes), -1)
    rank[in_order] = np.arange(versions)
    # Versions of a later group rank higher than all of an earlier one, so the running maximum needs no segments.
    best = np.maximum.accumulate(rank[sequence])
    asks = (sequence >= versions) & (best >= 0)
    record, version = sequence[asks], in_order[best[asks]]
    same = codes[record] == codes[version]
    found[record[same] - versions] = version[same]
    return found


def _lasts(codes: np.ndarray) -> np.ndarray:
    """Marks of the last row of each group, of rows sorted by group."""
    last = np.ones(len(codes), bool)
    last[:-1] = codes[1:] != codes[:-1]
    return last
