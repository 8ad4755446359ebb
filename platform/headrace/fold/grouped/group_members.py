"""Groups of a table with aggregates that pick rows: what was picked may go, so the rows of each group are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates.kind import whole
from headrace.fold.changes.deltas import BEFORE, KEYS, SIGN, commits, with_signs
from headrace.fold.changes.ordering import last_of_each, order
from headrace.fold.changes.station import Ports, Route, newest_of, of_deleted
from headrace.fold.contract import DELETED, HASH, INGESTED, KEY, Needs, StateTable, Times
from headrace.fold.grouped.alive import ends_of
from headrace.fold.grouped.contributions import ROWS, contributed
from headrace.fold.grouped.distinct_values import DistinctValues
from headrace.fold.grouped.group_rows import GroupedRows
from headrace.fold.grouped.picks import MEMBER, Candidates, Pick
from headrace.fold.keys import combined, distinct_hashes, group, with_keys
from headrace.fold.segments import LOWEST


@dataclass(frozen=True)
class ByGroupOfRow(Route):
    """By the group, each row by itself, with its own key as MEMBER.

    by     group columns
    reads  the columns that aggregates read
    """

    by: tuple[str, ...]
    reads: tuple[str, ...]

    def columns(self, relation: pa.Schema) -> pa.Schema:
        """The group columns, those that are read, and MEMBER."""
        names = dict.fromkeys((*self.by, *self.reads))
        return pa.schema([*(relation.field(name) for name in names), pa.field(MEMBER, pa.binary())])

    def of(self, deltas: pa.Table) -> pa.Table:
        """The rows with the key of their group."""
        return with_keys(deltas.append_column(MEMBER, deltas[KEY]), self.by)


@dataclass
class GroupedMembers(GroupedRows):
    """The groups of a relation, some of whose aggregates pick rows.

    State: as `GroupedRows`, with what is picked; and the rows of each group, DELETED where they have left it.
    Law (L20): a group that gains rows alone is found from what was picked before. The rows of a group are read only where
    one of them goes or changes: of the groups that a micro-batch touches in this way all rows, of others none. With
    `count_distinct` they are read of each group that is touched.

    picks  the aggregates that pick, or count what is distinct; `aggregates` has the others, and ROWS
    shown  the names of all aggregates, in the order of their columns
    """

    picks: Sequence[Pick | DistinctValues] = ()
    shown: Sequence[str] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        super().__post_init__()
        results = {each.name: each for each in self.aggregates.results if each.name != ROWS}
        results |= {pick.name: pick.result for pick in self.picks}
        self.columns = pa.schema([*self.by, *(results[name] for name in self.shown)])
        kept = self.state[self._state].schema
        groups = pa.schema([*kept, *(pick.field for pick in self.picks)])
        read = {column.name: column for pick in self.picks for column in pick.read}
        own = [(MEMBER, pa.binary()), (DELETED, pa.bool_()), (INGESTED, pa.int64())]
        self.read = pa.schema([*read.values()])
        self.state = {
            self._state: StateTable(groups, (HASH, KEY), newest_of(KEY), expired=of_deleted),
            self._members: StateTable(
                pa.schema([*read.values(), *KEYS, *own]),
                (HASH, KEY, MEMBER),
                newest_of(KEY, MEMBER),
                expired=of_deleted,
            ),
        }

    def needs(self, ports: Ports, times: Times) -> Mapping[str, Needs]:
        """The groups that are touched, and the rows of those that lose some."""
        rows = ports[self.source]
        return {
            self._state: Needs(distinct_hashes(rows)),
            self._members: Needs(self._read_whole(rows)),
        }

    def _read_whole(self, changes: pa.Table) -> np.ndarray:
        """The hashes of the groups whose rows are read."""
        every = any(pick.needs_rows for pick in self.picks)
        return distinct_hashes(changes if every else with_signs(changes, BEFORE))

    @property
    def _members(self) -> str:
        return f"{self.part}_members"

    def _adds(self, ports: Ports) -> pa.Table:
        return contributed(ports[self.source], self.by.names, self.aggregates, per_commit=self.per_commit)

    def _values(self, groups: pa.Table) -> dict[str, pa.Array | pa.ChunkedArray]:
        found = super()._values(groups)
        return found | {pick.name: pick.finish(whole(groups[pick.field.name])) for pick in self.picks}

    def _completed(
        self, rows: pa.Table, new: np.ndarray, ports: Ports, state: Ports
    ) -> tuple[pa.Table, dict[str, pa.Table]]:
        """The groups with what they pick, and how their rows change."""
        changes = ports[self.source].combine_chunks()
        groups = _Questions(rows, new, per_commit=self.per_commit)
        losing = self._read_whole(changes)
        candidates, last = self._candidates(groups, changes, self._known_rows(state, losing))
        known = state.get(self._state, self.state[self._state].empty())
        known = known.filter(pc.invert(known[DELETED])).combine_chunks()
        gaining = known.filter(pc.invert(pc.is_in(known[HASH], pa.array(losing))))
        before = pc.index_in(rows[KEY], whole(known[KEY])).fill_null(0).to_numpy()
        for pick in self.picks:
            which, picked = pick.rows_of(gaining)
            begin, end = groups.bounds(whole(gaining[KEY]).take(pa.array(which)))
            asked = np.flatnonzero(end > begin)  # a caller may hand over more groups than change
            bounds = begin[asked], begin[asked], end[asked]  # a group is known by its first question
            among = _with(candidates, picked.take(pa.array(asked)), *bounds)
            found = pick.among(among, int(new.sum()))
            at = np.where(new, np.cumsum(new) - 1, len(found) + before)
            both = pa.concat_arrays([found, whole(known[pick.field.name])])
            rows = rows.append_column(pick.field, both.take(pa.array(at)))
        members = changes.take(pa.array(last)).append_column(
            DELETED, pc.equal(changes[SIGN].take(pa.array(last)), BEFORE)
        )
        schema = self.state[self._members].schema
        return rows, {self._members: members.select(schema.names).cast(schema)}

    def _known_rows(self, state: Ports, losing: np.ndarray) -> pa.Table:
        """The rows, as they were, of the groups that lose some."""
        known = state.get(self._members, self.state[self._members].empty())
        there = pc.and_(pc.is_in(known[HASH], pa.array(losing)), pc.invert(known[DELETED]))
        return known.filter(there)

    def _candidates(
        self, groups: _Questions, changes: pa.Table, known: pa.Table
    ) -> tuple[Candidates, np.ndarray]:
        """The rows that are there at some question; and the number of the last change of each row."""
        names = [*self.read.names, KEY, MEMBER]
        rows = pa.concat_tables([known.select(names), changes.select(names).cast(known.select(names).schema)])
        rows = rows.combine_chunks()
        first, beyond = groups.bounds(whole(rows[KEY]))
        at = np.concatenate([np.full(known.num_rows, LOWEST), groups.of_changes(changes)])
        leaves = np.concatenate([np.zeros(known.num_rows, bool), changes[SIGN].to_numpy() == BEFORE])
        key, member = group(rows[KEY]).codes, group(rows[MEMBER]).codes
        ends = ends_of(key, member, at, leaves, beyond)
        come = np.flatnonzero(~leaves & (first >= 0))
        mine = slice(known.num_rows, None)
        sequence = order(at[mine], ~leaves[mine])
        last = last_of_each(combined(key[mine], member[mine]).codes, sequence)
        begin = np.maximum(at, first)
        return Candidates(rows.take(pa.array(come)), first[come], begin[come], ends[come]), last


class _Questions:
    """The questions about groups: one for each group after each of its commits, as a number (see `alive`)."""

    def __init__(self, rows: pa.Table, new: np.ndarray, *, per_commit: bool) -> None:
        """In: rows  groups by key and commit; new: marks those of a commit of the micro-batch."""
        self.per_commit = per_commit
        self._asked = rows.filter(pa.array(new))
        self._keys = whole(self._asked[KEY])
        codes = group(self._keys).codes
        count = int(codes.max(initial=-1)) + 1
        self._first = np.full(count, len(codes), np.int64)
        np.minimum.at(self._first, codes, np.arange(len(codes)))
        self._beyond = self._first + np.bincount(codes, minlength=count)
        self._codes = codes

    def bounds(self, keys: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """For each key of a group its first question, and that beyond its last; -1 and -1: nothing is asked of it."""
        place = pc.index_in(keys, self._keys)
        found = place.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        if not len(self._codes):
            return found, found
        code = self._codes[found]
        return (
            np.where(found < 0, -1, self._first[code]),
            np.where(found < 0, -1, self._beyond[code]),
        )

    def of_changes(self, changes: pa.Table) -> np.ndarray:
        """The question at which each change of a row shows."""
        asked = self._asked.select([KEY, INGESTED])
        both = pa.concat_tables([asked, changes.select([KEY, INGESTED])]).combine_chunks()
        codes = combined(group(both[KEY]).codes, commits(both, per_commit=self.per_commit)).codes
        question = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
        question[codes[: asked.num_rows]] = np.arange(asked.num_rows)
        found: np.ndarray = question[codes[asked.num_rows :]]
        return found


def _with(
    candidates: Candidates, rows: pa.Table, group: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> Candidates:
    """The candidates, and others of which some columns alone are known."""
    own = candidates.rows.select(rows.column_names)
    return Candidates(
        pa.concat_tables([own, rows.cast(own.schema)]),
        np.concatenate([candidates.group, group]),
        np.concatenate([candidates.begin, begin]),
        np.concatenate([candidates.end, end]),
    )
