"""A node's operator as the runtime sees it: folds of increments into files, and frames of what the node holds.

A node's results are of one of two kinds:
- *appended*: written once and never revised (closed windows, batches), each row on a UTC day;
- *current*: one row per identity, revised. The state keeps what changes, beside what the folds need; off the hot path that
  is folded into the result table, the base. Readers merge the base with the changes since (merge on read).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import (
    quote,
)
from headrace.description.clocks import WALL
from headrace.engine.folding.fold_stages import Increment
from headrace.engine.state_reads import NO_COST, ReadCost
from headrace.errors import DescriptionError
from headrace.fold.changes.collect import CHANGES, RESULTS
from headrace.fold.contract import DELETED, PARTITION
from headrace.nodes.bound_operator import bound
from headrace.nodes.fold_usable import KnownUnusable, fold_usable
from headrace.nodes.progress import Progress, by_place
from headrace.nodes.rows import state_views
from headrace.nodes.rows.current_results import changes, current, newest
from headrace.nodes.rows.row_frames import decided, late
from headrace.nodes.rows.state_frames import StateFrame
from headrace.operators.contract import SEQUENCE
from headrace.operators.registry import operator_for
from headrace.operators.time_limits.fold.count_waiting import COUNTS, WAITING
from headrace.operators.time_limits.fold.limits_in_force import standing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.description.limits import Limits
    from headrace.engine.folding.fold_increment import FoldResult
    from headrace.engine.slices.log_slices import LogSlice
    from headrace.engine.state_files import StateSource
    from headrace.engine.steps.apart import Apart
    from headrace.engine.steps.unusable import Unusable
    from headrace.errors import TerminalError
    from headrace.fold.contract import Clock, Times
    from headrace.lake import NewFile
    from headrace.nodes.bound_operator import BoundOperator
    from headrace.nodes.rows.node_frames import NodeFrames

CUT_ONE_BY_ONE = "it reads several topics in one order, and logs are cut one by one"


@dataclass(frozen=True)
class FoldedIncrement:
    """The result of one increment, in files that no commit names yet.

    results           appended results; state: the new rows of the state, with current results
    changes           each change of current results, if the node has sinks (see `bound_operator.tells_changes`)
    apart             the records that the node cannot use
    refused           why a stream must stop before it commits any of this; a fold that only computes may go on
    read              the cost of the state that was read
    """

    results: Sequence[NewFile]
    state: Sequence[NewFile]
    progress: Progress
    apart: Apart
    refused: TerminalError | None = None
    read: ReadCost = NO_COST
    changes: Sequence[NewFile] = ()


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
    def clock(self) -> str:
        """The log's column by which a record belongs to a day of the results."""
        return "ingested_at" if operator_for(self.node).by_commit or self.node.clock == WALL else "timestamp"

    @property
    def ordered(self) -> bool:
        """Whether an increment takes several topics through one commit time: its rows follow from their order."""
        return len(self.node.topics) > 1

    @property
    def uncuttable(self) -> str:
        """Why rows of its logs cannot be cut off; empty: they can."""
        one_by_one = CUT_ONE_BY_ONE if self.appended and self.ordered else ""
        return operator_for(self.node).uncuttable or one_by_one

    @property
    def throttle_ms(self) -> int:
        """The shortest time, of commit time, between two micro-batches; 0: none."""
        return self.node.update_source.throttle_ms

    def fold(
        self,
        spark: SparkSession,
        slices: Mapping[str, LogSlice],
        progress: Progress,
        source: StateSource,
        results: str,
        known: KnownUnusable,
    ) -> FoldedIncrement:
        """Fold rows of the logs into what is held.

        In:     slices   the log commits of each topic after `progress.upto_ms`
                source   the state as of the progress; what it gains goes into its folder
                results  URI of the folder for appended results, or for changes of current ones
                known    asked if a step raises
        Out:    its progress may end before the slices do (see `engine.steps.apart`)
        Raises: UnusableRecordsError when steps raise for too many records
        Law:    folding a log in pieces leads to the same results as folding it whole.
        """
        of, upto_ms = bound(spark, self.node), {name: each.through_ms for name, each in slices.items()}
        limits = progress.standing_limits(self.node.name or "")
        outputs = {RESULTS: results} if self.appended else {CHANGES: results}
        driving = operator_for(self.node).driving
        told = Increment(
            progress.clock, slices, upto_ms, limits, source, progress.batch + 1, outputs, driving
        )
        found, times, apart = fold_usable(spark, of, told, known)
        sizes, refused = of.operator.kernel.judged(found.outputs, times, progress.bounded)
        after = Progress(
            progress.batch + 1,
            times.after.upto_ms,
            by_place(times.after.stream_ms),
            _closed_ms(self.node, times.after),
            progress.counted(found.tally),
            _buffer(progress, found),
            _limits(self.node.name or "", times),
            by_place({place: [*size] for place, size in sizes.items()}),
            sorted(times.after.complete),
            sorted(times.after.idle),
            times.after.lowest_ms,
        )
        written, changes = (found.written.get(name, ()) for name in (RESULTS, CHANGES))
        return FoldedIncrement(written, found.state, after, apart, refused, found.read, changes)

    def decide(self, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable]) -> DataFrame:
        """The rows of the logs with FATE and REASON completed (see `row_frames.decided`).

        In: unusable  the records that folds of these logs have found
        """
        return decided(bound(_session(logs), self.node), logs, unusable)

    def late(self, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable]) -> DataFrame:
        """Late records, one row for each record and closed window.

        In:     as `decide`
        Raises: DescriptionError when nothing can be late.
        """
        found = self.late_rows_if_any(logs, unusable)
        if found is None:
            raise nothing_late(self.node)
        return found

    def late_rows_if_any(
        self, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable]
    ) -> DataFrame | None:
        """The same; None: nothing can be late, or, as for joins of windows, the ledger alone tells how many are."""
        return late(bound(_session(logs), self.node.update_source), logs, unusable)

    def read(self, frames: NodeFrames, progress: Progress) -> DataFrame:
        """The results as people see them; columns beginning with `__` are internal.

        Out: final windows if suppressed, else every window as of now; the current row of each identity
        """
        if not self.appended:
            return current(frames)
        if not self.node.shows_open or frames.state is None:
            return frames.results
        return frames.results.unionByName(self.open_windows(frames.state, progress), allowMissingColumns=True)

    def open_windows(self, state: DataFrame, progress: Progress) -> DataFrame:
        """The windows that are not closed yet, with their values so far.

        Raises: DescriptionError when the node has no windows.
        """
        found = state_views.open_windows(self._of(state), StateFrame(state), progress.clock)
        if found is None:
            raise DescriptionError(
                f"Node '{self.node.required_name}' has no windows.", hint="Read its table."
            )
        return found

    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """See `state_views.open_records`."""
        return state_views.open_records(self._of(state), StateFrame(state), progress.clock)

    def waiting(self, state: DataFrame, progress: Progress) -> DataFrame:
        """See `state_views.waiting`."""
        return state_views.waiting(self._of(state), StateFrame(state), progress.clock)

    def entries(self, state: DataFrame, store: str, progress: Progress) -> DataFrame:
        """See `state_views.entries`."""
        return state_views.entries(self._of(state), StateFrame(state), store, progress.clock)

    def settled(self, progress: Progress) -> Expr:
        """Which rows of the table a log read that far leads to: of current results all, for these tell how far they go."""
        return F.col(SEQUENCE) <= self.frontier_ms(progress) if self.appended else F.lit(True)

    def frontier_ms(self, progress: Progress) -> int:
        """The last commit time folded, of all topics: the wall clock as far as the logs tell it."""
        return min((progress.upto_ms.get(topic.name, 0) for topic in self.node.topics), default=0)

    def current_of(self, state: DataFrame) -> DataFrame:
        """The current rows that a state holds, as the base has them."""
        rows = newest(changes(state)).where(~F.col(DELETED))
        return rows.select(*(F.col(quote(name)) for name in self._of(state).results.names))

    def _of(self, frame: DataFrame) -> BoundOperator:
        return bound(frame.sparkSession, self.node)


