"""Folds of increments into files, as a node's writer commits them.

A node's results are of one of two kinds:
- *appended*: written once and never revised (closed windows, batches), each row on a UTC day (see `Node.has_days`);
- *current*: one row per identity, revised. The state keeps what changes, beside what the folds need; off the hot path that
  is folded into the result table, the base. Readers merge the base with the changes since (merge on read).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.description.clocks import WALL
from headrace.engine.folding.fold_stages import Increment
from headrace.engine.state_reads import NO_COST, ReadCost
from headrace.fold.changes.collect import CHANGES, RESULTS
from headrace.fold.contract import PARTITION
from headrace.nodes.bound_operator import bound
from headrace.nodes.fold_usable import KnownUnusable, fold_usable
from headrace.nodes.progress import Progress, by_place
from headrace.operators.registry import operator_for
from headrace.operators.time_limits.fold.count_waiting import COUNTS, WAITING
from headrace.operators.time_limits.fold.limits_in_force import standing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.description.limits import Limits
    from headrace.engine.folding.fold_increment import FoldResult
    from headrace.engine.slices.log_slices import LogSlice
    from headrace.engine.state_files import StateSource
    from headrace.engine.steps.apart import Apart
    from headrace.errors import TerminalError
    from headrace.fold.contract import Clock, Times
    from headrace.lake import NewFile


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


def increment_of(
    node: Node, slices: Mapping[str, LogSlice], progress: Progress, source: StateSource, results: str
) -> Increment:
    """The increment of a node after a progress.

    In: slices   the log commits of each topic after `progress.upto_ms`
        source   the state as of the progress; what it gains goes into its folder
        results  URI of the folder for appended results, or for changes of current ones
    """
    upto_ms = {name: each.through_ms for name, each in slices.items()}
    limits = progress.standing_limits(node.name or "")
    outputs = {RESULTS: results} if node.has_days else {CHANGES: results}
    driving = operator_for(node).driving
    return Increment(progress.clock, slices, upto_ms, limits, source, progress.batch + 1, outputs, driving)


def fold_increment(
    spark: SparkSession, node: Node, increment: Increment, progress: Progress, known: KnownUnusable
) -> FoldedIncrement:
    """Fold rows of the logs into what is held.

    In:     progress  before the increment
            known     asked if a step raises
    Out:    its progress may end before the slices do (see `engine.steps.apart`)
    Raises: UnusableRecordsError when steps raise for too many records
    Law:    folding a log in pieces leads to the same results as folding it whole.
    """
    of = bound(spark, node)
    found, times, apart = fold_usable(spark, of, increment, known)
    sizes, refused = of.operator.kernel.judged(found.outputs, times, progress.bounded)
    after = Progress(
        progress.batch + 1,
        times.after.upto_ms,
        by_place(times.after.stream_ms),
        _closed_ms(node, times.after),
        progress.counted(found.tally),
        _buffer(progress, found),
        _limits(node.name or "", times),
        by_place({place: [*size] for place, size in sizes.items()}),
        sorted(times.after.complete),
        sorted(times.after.idle),
        times.after.lowest_ms,
    )
    written, changes = (found.written.get(name, ()) for name in (RESULTS, CHANGES))
    return FoldedIncrement(written, found.state, after, apart, refused, found.read, changes)


def _closed_ms(node: Node, clock: Clock) -> int | None:
    """Through which time of its clock a node has let go what waited."""
    if node.clock == WALL:
        return max(clock.upto_ms.values(), default=None)
    return clock.lowest_ms


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
