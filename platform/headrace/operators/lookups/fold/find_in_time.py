"""The second step as of event time: each record that is released with the version that was valid at its event time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.changes.ordering import ranks
from headrace.fold.contract import (
    CLOCK,
    EVENT,
    HASH,
    INGESTED,
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
from headrace.fold.fates import with_column
from headrace.fold.group_order import order_by_group
from headrace.fold.keys import distinct_hashes, group
from headrace.fold.lookups.answers import NOTHING, SEQUENCE, TIMESTAMP, Answers
from headrace.fold.lookups.release_records import DUE, RELEASED, RELEASED_AT, Frontier
from headrace.fold.lookups.sides import ABSENT, RECORD, SIDE, VERSION, causes_of
from headrace.fold.positions import POSITION, order_of_causes
from headrace.fold.segments import LOWEST
from headrace.fold.values.columns import int64, moments

VISIBLE = "__visible_ms"
NONE = -1


@dataclass(frozen=True)
class FindInTime(Step):
    """Look up each record that is released among the versions of its key.

    In:    rows of `ReleaseRecords`; state `versions`
    Out:   `results` (see `Answers.of`; CLOCK is the deadline) with `__released_at`, in order by SEQUENCE (the release),
           TIMESTAMP, `__ingested_at`, TOPIC, PARTITION and OFFSET
    Law:   L22; a record finds the versions whose stream time is not beyond its DUE. Those through the commit with which the
           table became complete are there for all.
    """

    answers: Answers
    rows: pa.Schema
    frontier: Frontier
    history_ms: int | None
    within_ms: int | None = None  # how much older than a record a version may be
    itself: bool = False  # whether of equal event times only versions further back in the log are earlier
    scope = Scope.GROUP  # by the KEY that the rows have

    @property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """`versions`: every row that the table had, deletes too; each is written once."""
        fields = [pa.field(KEY, pa.binary()), pa.field(HASH, pa.int64())]
        fields += [
            self.rows.field(name)
            for name in (*self.answers.values, ABSENT, EVENT, *POSITION, *causes_of(self.rows))
        ]
        fields.append(pa.field(VISIBLE, pa.int64()))
        return {"versions": StateTable(pa.schema(fields), (HASH, EVENT), as_they_are, EVENT, self._expired)}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The versions of the keys that are looked up, up to the latest record."""
        records = rows.filter(pc.equal(rows[SIDE], RECORD))
        if not records.num_rows:
            return {}
        bounds = pc.min_max(records[EVENT]).as_py()
        first_ms = LOWEST if self.within_ms is None else bounds["min"] - self.within_ms
        return {"versions": Needs(distinct_hashes(records), (first_ms, bounds["max"]))}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        schema = self.state["versions"].schema
        records = rows.filter(pc.equal(rows[SIDE], RECORD))
        came = self._dated(rows.filter(pc.equal(rows[SIDE], VERSION)), times).select(schema.names)
        known = state.get("versions", self.state["versions"].empty()).select(schema.names)
        versions = pa.concat_tables([known, came])
        found = self._not_too_old(_valid(records, versions, itself=self.itself), records, versions)
        results = self.answers.of(records, versions, found, RELEASED)
        results = with_column(results, CLOCK, self._clocks(results))
        results = results.append_column(RELEASED_AT, moments(int64(results[SEQUENCE])))
        return Folded(outputs={"results": results}, changes={"versions": came.cast(schema)})

    def _dated(self, versions: pa.Table, times: Times) -> pa.Table:
        """Versions with the stream time from which on records find them."""
        visible_ms = int64(versions[STREAM], LOWEST)
        if not times.before.complete.issuperset(self.frontier.complete):
            completed_ms = self.frontier.completed_ms(times)
            first = completed_ms is None or int64(versions[INGESTED]) <= completed_ms
            visible_ms = np.where(first, LOWEST, visible_ms)
        return versions.append_column(VISIBLE, pa.array(visible_ms))

    def _clocks(self, results: pa.Table) -> pa.Array:
        """The clock of each row: the deadline at which its record was released, or the record's own, if that is later."""
        deadline = int64(results[TIMESTAMP]) + self.frontier.grace_ms
        return pa.array(np.maximum(deadline, int64(results[CLOCK], null=LOWEST)))

    def _not_too_old(self, version: np.ndarray, records: pa.Table, versions: pa.Table) -> np.ndarray:
        """The versions that records find, without those that are too much older."""
        there = np.flatnonzero(version != NOTHING)
        if self.within_ms is None or not len(there):
            return version
        age_ms = records[EVENT].to_numpy()[there] - versions[EVENT].to_numpy()[version[there]]
        version[there[age_ms > self.within_ms]] = NOTHING
        return version

    def _expired(self, rows: pa.Table, after: Clock) -> pa.Array:
        """Versions that are followed by another of their key, both at or before every record still to be released.

        Also those that are too old for every such record. Such a record is due at or beyond the frontier.
        """
        needed_ms = self._needed_ms(after)
        gone = np.zeros(rows.num_rows, bool)
        if needed_ms is None or not rows.num_rows:
            return pa.array(gone)
        # With `itself` a record of that very time may lie between two versions of it.
        is_seen = rows[VISIBLE].to_numpy() <= self.frontier.at(after)
        old = np.flatnonzero(is_seen & (rows[EVENT].to_numpy() <= needed_ms - self.itself))
        codes = group(rows[KEY]).codes[old]
        order = _by_time(rows.take(pa.array(old)), codes)
        followed = codes[order][:-1] == codes[order][1:]
        gone[old[order[:-1][followed]]] = True
        if self.within_ms is not None:
            gone |= rows[EVENT].to_numpy() < needed_ms - self.within_ms
        return pa.array(gone)

    def _needed_ms(self, after: Clock) -> int | None:
        """No record that is still to be released has an event time below it; None: any may.

        Such a record has a stream time at or beyond the frontier, and is at most `history` older; or it is due at or beyond
        the frontier, and at most the grace older.
        """
        frontier_ms = self.frontier.at(after)
        if self.history_ms is None or frontier_ms == LOWEST:
            return None
        return frontier_ms - max(self.frontier.grace_ms, self.history_ms)


