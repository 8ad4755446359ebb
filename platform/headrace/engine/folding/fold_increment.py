"""The one function that folds an increment. The stream, a backfill, a rebuild and the tests call it.

For each piece of the increment, and for each step of the operator in turn:
  1. rows go to buckets by the step's scope (see `exchange`);
  2. a task folds each bucket, with the state that it needs (see `bucket_tasks`);
  3. rows of all buckets go on to the next step, shared rows to each of its buckets.

Law: outputs and merged state do not depend on the number of buckets, on the pieces, or on where tasks run. Each piece has a
BATCH of its own, higher than that of the piece before, and reads what that one wrote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.engine.folding.bucket_tasks import BucketResult, BucketTask, RunTasks, run_in_process
from headrace.engine.folding.exchange import bucket_hashes, exchanged, with_shared
from headrace.engine.state_files import StateSource
from headrace.engine.state_layout import StateLayout
from headrace.engine.state_reads import NO_COST, ReadCost
from headrace.fold.changes.station import Computing
from headrace.fold.contract import INGESTED, StateTable, Step, Times
from headrace.fold.fates import TALLY, sum_tallies
from headrace.fold.relations.station_step import StationStep
from headrace.fold.values.columns import int64
from headrace.lake import NewFile

PIECE_BYTES = 256 << 20
Compute = Callable[[Mapping[str, Computing], pa.Table], pa.Table]
Piece = tuple[pa.Table, Times]


@dataclass(frozen=True)
class Distribution:
    """How an increment is spread. None of it shows in any table.

    buckets      of each step
    piece_bytes  decoded bytes of rows that are folded at a time; a single log commit may have more
    run          runs the tasks of a step
    """

    buckets: int = 1
    piece_bytes: int = PIECE_BYTES
    run: RunTasks = run_in_process


@dataclass(frozen=True)
class FoldResult:
    """The result of one increment. No commit names any of the files yet.

    last_batch  BATCH of the last piece
    outputs     the rows of each output that was not written, by name, piece by piece
    written     the files of each output that was written, by name
    state       files with the new rows of the state
    tally       the number of records of each fate, as `fates.TALLY`
    read        the cost of the state that was read
    """

    last_batch: int
    outputs: Mapping[str, Sequence[pa.Table]] = field(default_factory=dict)
    written: Mapping[str, Sequence[NewFile]] = field(default_factory=dict)
    state: Sequence[NewFile] = ()
    tally: pa.Table = field(default_factory=TALLY.empty_table)
    read: ReadCost = NO_COST


@dataclass(frozen=True)
class Between:
    """The rows that one step passes on to the next.

    rows      each row goes to one bucket
    shared    each row goes to every bucket; None: there are no such rows
    has_rows  False if the step gave no rows: then `rows` is empty, and has the columns of the rows that the step got
    """

    rows: pa.Table
    shared: pa.Table | None = None
    has_rows: bool = True


@dataclass(frozen=True)
class Run:
    """How pieces are folded.

    outputs  for each output that goes into files the URI of its table; rows of all others come back
    kept     the outputs that the state keeps: of these the newest row of each key is a result
    compute  adds the columns of selections, which SQL computes, to rows before a step that asks for them
    """

    outputs: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, StateTable] = field(default_factory=dict)
    how: Distribution = Distribution()
    compute: Compute | None = None

    def increment(
        self, steps: Sequence[Step], rows: pa.Table, times: Times, state: StateSource, *, batch: int
    ) -> FoldResult:
        """Fold an increment of the log.

        In:  rows   decided or undecided, as the first step takes them
             times  the clocks around the increment and after each of its log commits
             state  the files of the state before the increment; new files go into the same folder
             batch  BATCH of the first piece; higher than any that the state holds
        """
        results: list[BucketResult] = []
        batch -= 1
        for piece, clocks in pieces_of(rows, times, self.how.piece_bytes):
            batch += 1
            of_piece = self.through(steps, Between(piece), clocks, state, batch)[0]
            state = state.plus(file for one in of_piece for file in one.state)
            results += of_piece
        return together(results, batch)

    def through(
        self,
        steps: Sequence[Step],
        between: Between,
        times: Times,
        state: StateSource,
        batch: int,
        bucket: tuple[int, int] | None = None,
    ) -> tuple[list[BucketResult], Between]:
        """The results of some steps, without their rows; and what goes on to the step behind them.

        In: bucket  the rows are of this one, with their keys, and none of the steps takes rows of another: its number, and
                    how many there are; None: the rows of all buckets
        """
        everything: list[BucketResult] = []
        for step in steps:
            rows = self._computed(step, between.rows)
            if bucket is None:
                tasks = self._tasks(step, Between(rows, between.shared), times, state, batch)
            else:
                tasks = [self.task(step, with_shared(rows, between.shared), bucket, times, state, batch)]
            found = self.how.run(tasks)
            sharing = [one.shared for one in found if one.shared is not None]
            shared = pa.concat_tables(sharing) if sharing else None
            giving = [one.rows for one in found if one.rows is not None]
            rows = pa.concat_tables(giving) if giving else rows.slice(0, 0)
            between = Between(rows, shared, has_rows=bool(giving))
            everything += [without_rows(one) for one in found]
        return everything, between

    def _tasks(
        self, step: Step, between: Between, times: Times, state: StateSource, batch: int
    ) -> list[BucketTask]:
        buckets = exchanged(step, between.rows, between.shared, self.how.buckets)
        return [
            self.task(step, mine, (number, len(buckets)), times, state, batch)
            for number, mine in enumerate(buckets)
        ]

    def task(
        self,
        step: Step,
        rows: pa.Table,
        bucket: tuple[int, int],
        times: Times,
        state: StateSource,
        batch: int,
    ) -> BucketTask:
        """One bucket of a step. In: rows  its rows; bucket: its number, and how many there are."""
        hashes = bucket_hashes(*bucket)
        files = {n: f for table in step.state for n, f in state.of(table, hashes).files.items()}
        layout = StateLayout({**step.state, **self.kept})
        source = StateSource(state.uri, files)
        return BucketTask(step, rows, times, layout, source, hashes, batch, self.outputs)

    def _computed(self, step: Step, rows: pa.Table) -> pa.Table:
        if not selections_of(step):
            return rows
        assert self.compute is not None, "values of this join are computed by SQL: pass `compute`"
        return self.compute(selections_of(step), rows)


def selections_of(step: Step) -> Mapping[str, Computing]:
    """The selections that SQL has to compute before a step."""
    return step.selections if isinstance(step, StationStep) else {}


def without_rows(one: BucketResult) -> BucketResult:
    """The same without what goes on to the next step."""
    return BucketResult(None, None, one.tally, one.outputs, one.written, one.state, one.read)


def together(results: Sequence[BucketResult], batch: int) -> FoldResult:
    """The results of all buckets and pieces as one. In: batch  BATCH of the last piece."""
    outputs: dict[str, list[pa.Table]] = defaultdict(list)
    written: dict[str, list[NewFile]] = defaultdict(list)
    for one in results:
        for name, rows in one.outputs.items():
            outputs[name].append(rows)
        for name, file in one.written.items():
            written[name].append(file)
    return FoldResult(
        batch,
        dict(outputs),
        dict(written),
        [file for one in results for file in one.state],
        sum_tallies([one.tally for one in results if one.tally is not None]),
        sum((one.read for one in results), NO_COST),
    )


def pieces_of(rows: pa.Table, times: Times, bytes_max: int) -> list[Piece]:
    """Cut an increment. In: bytes_max  decoded bytes of a piece of several log commits."""
    if rows.nbytes <= bytes_max or len(times.commits) < 2:
        return [(rows, times)]
    at_ms = np.array([ms for ms, _ in times.commits], np.int64)
    commit = np.minimum(np.searchsorted(at_ms, int64(rows[INGESTED])), len(at_ms) - 1)
    if (np.diff(commit) < 0).any():
        order = np.argsort(commit, kind="stable")
        rows, commit = rows.take(pa.array(order)), commit[order]
    starts = np.searchsorted(commit, np.arange(len(at_ms) + 1))
    sizes = [rows.slice(starts[n], starts[n + 1] - starts[n]).nbytes for n in range(len(at_ms))]
    return [
        (rows.slice(starts[first], starts[end] - starts[first]), _times(times, first, end))
        for first, end in _runs(sizes, bytes_max)
    ]


def _runs(sizes: Sequence[int], bytes_max: int) -> list[tuple[int, int]]:
    """First commit of each piece, and the one after its last."""
    found, first, total = [], 0, 0
    for number, size in enumerate(sizes):
        if number > first and total + size > bytes_max:
            found.append((first, number))
            first, total = number, 0
        total += size
    return [*found, (first, len(sizes))]


def _times(times: Times, first: int, end: int) -> Times:
    """The clocks of some commits. Limits that were set before them stand as those of time 0."""
    commits = times.commits
    is_last = end == len(commits)
    after_ms = commits[first - 1][0] if first else None
    through_ms = None if is_last else commits[end - 1][0]

    def is_begun(ms: int) -> bool:
        return after_ms is not None and ms <= after_ms

    def is_over(ms: int) -> bool:
        return through_ms is None or ms <= through_ms

    return Times(
        before=commits[first - 1][1] if first else times.before,
        after=times.after if is_last else commits[end - 1][1],
        commits=commits[first:end],
        drains=[ms for ms in times.drains if is_over(ms) and not is_begun(ms)],
        limits=[(0 if is_begun(ms) else ms, said) for ms, said in times.limits if is_over(ms)],
    )
