"""The first step of lookups whose records wait: which are released, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import (
    EVENT,
    HASH,
    INGESTED,
    KEY,
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
from headrace.fold.fates import tally_of
from headrace.fold.lookups.sides import ABSENT, RECORD, SIDE, VERSION, causes_of, kept_of
from headrace.fold.positions import POSITION
from headrace.fold.segments import HIGHEST, LOWEST
from headrace.fold.values.columns import int64

RELEASED, RELEASED_AT = "__released_ms", "__released_at"
DUE = "__due_ms"  # the stream time beyond which a record is released (see `due_times`)
WAITING = "waiting"  # the state table of records that wait


@dataclass(frozen=True)
class Frontier:
    """Below which stream time records are released that are due, as of a clock. It does not fall.

    grace_ms  how long after its event time a record is due
    complete  topics that have to be complete before any record is released
    by_place  True: event times do not count, so that a complete table alone is waited for
    """

    grace_ms: int = 0
    complete: tuple[str, ...] = ()
    by_place: bool = False

    def at(self, clock: Clock) -> int:
        """The lowest stream time in ms; LOWEST until there is one."""
        if not clock.complete.issuperset(self.complete):
            return LOWEST
        if self.by_place:
            return HIGHEST
        return LOWEST if clock.lowest_ms is None else clock.lowest_ms

    def completed_ms(self, times: Times) -> int | None:
        """The log commit of a micro-batch with which the topics that are waited for become complete; None: none is."""
        if times.before.complete.issuperset(self.complete):
            return None
        return next((at for at, clock in times.commits if clock.complete.issuperset(self.complete)), None)


@dataclass(frozen=True)
class ReleaseRecords(Step):
    """Release the records that the frontier has passed.

    In:    rows as `Sides.decide` gives them; state `waiting`: the records that were not released
    Out:   rows: records with DUE, and RELEASED, the commit time of their release; and the versions that came
    Law:   L21, L22; a record waits if and only if its DUE is not below the frontier.
    """

    on: tuple[str, ...]
    record: tuple[str, ...]  # the stream's columns
    values: tuple[str, ...]  # the table's
    frontier: Frontier
    rows: pa.Schema
    counts: bool  # whether this step counts the fates
    scope = Scope.GROUP
    keeps_bucket = True

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The key that is looked up."""
        return self.on

    @property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """`waiting`: one row per record that waits; each is written once."""
        fields = [pa.field(KEY, pa.binary()), pa.field(HASH, pa.int64())]
        own = (*self.on, *self.record, EVENT, STREAM, *POSITION)
        fields += [self.rows.field(name) for name in (*own, *causes_of(self.rows))]
        fields.append(pa.field(DUE, pa.int64()))
        waiting = StateTable(pa.schema(fields), (DUE, HASH), as_they_are, DUE, self._is_released)
        return {WAITING: waiting}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The records that the frontier passes in this micro-batch."""
        passed = self._passed(times)
        return {} if passed is None else {WAITING: Needs(times=passed)}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        schema = self.state[WAITING].schema
        came = kept_of(rows, RECORD, [name for name in schema.names if name != DUE])
        came = came.append_column(DUE, due_times(came, self.frontier.grace_ms)).select(schema.names)
        asking = pa.concat_tables([came, self._due_records(state, times)])
        at_ms = release_times(asking, times.commits, self.frontier)
        released = at_ms != LOWEST
        waits = ~released[: came.num_rows]
        asking = asking.append_column(RELEASED, pa.array(at_ms, mask=~released)).filter(pa.array(released))
        asking = asking.append_column(SIDE, pa.array(np.full(asking.num_rows, RECORD, np.int8)))
        causes = causes_of(self.rows)
        told = kept_of(
            rows, VERSION, [KEY, HASH, SIDE, *self.values, ABSENT, EVENT, STREAM, *POSITION, *causes]
        )
        return Folded(
            rows=pa.concat_tables([asking, told], promote_options="default"),
            changes={WAITING: came.filter(pa.array(waits)).cast(schema)},
            tally=tally_of(rows) if self.counts else None,
        )

    def _due_records(self, state: Mapping[str, pa.Table], times: Times) -> pa.Table:
        waiting, passed = state.get(WAITING), self._passed(times)
        schema = self.state[WAITING].schema
        if waiting is None or passed is None:
            return schema.empty_table()
        due = waiting[DUE]
        leaves = pc.and_(pc.greater_equal(due, passed[0]), pc.less_equal(due, passed[1]))
        return waiting.select(schema.names).filter(leaves)

    def _passed(self, times: Times) -> tuple[int, int] | None:
        """The stream times that the frontier passes; None: none."""
        before, after = (self.frontier.at(clock) for clock in (times.before, times.after))
        return (before, after - 1) if before < after else None

    def _is_released(self, rows: pa.Table, after: Clock) -> pa.Array:
        return pc.less(rows[DUE].combine_chunks(), self.frontier.at(after))


def due_times(records: pa.Table, grace_ms: int) -> pa.Array:
    """When each record is due: after its event time and grace; and not before the node's time has passed its own.

    Law: it follows from the record's row. A row of a commit after the release has a stream time beyond it (L4).
    """
    own_ms = int64(records[STREAM], LOWEST)
    return pa.array(np.maximum(int64(records[EVENT]) + grace_ms, own_ms))


def release_times(rows: pa.Table, commits: Sequence[tuple[int, Clock]], frontier: Frontier) -> np.ndarray:
    """The first commit, not before its own, whose frontier is beyond each record's DUE; LOWEST: there is none yet."""
    at_ms = np.array([ms for ms, _ in commits], np.int64)
    frontiers = np.array([frontier.at(clock) for _, clock in commits], np.int64)
    first = np.searchsorted(frontiers, rows[DUE].to_numpy(), "right")  # the frontier does not fall
    released = np.append(at_ms, LOWEST)[first]
    found: np.ndarray = np.where(first < len(at_ms), np.maximum(released, rows[INGESTED].to_numpy()), LOWEST)
    return found


def open_records(waiting: pa.Table, clock: Clock, frontier: Frontier) -> pa.Table:
    """How many records of each partition wait.

    In:  waiting  merged rows of the state
    Out: TOPIC, PARTITION, `records` BIGINT
    """
    rows = waiting.filter(pc.greater_equal(waiting[DUE], frontier.at(clock)))
    counted = rows.group_by([TOPIC, PARTITION]).aggregate([([], "count_all")])
    return counted.rename_columns({"count_all": "records"})
