"""Each record with the row that the table had at the record's place in the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.changes.ordering import ranks
from headrace.fold.contract import (
    CAUSE,
    DELETED,
    EVENT,
    FATE,
    HASH,
    INGESTED,
    KEY,
    STREAM,
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
from headrace.fold.lookups.answers import NOTHING, SEQUENCE, Answers
from headrace.fold.lookups.latest import (
    deletes_to_forget,
    highest_so_far,
    in_table_order,
    last_of_groups,
    latest_rows,
)
from headrace.fold.lookups.release_records import RELEASED, RELEASED_AT, Frontier
from headrace.fold.lookups.sides import ABSENT, RECORD, SIDE, VERSION, kept_of
from headrace.fold.positions import POSITION, order_of, position_columns
from headrace.fold.values.columns import int64, moments


@dataclass(frozen=True)
class FindInLog(Step):
    """Look up each record among the rows before it.

    In:    rows as `Sides.decide` gives them, or as `ReleaseRecords` does; state `rows`: the table
    Out:   `results` (see `Answers.of`), in order by SEQUENCE, TOPIC, PARTITION and OFFSET; of records that had to wait with
           `__released_at`, in order by SEQUENCE, `__ingested_at`, TOPIC, PARTITION and OFFSET
    Law:   L21; `rows` after the fold is the table through the last commit.
    """

    answers: Answers
    rows: pa.Schema
    by_timestamp: bool
    counts: bool  # whether this step counts the fates
    # Topics whose versions stand after all records of their commit.
    revised_at_commit_end: tuple[str, ...] = ()
    waited: Frontier | None = (
        None  # by which `ReleaseRecords` has released the records; None: it stands not before this
    )
    scope = Scope.GROUP

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The key that is looked up."""
        return self.answers.keys if self.waited is None else ()

    @property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """`rows`: the latest row of each key, with its place; DELETED where it deletes its key."""
        fields = [pa.field(KEY, pa.binary()), pa.field(HASH, pa.int64())]
        fields += [self.rows.field(name) for name in (*self.answers.values, EVENT, *POSITION)]
        schema = pa.schema([*fields, pa.field(DELETED, pa.bool_())])
        return {"rows": StateTable(schema, (HASH, KEY), self._merge, expired=self._expired)}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The rows of the keys that are looked up. Keys that only change need none: `merge` finds the latest row."""
        touched = _side(rows, RECORD, [HASH])
        return {"rows": Needs(distinct_hashes(touched))} if touched.num_rows else {}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        shared = [KEY, EVENT, *POSITION]
        final = INGESTED if self.waited is None else RELEASED
        causes = [CAUSE] if CAUSE in rows.column_names else []
        asked = dict.fromkeys([*self.answers.keys, *self.answers.record, *shared, STREAM, final, *causes])
        records, known = _side(rows, RECORD, [*asked]), self._known(state)
        versions = pa.concat_tables([known, _side(rows, VERSION, known.column_names)])
        both = pa.concat_tables([versions.select(shared), records.select(shared)])
        codes, place = group(both[KEY]).codes, order_of(position_columns(both))
        told = np.arange(both.num_rows) < versions.num_rows
        # At one place the record comes first: it does not find what it says itself.
        place = place * 2 + told
        event_ms = versions[EVENT].to_numpy()
        in_order = in_table_order(codes[told], place[told], event_ms, by_timestamp=self.by_timestamp)
        if self.revised_at_commit_end or self.waited is not None:
            place = self._whole_commits_first(place, both, told, records[final].to_numpy(), times)
        sequence = order_by_group(codes, place)
        found = _highest_before(sequence, codes, in_order)
        newest = in_order[last_of_groups(codes[in_order])]
        gained = newest[newest >= known.num_rows]
        results = self.answers.of(records, versions, found, final)
        if self.waited is not None:
            results = results.append_column(RELEASED_AT, moments(int64(results[SEQUENCE])))
        return Folded(
            outputs={"results": results},
            changes={"rows": self._rows(versions, gained)},
            tally=tally_of(rows) if self.counts else None,
        )

    def _known(self, state: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of the state, as versions."""
        columns = [KEY, HASH, *self.answers.values, EVENT, *POSITION]
        known = state.get("rows", self.state["rows"].empty())
        return known.select([*columns, DELETED]).rename_columns([*columns, ABSENT])

    def _whole_commits_first(
        self, place: np.ndarray, both: pa.Table, is_version: np.ndarray, final_ms: np.ndarray, times: Times
    ) -> np.ndarray:
        """Places in which versions that follow from a whole commit stand after its rows, and last what waited for it.

        In:  is_version  which rows are versions
             final_ms  of the records the commit at which each is looked up
        Out: numbers that compare as the places do
        """
        after = (
            is_version & pc.is_in(both[TOPIC], pa.array(self.revised_at_commit_end, pa.string())).to_numpy()
        ).astype(np.int8)
        at_ms = both[INGESTED].to_numpy().copy()
        completed_ms = None if self.waited is None else self.waited.completed_ms(times)
        if completed_ms is not None:
            waited = np.flatnonzero(~is_version)[final_ms == completed_ms]
            at_ms[waited], after[waited] = completed_ms, 2
        return ranks(np.lexsort((place, after, at_ms)))

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
        return latest_rows(rows, by_timestamp=self.by_timestamp)

    def _expired(self, rows: pa.Table, after: Clock) -> pa.Array:
        return deletes_to_forget(rows, by_timestamp=self.by_timestamp)


def _side(rows: pa.Table, side: int, columns: Sequence[str]) -> pa.Table:
    """Some columns of the rows of one side that are kept; after `ReleaseRecords` there are no others."""
    if FATE in rows.column_names:
        return kept_of(rows, side, [*columns])
    return rows.filter(pc.equal(rows[SIDE], side)).select([*columns])


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
    best = highest_so_far(sequence, in_order, len(codes))
    asks = (sequence >= versions) & (best >= 0)
    record, version = sequence[asks], in_order[best[asks]]
    same = codes[record] == codes[version]
    found[record[same] - versions] = version[same]
    return found
