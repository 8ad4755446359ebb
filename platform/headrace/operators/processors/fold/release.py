"""When each record is given to its group: in the order of time, and where global tables have to be complete first.

Law, in the order of time (L34): a record with event time e and clock c has the moment max(e, c - grace). Records go by their
moments, then by their places. The first commit n after which L(n) - grace is beyond a record's moment releases it. After n
every record that comes later has a moment at or beyond L(n) - grace. So what waits, and the whole order, do not depend on
how logs were committed. A record is late if its event time is before its moment.
Law, where tables have to be complete (L39): the log commits up to the one that completes them count as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

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
    StateTable,
    Times,
    as_they_are,
)
from headrace.fold.lookups.release_records import Frontier
from headrace.fold.positions import FIELDS, order_of, order_of_causes, position_columns
from headrace.fold.segments import HIGHEST, LOWEST
from headrace.fold.values.columns import int64
from headrace.operators.processors.fold.shape import Shape
from headrace.operators.processors.fold.state_tables import lowest_ms

WAITING = "waiting"  # the state's table of records whose moment has not come
MOMENT = "__moment_ms"  # of records: the clock of their calls


@dataclass(frozen=True)
class Released:
    """Records, and when they are given to their groups.

    records   with MOMENT
    commit    the number of the log commit that gives each to its group
    """

    records: pa.Table
    commit: np.ndarray

    @property
    def moment_ms(self) -> np.ndarray:
        """The clock of each record's call; LOWEST: none has begun."""
        return int64(self.records[MOMENT])

    @property
    def late(self) -> np.ndarray:
        """Whether each record came after its moment, in the order of time."""
        late: np.ndarray = int64(self.records[EVENT], null=HIGHEST) < self.moment_ms
        return late

    @property
    def places(self) -> np.ndarray:
        """Numbers that compare as the records' places do: by the log commit that gives them, topic, partition and offset."""
        return order_of({**position_columns(self.records), FIELDS[0].name: pa.array(self.commit)})

    def order(self, codes: np.ndarray) -> np.ndarray:
        """The permutation that sorts them by group, then by time, then by cause. In: the number of each one's group."""
        return np.lexsort((order_of_causes(self.records), self.moment_ms, codes))

    def ties(self, codes: np.ndarray, order: np.ndarray) -> np.ndarray:
        """The number of each record among those of its group and moment. In: codes and records as `order` sorts them."""
        moment, at = self.moment_ms[order], np.arange(len(order))
        first = np.append(True, (codes[1:] != codes[:-1]) | (moment[1:] != moment[:-1]))[: len(order)]
        return at - np.maximum.accumulate(np.where(first, at, 0))


def clocks_of(rows: pa.Table, times: Times, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """The number of each row's log commit, and the row's clock: its stream time, and not below the node's own before it."""
    at_ms = np.array([ms for ms, _ in times.commits], np.int64)
    commit, clock = np.searchsorted(at_ms, int64(rows[INGESTED])), int64(rows[STREAM], null=LOWEST)
    if shape.by_partition:
        return commit, clock
    lowest = [lowest_ms(each) for each in (times.before, *(after for _, after in times.commits))]
    return commit, np.maximum(clock, np.array(lowest, np.int64)[commit])


def with_moments(rows: pa.Table, clock: np.ndarray, shape: Shape) -> pa.Table:
    """Rows with MOMENT. In: the clock of each."""
    if shape.in_time:
        begun = np.where(clock == LOWEST, LOWEST, clock - shape.grace_ms)
        clock = np.maximum(int64(rows[EVENT], null=LOWEST), begun)
    return rows.append_column(MOMENT, pa.array(clock))


def waiting_table(shape: Shape, columns: Sequence[str]) -> StateTable:
    """The state's table. In: the columns of a record."""
    assert shape.waiting is not None
    own = [pa.field(KEY, pa.binary()), pa.field(HASH, pa.int64()), *map(shape.waiting.field, columns)]
    schema = pa.schema([*own, pa.field(MOMENT, pa.int64())])
    return StateTable(schema, (MOMENT, HASH), as_they_are, MOMENT, partial(_is_released, shape=shape))


def completion(shape: Shape) -> Frontier:
    """The frontier of records that wait for complete tables."""
    return Frontier(complete=shape.complete, by_place=True)


def frontier_of(clock: Clock, shape: Shape) -> int:
    """Below which moment records are released. It does not fall."""
    return lowest_ms(clock, shape.grace_ms) if shape.in_time else completion(shape).at(clock)


def passed(times: Times, shape: Shape) -> tuple[int, int] | None:
    """The moments that the frontier passes in an increment: the first and the last; None: none."""
    before, after = (frontier_of(each, shape) for each in (times.before, times.after))
    return (before, after - 1) if before < after else None


def release(
    forwarded: tuple[pa.Table, np.ndarray], waiting: pa.Table, times: Times, shape: Shape
) -> tuple[Released, pa.Table]:
    """The records that an increment releases, of its own and of those that wait; and those that have to wait.

    In: forwarded  the records of the increment with MOMENT, and the number of each one's log commit
        waiting  rows of WAITING; also such as are not released, or were before
    """
    rows, own = forwarded
    clocks = np.array([frontier_of(each, shape) for _, each in times.commits], np.int64)
    passing = passed(times, shape)
    if passing is None:
        waiting = waiting.slice(0, 0)
    else:
        moment = waiting[MOMENT]
        waiting = waiting.filter(
            pc.and_(pc.greater_equal(moment, passing[0]), pc.less_equal(moment, passing[1]))
        )
    commit = np.maximum(_first_beyond(clocks, rows), own)
    waits = commit == len(clocks)
    released = rows.filter(pa.array(~waits))
    earlier = waiting.select(released.column_names).cast(released.schema)
    commits = np.concatenate([commit[~waits], _first_beyond(clocks, earlier)])
    return Released(pa.concat_tables([released, earlier]), commits), rows.filter(pa.array(waits))


def _first_beyond(clocks: np.ndarray, rows: pa.Table) -> np.ndarray:
    """The number of the first commit whose frontier is beyond the moment of each row."""
    found: np.ndarray = np.searchsorted(clocks, int64(rows[MOMENT]), side="right")
    return found


def _is_released(waiting: pa.Table, after: Clock, *, shape: Shape) -> pa.Array:
    return pa.array(int64(waiting[MOMENT]) < frontier_of(after, shape))


def open_records(waiting: pa.Table, clock: Clock, *, shape: Shape) -> pa.Table:
    """How many records of each partition wait. In: merged rows of WAITING. Out: TOPIC, PARTITION, `records` BIGINT."""
    rows = waiting.filter(pc.invert(_is_released(waiting, clock, shape=shape)))
    counted = rows.group_by([TOPIC, PARTITION]).aggregate([([], "count_all")])
    return counted.rename_columns({"count_all": "records"})
