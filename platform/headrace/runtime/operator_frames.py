"""A node's operator as the runtime sees it: folds of increments into files, and frames of what the node holds.

A node's results are of one of two kinds:
- *appended*: written once and never revised (closed windows, batches), each row on a UTC day;
- *current*: one row per identity, revised. The state keeps what changes, beside what the folds need; off the hot path that
  is folded into the result table, the base. Readers merge the base with the changes since (merge on read).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import (
    Batches,
    Join,
    Lookup,
    RunningAggregate,
    SessionWindows,
    Suppressed,
    WindowedAggregate,
    quote,
)
from headrace.description.lookup import EVENT
from headrace.engine.bounds import judged, standing_limits
from headrace.engine.spark_fold import Increment, computed
from headrace.engine.state_files import StateSource
from headrace.engine.state_layout import TABLE, StateLayout
from headrace.errors import DescriptionError
from headrace.fold.batches import BatchedSink
from headrace.fold.batches.open_batches import still_open
from headrace.fold.changes.collect import RESULTS
from headrace.fold.contract import BATCH, DELETED, KEY, PARTITION, TOPIC, Clock
from headrace.fold.joins import ForeignKeyJoin
from headrace.fold.joins.orphans import orphans
from headrace.fold.joins.sides import LEFT, RIGHT
from headrace.fold.lookups import LookupInTime
from headrace.fold.relations import Relations
from headrace.fold.relations.station_step import StationStep
from headrace.fold.relations.tree import RESULT, selection_of
from headrace.fold.sessions import Sessions
from headrace.fold.sliding import SlidingWindows
from headrace.fold.time_limits import TimeLimit
from headrace.fold.time_limits.count_waiting import COUNTS, WAITING
from headrace.fold.time_limits.settle_waits import ENTRIES
from headrace.fold.totals.merge_totals import RECORDS
from headrace.fold.windows import Windows
from headrace.lake.snapshot import data_file
from headrace.runtime.bound_operator import bound
from headrace.runtime.progress import Progress, by_place
from headrace.runtime.row_frames import decided, late
from headrace.runtime.state_frames import Tables, of_state

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.engine.fold_increment import FoldResult
    from headrace.errors import TerminalError
    from headrace.fold.contract import Times
    from headrace.lake import NewFile
    from headrace.runtime.held import Held

CUT_ONE_BY_ONE = "it reads several topics in one order, and logs are cut one by one"
OF_SESSIONS = "which records were late for a session is told with the sessions before them"
SEQUENCE, TIMESTAMP = "__sequence", "__timestamp"
# Of the rows that are final at one commit, the order in which sinks get them.
ORDER: Mapping[type, Sequence[str]] = {
    Sessions: ("window_end", KEY, TOPIC, PARTITION),
    BatchedSink: ("opened_at", TOPIC, PARTITION, "__offset"),
    TimeLimit: (PARTITION, "__offset", "__sub", "__opened_ms", KEY, "window_start"),
    LookupInTime: (TIMESTAMP, "__ingested_at", TOPIC, PARTITION, "__offset"),
}
OF_WINDOWS, OF_RECORDS = ("window_end", KEY), (TOPIC, PARTITION, "__offset")
OF_CHANGES = (TOPIC, PARTITION, "__offset", TIMESTAMP, KEY)


@dataclass(frozen=True)
class FoldedIncrement:
    """What an increment leads to, in files that no commit names yet.

    results  appended results; state: what the state gains, current results among it
    refused  why a stream has to stop before it commits any of this; one that only computes may go on
    """

    results: Sequence[NewFile]
    state: Sequence[NewFile]
    progress: Progress
    refused: TerminalError | None = None

    @property
    def changed(self) -> Sequence[NewFile]:
        """Those of the state's files that hold current results."""
        return [
            file for file in self.state if data_file(file.size, file.stats).may_have(TABLE, RESULTS, RESULTS)
        ]


