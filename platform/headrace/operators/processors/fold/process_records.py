"""The step: find the groups that are touched, call the processor for each, and say what has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import (
    CAUSE,
    HASH,
    INGESTED,
    KEY,
    PARTITION,
    REASON,
    TOPIC,
    Clock,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
)
from headrace.fold.fates import (
    DEAD_LETTER,
    KEPT,
    TALLY,
    decide_inputs,
    is_kept,
    sum_tallies,
    tally_of,
)
from headrace.fold.group_order import order_by_group
from headrace.fold.keys import distinct_hashes, group
from headrace.fold.lookups.sides import RECORD, SIDE
from headrace.fold.segments import LOWEST
from headrace.fold.values.columns import int64
from headrace.operators.processors.fold.changed_state import ChangedState
from headrace.operators.processors.fold.context import Group
from headrace.operators.processors.fold.global_tables.global_tables import Packing
from headrace.operators.processors.fold.global_tables.tables_as_of import TablesAsOf
from headrace.operators.processors.fold.load_groups import POSITION, TIMES, listed_records, load_groups
from headrace.operators.processors.fold.release import (
    WAITING,
    Released,
    clocks_of,
    completion,
    passed,
    release,
    waiting_table,
    with_moments,
)
from headrace.operators.processors.fold.run_groups import Commits, Moved, Runner
from headrace.operators.processors.fold.shape import Shape
from headrace.operators.processors.fold.state_tables import (
    STREAM_DUE,
    TIMERS,
    WALL_DUE,
    frontier_ms,
    lowest_ms,
    tables_of,
)

REFUSED = "refused"  # the output with records that were set apart


@dataclass(frozen=True)
class ProcessRecords(Step):
    """Call a processor for the groups of a bucket.

    In:    rows of the log; `timers`, reminders, and the entries of stores
    Out:   `results`: the columns of the output, the place of each row in its log commit, TIMESTAMP (event time), CLOCK,
           RELEASED_AT and SEQUENCE (the commit); REFUSED, if records may be set apart: the position of each, and REASON
    Law:   L34. The step reads the state of groups that have records, or a timer that is due; of all groups if there is a
           drain

    packing  of global tables, whose versions `KeepTables` shares; None: there are none
    """

    shape: Shape
    packing: Packing | None = None

    @property
    def scope(self) -> Scope:  # type: ignore[override]
        """By group, or by partition."""
        return Scope.PARTITION if self.shape.by_partition else Scope.GROUP

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns of a group; those of a partition follow from the scope."""
        return () if self.shape.by_partition else self.shape.by

    @cached_property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """See `state_tables`; the records that wait, too."""
        tables = tables_of(self.shape)
        if self.shape.waiting is not None:
            tables[WAITING] = waiting_table(self.shape, self._columns)
        return tables

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """Reminders of what is due; of partitions, which are few and have clocks of their own, all timers."""
        found = dict[str, Needs]()
        passing = passed(times, self.shape)
        if WAITING in self.state and passing is not None:
            found[WAITING] = Needs(times=passing)
        if self._is_drained(times):
            return found
        if self.shape.by_partition:
            return found | ({TIMERS: Needs()} if TIMERS in self.state else {})
        for name, time_ms in (
            (STREAM_DUE, self._lowest_ms),
            (WALL_DUE, partial(frontier_ms, topics=self.shape.read)),
        ):
            before_ms, after_ms = time_ms(times.before), time_ms(times.after)
            if name in self.state and before_ms < after_ms:
                found[name] = Needs(times=(before_ms + 1, after_ms))
        return found

    def needs_more(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Mapping[str, Needs]:
        """Timers and entries of the groups that are touched."""
        if self._is_drained(times):
            return dict.fromkeys(self._of_groups, Needs())
        kept = self._kept(self.decided(self._records(rows)))
        known = [int64(table[HASH]) for table in state.values()]
        hashes = np.unique(np.concatenate([distinct_hashes(kept), *known]))
        return dict.fromkeys(self._of_groups, Needs(hashes)) if len(hashes) else {}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        everything, rows = rows, self.decided(self._records(rows))
        released, waits = self._released(self._kept(rows), state, times)
        kept = released.records
        held = {name: state.get(name, self.state[name].empty()).combine_chunks() for name in self._of_groups}
        tables = [kept, *held.values()]
        keys = pa.concat_tables([table.select([KEY, HASH]) for table in tables]).combine_chunks()
        same = group(keys[KEY])
        mine, *codes = np.split(same.codes, np.cumsum([table.num_rows for table in tables])[:-1])
        in_time = self.shape.in_time
        order = released.order(mine) if in_time else order_by_group(mine, released.places)
        kept, mine = kept.take(pa.array(order)), mine[order]
        by_table = {name: (held[name], code) for name, code in zip(held, codes, strict=True)}
        groups = load_groups(self.shape, (kept, mine), by_table, len(same))
        at_ms = [ms for ms, _ in times.commits]
        late = (released.late if in_time else np.zeros(len(order), bool))[order]
        records = listed_records(self.shape, kept, released.commit[order], late)
        global_tables = self._tables(everything if groups else rows.slice(0, 0), kept, times)
        runner = Runner(self.shape, _commits(at_ms, times), records, global_tables)
        self._run(runner, groups, mine, times)
        own = keys.take(pa.array(same.first))
        frontier, initial = frontier_ms(times.after, self.shape.read), frozenset(runner.initial)
        outputs = {
            "results": runner.forwarded.table(
                kept, own[HASH], released.ties(mine, order) if in_time else None
            )
        }
        tally = TALLY.empty_table() if self.packing and self.packing.is_shared else tally_of(rows)
        if self.shape.sets_apart:
            outputs[REFUSED] = refused_records(kept, runner.refused)
            tally = sum_tallies([tally, *other_fates(outputs[REFUSED])])
        changes = ChangedState(self.shape, self.state, groups, own, initial, frontier).rows()
        if WAITING in self.state:
            schema = self.state[WAITING].schema
            changes[WAITING] = waits.select(schema.names).cast(schema)
        return Folded(outputs=outputs, changes=changes, tally=tally)

    def decided(self, rows: pa.Table) -> pa.Table:
        """Complete FATE and REASON: every record is kept."""
        return decide_inputs(rows)

    def _records(self, rows: pa.Table) -> pa.Table:
        """The rows without the versions of global tables."""
        return rows if self.packing is None else rows.filter(pc.equal(rows[SIDE], RECORD))

    def _tables(self, rows: pa.Table, records: pa.Table, times: Times) -> TablesAsOf | None:
        """The global tables; None: there are none. In: all rows; the records in their order."""
        if self.packing is None:
            return None
        versions = rows.select(self.packing.rows.names).filter(pc.not_equal(rows[SIDE], RECORD))
        at_ms = [ms for ms, _ in times.commits]
        return TablesAsOf(self.packing, versions, records, at_ms, completion(self.shape).completed_ms(times))

    @property
    def _of_groups(self) -> list[str]:
        """The tables that say what a group holds."""
        return [name for name in self.state if name not in (STREAM_DUE, WALL_DUE, WAITING)]

    def _released(
        self, kept: pa.Table, state: Mapping[str, pa.Table], times: Times
    ) -> tuple[Released, pa.Table]:
        """The records that groups get in this increment, and those that have to wait; with MOMENT."""
        commit, clock = clocks_of(kept, times, self.shape)
        kept = with_moments(kept, clock, self.shape)
        if WAITING in self.state:
            waiting = state.get(WAITING, self.state[WAITING].empty())
            return release((kept, commit), waiting, times, self.shape)
        return Released(kept, commit), kept.slice(0, 0)

    @property
    def _columns(self) -> list[str]:
        """The columns that make up a record."""
        causes = [CAUSE] if self.shape.causes else []
        return [*dict.fromkeys((*self.shape.by, *self.shape.columns, *POSITION, *TIMES, *causes))]

    def _is_drained(self, times: Times) -> bool:
        return self.shape.closes and len(times.drains) > 0

    def _kept(self, rows: pa.Table) -> pa.Table:
        which = is_kept(rows)
        rows = rows.select([KEY, HASH, *self._columns])
        return rows if which.all() else rows.filter(pa.array(which))

    def _run(self, runner: Runner, groups: Sequence[Group], numbers: np.ndarray, times: Times) -> None:
        """Call the processor for each group."""
        ends = np.searchsorted(numbers, np.arange(len(groups) + 1)).tolist()
        shared = None if self.shape.by_partition else self._clock(times)
        for each in groups:
            clock = shared or self._partition_clock(each, times)
            runner.run(each, range(ends[each.number], ends[each.number + 1]), clock)

    def _clock(self, times: Times) -> Moved:
        return Moved(self._lowest_ms(times.before), [self._lowest_ms(clock) for _, clock in times.commits])

    def _lowest_ms(self, clock: Clock) -> int:
        return lowest_ms(clock, self.shape.grace_ms)

    def _partition_clock(self, of: Group, times: Times) -> Moved:
        place = of.key["topic"], of.key["partition"]
        before_ms, *after_ms = (
            LOWEST if (ms := clock.partition_ms(place)) is None else ms
            for clock in (times.before, *(clock for _, clock in times.commits))
        )
        return Moved(before_ms, after_ms)


def refused_records(kept: pa.Table, why: Mapping[int, str]) -> pa.Table:
    """The records that were set apart: their positions, and REASON."""
    found = kept.select([INGESTED, *POSITION]).take(pa.array([*why], pa.int64()))
    return found.append_column(REASON, pa.array([*why.values()], pa.string()))


def other_fates(refused: pa.Table) -> list[pa.Table]:
    """The gains of a tally: records that are not kept, but dead letters."""
    counted = refused.group_by([TOPIC, PARTITION]).aggregate([([], "count_all")])
    records = counted["count_all"]
    places = [counted[TOPIC], counted[PARTITION]]
    fates = {fate: pa.repeat(pa.scalar(fate), counted.num_rows) for fate in (KEPT, DEAD_LETTER)}
    signed = {KEPT: pc.negate(records), DEAD_LETTER: records}
    return [pa.table([*places, fates[fate], signed[fate]], schema=TALLY) for fate in fates]


def _commits(at_ms: Sequence[int], times: Times) -> Commits:
    drains = np.searchsorted(np.array(at_ms, np.int64), np.array(sorted({*times.drains}), np.int64))
    return Commits(at_ms, drains.tolist())