def nothing_late(node: Node) -> DescriptionError:
    """The error that says that no record can be late for a node."""
    return DescriptionError(
        f"Node '{node.required_name}' has no windows: nothing can be late for it.",
        hint="Ask a node with .window(…).",
    )


def operator_of(node: Node) -> OperatorFrames:
    """The operator of a node."""
    return OperatorFrames(node)


def _closed_ms(node: Node, clock: Clock) -> int | None:
    """Through which time of its clock a node has let go what waited."""
    if node.clock == WALL:
        return max(clock.upto_ms.values(), default=None)
    return clock.lowest_ms


def _session(logs: Mapping[str, DataFrame]) -> SparkSession:
    return next(iter(logs.values())).sparkSession


def _limits(name: str, times: Times) -> list[Limits]:
    """The limits that were set in the log up to the end of an increment."""
    return [json.loads(said)["limits"] for _, said in standing(times.limits, name)]


def _buffer(progress: Progress, result: FoldResult) -> Mapping[str, Mapping[str, int]]:
    """The records and bytes that wait in each partition after an increment; empty for an operator without waits."""
    buffer = dict(progress.buffer)
    for rows in result.outputs.get(WAITING, ()):
        for row in rows.sort_by("__ingested_ms").to_pylist():  # one row per partition and commit
            buffer[str(row[PARTITION])] = {name: row[name] for name in COUNTS}
    return buffer