def _valid(records: pa.Table, versions: pa.Table, *, itself: bool) -> np.ndarray:
    """For each record the version that is valid at its event time, or NOTHING. In: itself  see `FindInTime`."""
    found = np.full(records.num_rows, NOTHING)
    if not versions.num_rows:
        return found
    shared = [KEY, EVENT, *POSITION, *causes_of(versions.schema)]
    both = pa.concat_tables([versions.select(shared), records.select(shared)])
    codes = group(both[KEY]).codes
    asks = np.arange(both.num_rows) >= versions.num_rows
    sequence = _by_time(both, codes, asks, itself=itself)
    in_order = sequence[~asks[sequence]]  # the versions by key, event time and place
    before = np.cumsum(~asks[sequence]) - 1  # in `in_order`, the last one up to each row
    record = sequence[asks[sequence]]
    last = before[asks[sequence]]
    first = np.searchsorted(codes[in_order], codes[record], "left")
    due = records[DUE].to_numpy()[record - versions.num_rows]
    visible = last_visible(versions[VISIBLE].to_numpy()[in_order], first, last, due)
    there = visible >= 0
    found[record[there] - versions.num_rows] = in_order[visible[there]]
    return found


def _by_time(
    rows: pa.Table, codes: np.ndarray, asks: np.ndarray | None = None, *, itself: bool = False
) -> np.ndarray:
    """Rows by group, event time and place of their cause.

    Those that ask come last among the rows of one event time; with `itself` they stand at their place, before the version
    there.
    """
    place, event_ms = order_of_causes(rows), rows[EVENT].to_numpy()
    if asks is None:
        by: tuple[np.ndarray, ...] = (place, event_ms)
    else:
        by = (~asks, place, event_ms) if itself else (place, asks, event_ms)
    return order_by_group(codes, ranks(np.lexsort(by)))


def last_visible(
    visible_ms: np.ndarray, first: np.ndarray, last: np.ndarray, by_ms: np.ndarray
) -> np.ndarray:
    """For each query the last place from `first` through `last` whose time is not after `by_ms`; NONE: there is none.

    Almost always it is `last`: only a row that came late in its partition may be visible after the query's time. For the
    others whole blocks of rows are passed over, of 2^k rows down to one, each by its earliest time.
    """
    found = np.where(last >= first, last, NONE)
    late = np.flatnonzero(found >= 0)
    late = late[visible_ms[found[late]] > by_ms[late]]
    if not len(late):
        return found
    place, first, by_ms = found[late], first[late], by_ms[late]
    for width, earliest in reversed([*_blocks(visible_ms, int((place - first).max()) + 1)]):
        inside = place - width + 1 >= first
        passed = inside & (earliest[np.maximum(place, 0)] > by_ms)
        place = np.where(passed, place - width, place)
    found[late] = np.where(place >= first, place, NONE)
    return found


def _blocks(visible_ms: np.ndarray, rows: int) -> list[tuple[int, np.ndarray]]:
    """For widths 1, 2, 4 … up to `rows`, the earliest time of the block that ends at each place."""
    blocks, width = [(1, visible_ms)], 1
    while width * 2 <= rows:
        earliest = blocks[-1][1]
        wider = earliest.copy()
        wider[width:] = np.minimum(earliest[width:], earliest[:-width])
        width *= 2
        blocks.append((width, wider))
    return blocks
