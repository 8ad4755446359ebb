"""What one task does with plain records: type, judge, sequence, write, report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lake.data_file import NOTHING, DataFileWriter, Encoding
from headrace.log.columns import DEAD_LETTER, RECORD, SKIPPING
from headrace.log.decode import LAST_TIMESTAMP_MS
from headrace.log.plain.decode import OddError
from headrace.log.plain.judge import Judge, repeating
from headrace.log.plain.sequence import StreamTimes
from headrace.spark import workers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.log.monotone import Position
    from headrace.log.plain.records import Reader
    from headrace.log.plain.sequence import Known

HEADER_NAMES, HEADER_VALUES = "header_names", "header_values"
ENCODING = Encoding(
    repeating=frozenset({"kind", "topic", "root_topic", "path"}),
    different=frozenset({"offset", "timestamp", "stream_time", "root_offset", "headers.list.element.value"}),
    statistics=SKIPPING,
)
ROWS_MAX, BYTES_MAX = 1 << 17, 32 << 20  # of records that are worked on at once


@dataclass(frozen=True)
class Work:
    """What a task is told.

    topic    its name
    reader   of its records
    header   of source chains; None: the topic has no guard
    highest  of each path the highest position that the guard has seen
    known    of the log's partitions
    at_ms    the commit's `ingested_at`
    schema   the log's, as Arrow's
    folder   URI of the table
    """

    topic: str
    reader: Reader
    header: str | None
    highest: Mapping[str, Position]
    known: Known
    at_ms: int
    schema: pa.Schema
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """For `mapInArrow`: records in, of each task one report out (JSON)."""
        workers.settle()
        task = Task(self)
        try:
            for records in _in_chunks(batches):
                task.take(records)
            report = task.finish()
        except OddError as odd:
            task.give_up()
            report = {"odd": str(odd)}
        except (pa.ArrowException, ArithmeticError, ValueError) as error:
            # Of this nobody thought; but no record stops a stream.
            task.give_up()
            report = {"odd": f"{type(error).__name__}: {error}", "unexpected": True}
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})


class Task:
    """Takes records chunk by chunk."""

    def __init__(self, work: Work) -> None:
        """Nothing came yet."""
        self._work = work
        self._times = StreamTimes(work.known)
        self._judge = None if work.header is None else Judge(work.topic, work.header, work.highest)
        self._file = DataFileWriter(work.folder, work.schema, ENCODING)
        self._records = self._dead_letters = self._replays = self._largest = 0

    def take(self, records: pa.RecordBatch) -> None:
        """Work out and write some records: of a partition in the order of their offsets."""
        partition, offset = (records.column(name).to_numpy() for name in ("partition", "offset"))
        new = self._times.is_new(partition, offset)
        if not new.all():
            records, partition, offset = records.filter(pa.array(new)), partition[new], offset[new]
        rows = records.num_rows
        if not rows:
            return
        raw_key, raw_value = records.column("key"), records.column("value")
        headers = _headers(records.column(HEADER_NAMES), records.column(HEADER_VALUES))
        read = self._work.reader.read(raw_key, raw_value, records.column("ms"))
        dead, event_ms = read.dead, read.event_ms
        replay = np.zeros(rows, bool)
        chain: Mapping[str, pa.Array] = {}
        if self._judge is not None:
            chain, replay = self._judge.judge(headers, partition, offset, dead)
        stream_ms = self._times.assign(partition, offset, event_ms, ~(replay | dead))
        dated_ms = np.where((event_ms < 0) | (event_ms > LAST_TIMESTAMP_MS), NOTHING, event_ms)
        sizes = pc.add(*(pc.binary_length(raw).fill_null(0) for raw in (raw_key, raw_value)))
        keys = {} if read.keys is None else {"key": read.keys}
        columns = keys | {
            "ingested_at": _micros(np.full(rows, self._work.at_ms)),
            "kind": repeating((RECORD, DEAD_LETTER), dead.astype(np.int32)),
            "topic": repeating((self._work.topic,), np.zeros(rows, np.int32)),
            "partition": records.column("partition"),
            "offset": records.column("offset"),
            "timestamp": _micros(dated_ms),
            "stream_time": _micros(stream_ms),
            "value": read.values,
            "headers": _null_if_empty(headers),
            "tombstone": raw_value.is_null(),
            "size_bytes": sizes,
            "replay": pa.array(replay),
        }
        of_dead = _of_dead_letters(read.reasons, dead, raw_key, raw_value)
        self._file.write({**columns, **chain, **of_dead}, rows)
        self._records += rows
        self._dead_letters += len(read.reasons)
        self._replays += int(replay.sum())
        self._largest = max(self._largest, pc.max(sizes).as_py())
        self._bound(partition, offset, dated_ms, stream_ms, dead)

    def finish(self) -> dict[str, Any]:
        """What was written and found, as JSON."""
        return {
            "file": self._file.close(),
            "records": self._records,
            "dead_letters": self._dead_letters,
            "replays": self._replays,
            "largest": self._largest,
            "last": self._times.last_rows(),
            "seen": [] if self._judge is None else self._judge.seen(),
        }

    def give_up(self) -> None:
        """Leave no file behind."""
        self._file.remove()

    def _bound(
        self,
        partition: np.ndarray,
        offset: np.ndarray,
        dated_ms: np.ndarray,
        stream_ms: np.ndarray,
        dead: np.ndarray,
    ) -> None:
        """Of the columns by which Delta skips files."""
        self._file.bound("partition", partition)
        self._file.bound("offset", offset)
        self._file.bound("timestamp", dated_ms, in_ms=True)
        self._file.bound("stream_time", stream_ms, in_ms=True)
        self._file.bound("ingested_at", np.array([self._work.at_ms]), in_ms=True)
        self._file.bound_by(
            "kind", DEAD_LETTER if dead.any() else RECORD, DEAD_LETTER if dead.all() else RECORD
        )


def _in_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches joined: what a chunk costs whatever it holds is shared by many records."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_MAX or size >= BYTES_MAX:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def _headers(names: pa.ListArray, values: pa.ListArray) -> pa.ListArray:
    """Kafka's headers, of which the names and the values came apart."""
    pairs = pa.StructArray.from_arrays([names.flatten(), values.flatten()], ["key", "value"])
    starts = np.concatenate([[0], np.cumsum(pc.list_value_length(names).to_numpy())])
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pairs)


def _null_if_empty(lists: pa.ListArray) -> pa.Array:
    """Spark's Kafka source gives null for a record without headers."""
    if not len(lists.values):
        return pa.nulls(len(lists), lists.type)
    empty = pc.equal(pc.list_value_length(lists), 0)
    return pc.if_else(empty, pa.scalar(None, lists.type), lists) if pc.any(empty).as_py() else lists


def _micros(ms: np.ndarray) -> pa.Array:
    return pa.array(ms * 1000, pa.int64(), mask=ms == NOTHING)


def _of_dead_letters(
    reasons: Mapping[int, str], dead: np.ndarray, raw_key: pa.Array, raw_value: pa.Array
) -> dict[str, pa.Array]:
    """What is kept of dead letters alone."""
    if not reasons:
        return {}
    mask, nothing = pa.array(dead), pa.scalar(None, pa.binary())
    return {
        "reason": pa.array([reasons.get(row) for row in range(len(dead))], pa.string()),
        "raw_key": pc.if_else(mask, raw_key, nothing),
        "raw_value": pc.if_else(mask, raw_value, nothing),
    }
