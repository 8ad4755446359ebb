"""One Spark task of a log commit: it sequences records, writes their rows to a file, and reports.

Law: that of `headrace.sequence`. The number of tasks and the size of chunks change no row.
A task has whole partitions, each in the order of its offsets. With the exact guard one task has all records of a commit, by
partition and offset, for a root position may come in any partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.lake.files.data_file import DataFileWriter
from headrace.log.decision_rows import ENCODING
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_columns import DEAD_LETTER, RECORD, SKIPPING
from headrace.sequence.log_state import LogState
from headrace.sequence.readers.gunzip import in_pieces
from headrace.sequence.replays.exact import ExactGuard
from headrace.sequence.replays.guards import Guard
from headrace.sequence.replays.monotone import MonotoneGuard
from headrace.sequence.sequence_records import RECORDS, VALUES, Sequencer, judge
from headrace.sequence.stream_time import is_new
from headrace.spark.workers import in_worker

COLUMNS = tuple(RECORDS.names)  # of what comes to a task
ROWS_MAX, BYTES_MAX = 1 << 17, 32 << 20  # of records that are worked on at once
UNPACKED_BYTES_MAX = 32 << 20  # of the same without compression; one record alone may have half of it


@dataclass(frozen=True)
class RecordTask:
    """Sequences the records of some partitions.

    state, guard  of the log before the commit; guard None: the topic has none
    at_ms         the commit's `ingested_at`
    schema        of the log's table
    folder        URI of the log's table
    """

    of: RecordFormat
    state: LogState
    guard: Guard | None
    at_ms: int
    schema: pa.Schema
    folder: str

    @in_worker
    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """For `mapInArrow`: take records, yield one report (JSON).

        In:  batches  with COLUMNS, one row per record
        Out: `file` (see `NewFile`; null without rows), `records` and, of these, `dead_letters` and `replays`; `largest`,
             no less than the bytes of the largest record; `ends`, of each partition the last offset and stream time;
             `guard`, what `merge_guards` takes; `asked`, the schemas that have to be known first (see `Decoded.asked`):
             if there are any, nothing was written, and the rest does not count
        """
        report, file = self.sequence(batches)
        if report["asked"]:
            file.remove()
        written = None if report["asked"] else file.close()
        yield pa.RecordBatch.from_pydict({"report": [json.dumps({**report, "file": written})]})

    def sequence(self, batches: Iterable[pa.RecordBatch]) -> tuple[dict[str, Any], DataFileWriter]:
        """The same in the process that calls this: the report, and the file, which is still open.

        In: batches  as for `__call__`
        """
        work = _Work(self)
        try:
            for records in in_chunks(batches):
                for piece in in_pieces(records, self.of.compressed, UNPACKED_BYTES_MAX):
                    work.take(piece)
            return work.report(), work.file
        except BaseException:
            work.file.remove()
            raise


def merge_guards(before: Guard | None, reported: Iterable[Mapping[str, Any] | None]) -> Guard | None:
    """The guard after a commit. In: reported  by its tasks."""
    guard = before
    for document in reported:
        match guard:
            case MonotoneGuard() if document is not None:
                guard = guard.joined(MonotoneGuard.from_json(document))
            case ExactGuard(gaps_max=gaps_max) if document is not None:
                guard = ExactGuard.from_json(document, gaps_max)  # there is one task
    return guard


class _Work:
    """Takes records chunk by chunk."""

    def __init__(self, task: RecordTask) -> None:
        self._task, self._sequencer = task, Sequencer(task.of)
        self.file = DataFileWriter(task.folder, task.schema, ENCODING)
        self._state, self._guard = task.state, task.guard
        if isinstance(self._guard, ExactGuard):
            self._guard = self._guard.unbounded()
        self._lowest_ms = task.state.lowest_stream_ms()
        self._ends: dict[int, tuple[int | None, int | None]] = {}
        self._records = self._dead_letters = self._replays = self._largest = 0
        self._asked: set[tuple[str, int]] = set()

    def take(self, records: pa.Table) -> None:
        """Work out and write some records, which go on from those before."""
        at_ms = self._task.at_ms
        read = self._sequencer.read(records, self._state, at_ms)
        self._asked |= read.decoded.asked
        if self._asked:
            return
        rows = read.records.num_rows
        self._require_order(records, rows)
        if not rows:
            return
        read, replay, self._guard = judge(read, self._guard)
        columns, ends = self._sequencer.finish(read, replay, self._state, at_ms, self._lowest_ms)
        self.file.write(columns, rows)
        self.file.bound_numbers({name: columns[name] for name in SKIPPING})
        dead = ~read.alive
        self.file.bound_by(
            "kind", DEAD_LETTER if dead.any() else RECORD, DEAD_LETTER if dead.all() else RECORD
        )
        self._state = self._state.after(at_ms, ends)
        self._ends |= {end.partition: (end.offset, end.stream_ms) for end in ends}
        self._records += rows
        self._dead_letters += int(dead.sum())
        self._replays += int(replay.sum())
        self._largest = max(self._largest, pc.max(columns["size_bytes"]).as_py() + _header_bytes_max(records))

    def _require_order(self, records: pa.Table, taken: int) -> None:
        """A record that the log lacks is taken, or its partition came out of order, and it would be lost."""
        if taken == records.num_rows:
            return
        starts = self._task.state.next_offsets
        new = is_new(records["partition"].to_numpy(), records["offset"].to_numpy(), starts)
        if int(new.sum()) != taken:
            raise ValueError(
                f"Topic '{self._task.of.topic}': records of a partition did not come in the order of offsets."
            )

    def report(self) -> dict[str, Any]:
        return {
            "asked": sorted(self._asked),
            "records": self._records,
            "dead_letters": self._dead_letters,
            "replays": self._replays,
            "largest": self._largest,
            "ends": [[partition, *end] for partition, end in self._ends.items()],
            "guard": self._learnt(),
        }

    def _learnt(self) -> Mapping[str, Any] | None:
        """The guard's report: of a monotone guard the paths that moved, of an exact guard its whole state."""
        before, guard = self._task.guard, self._guard
        if isinstance(guard, MonotoneGuard) and isinstance(before, MonotoneGuard):
            return guard.moved_since(before).to_json()
        if isinstance(guard, ExactGuard) and isinstance(before, ExactGuard):
            return guard.bounded(before.gaps_max).to_json()
        return None


def _header_bytes_max(records: pa.Table) -> int:
    """At least the bytes of the headers of any record."""
    values = records[VALUES].combine_chunks()
    longest = pc.max(pc.binary_length(values.flatten())).as_py() or 0
    return int(longest * (pc.max(pc.list_value_length(values)).as_py() or 0))


def in_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches, so that many records share a chunk's fixed cost."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_MAX or size >= BYTES_MAX:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)
