"""One task: it folds one bucket of one step, reads the state that the bucket needs, and writes the new state.

Law: a task depends only on its fields and on the files that it names. So it may run anywhere, and more than once.
A failed task leaves files that no commit names; vacuum deletes them.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from headrace.engine.state_files import StatePlace, StateSource, write_state
from headrace.engine.state_layout import StateLayout
from headrace.engine.state_needs import Bounds
from headrace.engine.state_reads import NO_COST, ReadCost, read_state
from headrace.fold.contract import HASH, Needs, Step, Times
from headrace.lake import DataFileWriter, Encoding, NewFile

OUTPUT_GROUP_ROWS = 16_384  # the least that a reader of one key decodes


@dataclass(frozen=True)
class BucketResult:
    """The result of a task.

    rows, shared, tally  as in `contract.Folded`
    outputs     rows of the outputs that the task did not write
    written     the file of each output that the task wrote
    state       the files with the new rows of the state
    read        the cost of the state that the task has read
    """

    rows: pa.Table | None = None
    shared: pa.Table | None = None
    tally: pa.Table | None = None
    outputs: Mapping[str, pa.Table] = field(default_factory=dict)
    written: Mapping[str, NewFile] = field(default_factory=dict)
    state: Sequence[NewFile] = ()
    read: ReadCost = NO_COST


@dataclass(frozen=True)
class BucketTask:
    """One bucket of one step. It can be pickled.

    rows     of the bucket, shared ones among them
    source   the files of the state in which the bucket may have rows
    hashes   the lowest and the highest hash of the bucket
    batch    as BATCH of what it writes
    layout   of the state tables of the step, and of outputs that the state keeps
    outputs  for each output that goes into files the URI of its Delta table
    """

    step: Step
    rows: pa.Table
    times: Times
    layout: StateLayout
    source: StateSource
    hashes: Bounds
    batch: int
    outputs: Mapping[str, str] = field(default_factory=dict)

    def __call__(self) -> BucketResult:
        """Fold the bucket."""
        state, cost = self._read(self.step.needs(self.rows, self.times))
        more, more_cost = self._read(self.step.needs_more(self.rows, state, self.times))
        state, cost = state | more, cost + more_cost
        folded = self.step.fold(self.rows, state, self.times)
        kept = {name: rows for name, rows in folded.outputs.items() if name in self.layout.tables}
        gained = [
            write_state(
                StatePlace(self.source.uri, self.layout, name), rows, self.batch, remember=name not in kept
            )
            for name, rows in {**folded.changes, **kept}.items()  # no micro-batch reads what is kept
        ]
        written = {
            name: write_output(self.outputs[name], stored_columns(rows))
            for name, rows in folded.outputs.items()
            if name in self.outputs and rows.num_rows
        }
        return BucketResult(
            folded.rows,
            folded.shared,
            folded.tally,
            {n: rows for n, rows in folded.outputs.items() if n not in self.outputs and n not in kept},
            written,
            [file for file in gained if file is not None],
            cost,
        )

    def _read(self, needs: Mapping[str, Needs]) -> tuple[dict[str, pa.Table], ReadCost]:
        """The rows of state tables, and their cost."""
        found = {
            name: read_state(self.source, self.layout, name, need, self.hashes)
            for name, need in needs.items()
        }
        return {name: each.rows for name, each in found.items()}, sum(
            (each.cost for each in found.values()), NO_COST
        )


class RunTasks(Protocol):
    """How the tasks of a step are run.

    Law: each task runs at least once, and one result of each comes back, in the order of the tasks.
    """

    def __call__(self, tasks: Sequence[BucketTask]) -> Sequence[BucketResult]:
        """Run tasks that do not depend on one another."""


def run_in_process(tasks: Sequence[BucketTask]) -> Sequence[BucketResult]:
    """One task after the other; Arrow uses the cores within each."""
    return [task() for task in tasks]


def run_in_threads(tasks: Sequence[BucketTask]) -> Sequence[BucketResult]:
    """The tasks at once, a thread for each: Arrow and NumPy let other threads run while they work on many rows.

    Raises: what a task raises; none of them is at work by then
    """
    with ThreadPoolExecutor(len(tasks)) as pool:
        return [*pool.map(operator.call, tasks)]


def stored_columns(rows: pa.Table) -> pa.Table:
    """The columns of an output that its table has: nobody looks for final rows by their hash."""
    return rows.drop_columns([HASH]) if HASH in rows.column_names else rows


def write_output(uri: str, rows: pa.Table) -> NewFile:
    """Write output rows into a file in the folder of their table. In: at least one row."""
    writer = DataFileWriter(uri, rows.schema, Encoding())
    try:
        for at in range(0, rows.num_rows, OUTPUT_GROUP_ROWS):
            part = rows.slice(at, OUTPUT_GROUP_ROWS)
            columns = dict(zip(part.column_names, part.columns, strict=True))
            writer.write(columns, part.num_rows)
            writer.bound_numbers(columns)
        written = writer.close()
    except BaseException:
        writer.remove()
        raise
    assert written is not None
    return NewFile(**written)