class OperatorFrames:
    """The operator of one node."""

    def __init__(self, node: Node) -> None:
        """Nothing is asked of Spark yet."""
        self.node = node

    @property
    def appended(self) -> bool:
        """Whether results are written once and never revised."""
        return self.node.day_column is not None

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell one row of the result table from all others."""
        match self.node:
            case Lookup():
                return OF_RECORDS
            case Suppressed():
                return (*self.node.identity, PARTITION, "__opened_offset")
        return self.node.identity

    @property
    def clock(self) -> str:
        """The log's column by which a record belongs to a day of the results."""
        return "ingested_at" if isinstance(self.node, Batches | Lookup) else "timestamp"

    @property
    def ordered(self) -> bool:
        """Whether an increment takes all topics through one commit time: what leaves the node is in the log's order."""
        return len(self.node.topics) > 1 and (self.appended or bool(self.node.sinks))

    @property
    def uncuttable(self) -> str:
        """Why rows of its logs cannot be cut off; empty: they can."""
        node = self.node
        if isinstance(node, WindowedAggregate) and isinstance(node.window, SessionWindows):
            return OF_SESSIONS
        return CUT_ONE_BY_ONE if self.appended and len(node.topics) > 1 else ""

    @property
    def throttle_ms(self) -> int:
        """The shortest time, of commit time, between two micro-batches; 0: none."""
        of = self.node.updated if isinstance(self.node, Suppressed) else self.node
        return of.throttle_ms if isinstance(of, RunningAggregate) else 0

    def fold(
        self,
        spark: SparkSession,
        logs: Mapping[str, DataFrame],
        upto_ms: Mapping[str, int],
        progress: Progress,
        source: StateSource,
        results: str,
    ) -> FoldedIncrement:
        """Fold rows of the logs into what is held.

        In:  logs     for each topic, whole log commits after `progress.upto_ms` and through `upto_ms`
             source   the state as of the progress; what it gains goes into its folder
             results  URI of the folder for appended results
        Law: folding a log in pieces leads to the same results as folding it whole.
        """
        of = bound(spark, self.node)
        limits = progress.standing_limits(self.node.name or "")
        outputs = {RESULTS: results} if self.appended else {}
        told = Increment(progress.clock, upto_ms, limits, source, progress.batch + 1, outputs)
        found, times = of.fold.fold(of.rows.frame(logs), told)
        sizes, refused = judged(of.operator, found, times, progress.bounded)
        after = Progress(
            progress.batch + 1,
            times.after.upto_ms,
            by_place(times.after.stream_ms),
            times.after.closing_ms([topic.name for topic in self.node.topics]),
            progress.counted(found.tally),
            _buffer(progress, found),
            self._limits(of.operator, times),
            by_place({place: [*size] for place, size in sizes.items()}),
        )
        return FoldedIncrement(found.written.get(RESULTS, ()), found.state, after, refused)

    @staticmethod
    def _limits(operator: Any, times: Times) -> Mapping[str, int | None]:
        import json

        rows = standing_limits(operator, times.limits)
        return json.loads(rows[0][1])["limits"] if rows else {}

    def decide(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """The rows of the logs with FATE and REASON completed (see `row_frames.decided`)."""
        return decided(bound(_session(logs), self.node), logs)

    def late(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """Late records, one row for each record and closed window.

        Raises: DescriptionError when nothing can be late.
        """
        of = self.node.updated if isinstance(self.node, Suppressed) else self.node
        found = late(bound(_session(logs), of), logs)
        if found is None:
            raise DescriptionError(
                f"Node '{self.node.required_name}' has no windows: nothing can be late for it.",
                hint="Ask a node with .window(…).",
            )
        return found

    def read(self, held: Held, progress: Progress) -> DataFrame:
        """The results as people see them; columns beginning with `__` are internal.

        Out: final windows if suppressed, else every window as of now; the current row of each identity
        """
        assert held.results is not None
        if not self.appended:
            return self._current(held)
        shows_open = isinstance(self.node, WindowedAggregate) and self.node.suppression is None
        if not shows_open or held.state is None:
            return held.results
        windows = self.open_windows(held.state, progress)
        return held.results.unionByName(windows, allowMissingColumns=True)

    def open_windows(self, state: DataFrame, progress: Progress) -> DataFrame:
        """The windows that are not closed yet, with their values so far.

        Raises: DescriptionError when the node has no windows.
        """
        kernel = self._kernel(state)
        match kernel:
            case Windows():
                make, table = partial(_open_windows, kernel, progress.clock), "panes"
            case SlidingWindows():
                make, table = partial(_open_windows, kernel, progress.clock), "points"
            case Sessions():
                make, table = partial(_open_sessions, kernel, progress.clock), "open_sessions"
            case _:
                raise DescriptionError(
                    f"Node '{self.node.required_name}' has no windows.", hint="Read its table."
                )
        return self._of_state(state, partial(make, table), table)

    def updates(self, held: Held, progress: Progress) -> DataFrame:
        """Raw updates, conflated per micro-batch: the columns of `read` and BATCH (null: the last word).

        Law: each identity's row with the highest BATCH, nulls last, is what `read` (and open windows) hold.
        """
        assert held.results is not None
        if not self.appended:
            return self._revisions(held)
        if isinstance(self.node, Suppressed):
            return self._worth(held)
        finals = held.results.withColumn(BATCH, F.lit(None).cast("long"))
        if held.state is None or not isinstance(self.node, WindowedAggregate):
            return finals
        kernel = self._kernel(held.state)
        match kernel:
            case Windows():
                make, table = partial(_window_updates, kernel), "panes"
            case SlidingWindows():
                make, table = partial(_sliding_updates, kernel, progress.clock), "points"
            case _:
                return self._session_updates(held, progress, finals)
        running = self._of_state(held.state, partial(make, table), table)
        return finals.unionByName(running, allowMissingColumns=True)

    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """How many records of each partition are open: TOPIC, PARTITION, RECORDS, several rows of each.

        Out: None: none can be
        """
        kernel = self._kernel(state)
        match kernel:
            case Windows():
                table = "panes"
            case SlidingWindows():
                table = "points"
            case Sessions():
                table = "open_sessions"
            case BatchedSink() | LookupInTime():
                table = "waiting"
            case TimeLimit():
                return self._of_state(state, partial(_open_waits, kernel), ENTRIES)
            case _:
                return None
        return self._of_state(state, partial(_open_records, kernel, progress.clock, table), table)

    def settled(self, progress: Progress) -> Expr:
        """Which rows of the table a log read that far leads to: of current results all, for these tell how far they go."""
        if not self.appended:
            return F.lit(True)
        read_ms = min((progress.upto_ms.get(topic.name, 0) for topic in self.node.topics), default=0)
        return F.col(SEQUENCE) <= read_ms

    def emitted(self, results: DataFrame) -> DataFrame:
        """Rows of appended results as sinks get them.

        In:  results  with all rows that were final at the same commit, or none of them
        Out: the node's columns, `__deleted` BOOLEAN, `__timestamp` TIMESTAMP, `__sequence` BIGINT (the commit) and
             `__ordinal` INT (the place within it)
        """
        order = ORDER.get(type(self._kernel(results)), OF_RECORDS)
        if isinstance(self.node, WindowedAggregate) and not isinstance(self.node.window, SessionWindows):
            order = OF_WINDOWS
        return self._for_sinks(results, [name for name in order if name in results.columns])

    def changes_emitted(self, changes: DataFrame) -> DataFrame:
        """The same of current results, from the rows that a micro-batch adds to the state."""
        return self._for_sinks(_changes(changes).drop(BATCH), OF_CHANGES)

    def compacted(self, held: Held) -> DataFrame:
        """Of current results the rows to put into the base, and DELETED; one row for each identity that has changed."""
        return self._pending(held).select(*self._base_columns(held), DELETED)

    def current_of(self, state: DataFrame) -> DataFrame:
        """The current rows that a state holds, as the base has them."""
        spark = state.sparkSession
        newest = _newest(_changes(state)).where(~F.col(DELETED))
        return newest.select(*(F.col(quote(name)) for name in bound(spark, self.node).results.names))

    def frontier_ms(self, progress: Progress) -> int:
        """The last commit time folded: the wall clock as far as the logs tell it. Of all topics it is the same."""
        return min(progress.upto_ms.get(topic.name, 0) for topic in self.node.topics)

    def waiting(self, state: DataFrame, progress: Progress) -> DataFrame:
        """Of batches the records that are in open ones: the group columns, one row per record."""
        kernel = self._kernel(state)
        assert isinstance(kernel, BatchedSink)
        return self._of_state(state, partial(_waiting, kernel, progress.clock), "waiting")

    def rejoined(self, held: Held) -> DataFrame:
        """The rows of a join anew, by SQL, from the sides that the state holds: of left rows that refer to a key.

        Out: the node's columns, one row per left row
        """
        node, (join, left_name, right_name) = self.node, self._join(held)
        assert isinstance(node, Join)
        assert held.state is not None
        sides = {LEFT: left_name, RIGHT: right_name}
        rows = {side: _alive(_rows_of(held.state, name), _identity_of(side)) for side, name in sides.items()}
        carried = selection_of(node, RESULT, pa.schema([]))
        columns = {LEFT: carried.left, RIGHT: carried.right}
        named = {
            side: frame.select(
                F.col(KEY).alias(f"{side}_key"),
                *(F.col(quote(name)).alias(alias) for name, alias in columns[side].items()),
            )
            for side, frame in rows.items()
        }
        how = "inner" if join.inner else "left"
        both = named[LEFT].join(named[RIGHT], F.col("left_key") == F.col("right_key"), how)
        chosen = carried.values
        if node.selection is None:
            chosen = {name: f"left.{quote(name)}" for name in node.left.values}
            chosen |= {name: f"right.{quote(name)}" for name in node.right.values}
        from dataclasses import replace

        told = computed({RESULT: replace(carried, values=chosen)}, both)
        keys = [F.col(quote(carried.left[name])).alias(name) for name in node.identity]
        values = {name: F.col(quote(f"{RESULT}:{name}")).alias(name) for name in chosen}
        return told.select(*keys, *(values[name] for name in node.columns if name in values))

    def orphans(self, held: Held) -> DataFrame:
        """Of a join the left rows that refer to a right row, with `__orphan`: that row does not exist."""
        node, (_, left, right) = self.node, self._join(held)
        assert isinstance(node, Join)
        assert held.state is not None
        return self._of_state(held.state, partial(_orphans, left, right, node.identity, node.on), left, right)

    def _join(self, held: Held) -> tuple[ForeignKeyJoin, str, str]:
        """The join that gives the node's rows, and the names of the state's tables of left and of right rows."""
        assert held.state is not None
        kernel = self._kernel(held.state)
        assert isinstance(kernel, Relations)
        stations = (s for step in kernel.steps if isinstance(step, StationStep) for s in step.stations)
        join = next(s for s in stations if isinstance(s, ForeignKeyJoin) and s.part == RESULT)
        left, right = join.state
        return join, left, right

    def _kernel(self, frame: DataFrame) -> Any:
        return bound(frame.sparkSession, self.node).operator.kernel

    def _of_state(self, state: DataFrame, make: Any, *tables: str, merged: bool = True) -> DataFrame:
        layout = bound(state.sparkSession, self.node).operator.layout
        own = StateLayout({name: layout.tables[name] for name in tables})
        return of_state(state, own, make, merged=merged)

    def _for_sinks(self, rows: DataFrame, order: Sequence[str]) -> DataFrame:
        within = Window.partitionBy(SEQUENCE).orderBy(*(F.col(name).asc_nulls_last() for name in order))
        deleted = F.col(DELETED) if DELETED in rows.columns else F.lit(False)
        return rows.select(
            *(F.col(quote(name)) for name in self.node.columns),
            deleted.alias(DELETED),
            F.timestamp_millis(TIMESTAMP).alias(TIMESTAMP),
            SEQUENCE,
            (F.row_number().over(within) - 1).alias("__ordinal"),
        )

    def _pending(self, held: Held) -> DataFrame:
        """Of each identity that has changed since the base its newest row."""
        assert held.state is not None
        return _newest(_changes(held.state).where(F.col(BATCH) > held.folded))

    def _base_columns(self, held: Held) -> list[Expr]:
        assert held.results is not None
        return [F.col(quote(name)) for name in held.results.columns]

    def _current(self, held: Held) -> DataFrame:
        assert held.results is not None
        if held.state is None:
            return held.results
        pending = self._pending(held)
        untouched = held.results.join(pending.select(KEY), KEY, "left_anti")
        return untouched.unionByName(pending.where(~F.col(DELETED)).select(*self._base_columns(held)))

    def _revisions(self, held: Held) -> DataFrame:
        """Each current row after each micro-batch that touched it and is not folded yet, and before these."""
        assert held.results is not None
        columns = [F.col(quote(name)) for name in self.node.columns]
        before = held.results.select(*columns, F.lit(0).cast("long").alias(BATCH))
        if held.state is None:
            return before
        since = _changes(held.state).where(F.col(BATCH) > held.folded)
        return before.unionByName(since.select(*columns, F.col(BATCH).cast("long")))

    def _session_updates(self, held: Held, progress: Progress, finals: DataFrame) -> DataFrame:
        """What open sessions were after each micro-batch that touched them.

        A session that became part of another, or grew, is gone under its old bounds: a row of nulls, its last word.
        """
        assert held.state is not None
        kernel, identity = self._kernel(held.state), [F.col(quote(name)) for name in self.node.identity]
        make = partial(_session_rows, kernel, "open_sessions")
        updates = self._of_state(held.state, make, "open_sessions", merged=False).where(~F.col(DELETED))
        users = [F.col(quote(name)) for name in self.node.columns]
        updates = updates.select(*users, F.col(BATCH).cast("long"))
        finals = finals.select(*users, BATCH)
        standing = [finals, self.open_windows(held.state, progress)]
        known = reduce(
            lambda one, other: one.unionByName(other), (frame.select(*identity) for frame in standing)
        )
        gone = updates.select(*identity).distinct().join(known, list(self.node.identity), "left_anti")
        tombstones = gone.select(*identity, F.lit(None).cast("long").alias(BATCH))
        return finals.unionByName(updates).unionByName(tombstones, allowMissingColumns=True)

    def _worth(self, held: Held) -> DataFrame:
        """What each entry was worth after each micro-batch that touched it; of those forgotten since, what left last."""
        assert held.results is not None
        node, users = self.node, [F.col(quote(name)) for name in self.node.columns]
        left = F.struct(SEQUENCE, F.col("__offset").isNull(), "__offset", "__sub", "__opened_ms")
        others = [F.col(quote(name)) for name in node.columns if name not in node.identity]
        groups = [F.col(quote(name)) for name in node.identity]
        last = held.results.groupBy(*groups).agg(F.max_by(F.struct(*others), left).alias("__row"))
        before = last.select(*groups, "__row.*").select(*users, F.lit(0).cast("long").alias(BATCH))
        if held.state is None:
            return before
        make = partial(_entries_worth, self._kernel(held.state))
        now = self._of_state(held.state, make, ENTRIES, merged=False)
        return before.unionByName(now.select(*users, F.col(BATCH).cast("long")))


def operator_of(node: Node) -> OperatorFrames:
    """The operator of a node."""
    return OperatorFrames(node)


def _session(logs: Mapping[str, DataFrame]) -> SparkSession:
    return next(iter(logs.values())).sparkSession


def _buffer(progress: Progress, found: FoldResult) -> Mapping[str, Mapping[str, int]]:
    """What waits in each partition after an increment; none where nothing can."""
    buffer = dict(progress.buffer)
    for rows in found.outputs.get(WAITING, ()):
        for row in rows.sort_by("__ingested_ms").to_pylist():  # one row per partition and commit
            buffer[str(row[PARTITION])] = {name: row[name] for name in COUNTS}
    return buffer


def _rows_of(state: DataFrame, table: str) -> DataFrame:
    """The rows of one state table, as they lie, with BATCH."""
    return state.where(F.col(TABLE) == table).select(f"{quote(table)}.*", "__hash", BATCH)


def _changes(state: DataFrame) -> DataFrame:
    return _rows_of(state, RESULTS)


def _newest(rows: DataFrame, *also_by: str) -> DataFrame:
    by_age = Window.partitionBy(KEY, *also_by).orderBy(F.col(BATCH).desc())
    return rows.withColumn("__age", F.row_number().over(by_age)).where("__age = 1").drop("__age")


def _alive(rows: DataFrame, also_by: Sequence[str]) -> DataFrame:
    return _newest(rows, *also_by).where(~F.col(DELETED))


def _identity_of(side: str) -> Sequence[str]:
    from headrace.fold.joins.refer import LEFT_KEY

    return (LEFT_KEY,) if side == LEFT else ()


def _open_windows(kernel: Any, clock: Clock, table: str, tables: Tables) -> pa.Table:
    return kernel.open_windows(tables[table], clock)


def _open_sessions(kernel: Sessions, clock: Clock, table: str, tables: Tables) -> pa.Table:
    return kernel.open_sessions(tables[table], clock)


def _window_updates(kernel: Windows, table: str, tables: Tables) -> pa.Table:
    return kernel.updates(tables[table])


def _sliding_updates(kernel: SlidingWindows, clock: Clock, table: str, tables: Tables) -> pa.Table:
    return kernel.updates(tables[table], clock)


def _session_rows(kernel: Sessions, table: str, tables: Tables) -> pa.Table:
    return kernel.updates(tables[table])


def _open_records(kernel: Any, clock: Clock, table: str, tables: Tables) -> pa.Table:
    found: pa.Table = kernel.open_records(tables[table], clock)
    return found.rename_columns([TOPIC, PARTITION, RECORDS])


def _open_waits(kernel: TimeLimit, tables: Tables) -> pa.Table:
    return kernel.open_records(tables[ENTRIES]).rename_columns([TOPIC, PARTITION, RECORDS])


def _entries_worth(kernel: TimeLimit, tables: Tables) -> pa.Table:
    return kernel.worth(tables[ENTRIES]).append_column(BATCH, tables[ENTRIES][BATCH])


def _waiting(kernel: BatchedSink, clock: Clock, tables: Tables) -> pa.Table:
    rows = still_open(tables["waiting"], clock, kernel.topics, kernel.limits.max_wait_ms)
    return rows.select([*kernel.by])


def _orphans(left: str, right: str, key: Sequence[str], on: Sequence[str], tables: Tables) -> pa.Table:
    return orphans(tables[left], tables[right], key, on)


def is_as_of_event(node: Node) -> bool:
    """Whether a node looks up what was valid at a record's event time."""
    return isinstance(node, Lookup) and node.as_of == EVENT
