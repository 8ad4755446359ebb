"""What one task does: type, judge and sequence plain records of some partitions, write them, and report."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.log.chain import ARROW, NO_ORDINAL
from headrace.log.columns import DEAD_LETTER, RECORD, SKIPPING
from headrace.log.decode import LAST_TIMESTAMP_MS
from headrace.log.plain.chain import paths_of, read_chains
from headrace.log.plain.decode import OddError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.log.plain.records import Reader

REPORT = "report STRING"
HEADER_NAMES, HEADER_VALUES = "header_names", "header_values"
ROWS_MAX, BYTES_MAX = 1 << 17, 32 << 20  # of records that are worked on at once
# Of these nearly each value is another, and a dictionary of them nothing but work.
DIFFERENT = frozenset({"offset", "timestamp", "stream_time", "root_offset", "headers.list.element.value"})
NOTHING = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Work:
    """What a task is told. Times in ms.

    topic          its name
    reader         of its records
    header         of source chains; None: the topic has no guard
    schema         the log's, as Arrow's
    folder         of the table, on a disk that every task sees
    at_ms          the commit's `ingested_at`
    next_offsets   of each partition: what lies before is in the log already
    stream_ms      of each partition that has one; lowest_ms: where a new one starts
    highest        of each path the highest root offset that the guard has seen
    """

    topic: str
    reader: Reader
    header: str | None
    schema: pa.Schema
    folder: str
    at_ms: int
    next_offsets: Mapping[int, int]
    stream_ms: Mapping[int, int]
    lowest_ms: int | None
    highest: Mapping[str, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """For `mapInArrow`: records in, of each task one report out (JSON)."""
        task = Task(self)
        try:
            for records in _in_chunks(batches):
                task.take(records)
            report = task.finish()
        except OddError as odd:
            task.give_up()
            report = {"odd": str(odd)}
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})


def _in_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_MAX or size >= BYTES_MAX:
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]


@dataclass
class Partition:
    """How far a partition was taken."""

    next_offset: int
    stream_ms: int | None  # as of its last row
    found: bool = False  # whether a record of this commit counts in it


@dataclass
class Task:
    """Takes records chunk by chunk."""

    work: Work
    partitions: dict[int, Partition] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)  # of each path that came here
    records: int = 0
    dead_letters: int = 0
    replays: int = 0
    largest: int = 0  # of their sizes in bytes

    def __post_init__(self) -> None:
        """Nothing is written yet."""
        self.path = Path(self.work.folder) / f"part-00000-{uuid4()}-c000.snappy.parquet"
        self._writer: pq.ParquetWriter | None = None
        self._bounds: dict[str, tuple[int, int, int]] = {}

    def take(self, records: pa.RecordBatch) -> None:
        """Work out and write some records: of a partition in the order of their offsets."""
        records = self._new(records)
        if not records.num_rows:
            return
        work, rows = self.work, records.num_rows
        raw_key, raw_value = records.column("key"), records.column("value")
        read = work.reader.read(raw_key, raw_value, records.column("ms"))
        headers = _headers(records.column(HEADER_NAMES), records.column(HEADER_VALUES))
        partition = records.column("partition").to_numpy()
        offset = records.column("offset").to_numpy()
        dead, event_ms = read.dead, read.event_ms
        replay = np.zeros(rows, bool)
        chain: dict[str, pa.Array] = {}
        if work.header is not None:
            chain, replay = self._judge(headers, partition, offset, dead)
        stream_ms = self._sequence(partition, offset, event_ms, ~(replay | dead))
        dated_ms = np.where((event_ms < 0) | (event_ms > LAST_TIMESTAMP_MS), NOTHING, event_ms)
        sizes = pc.add(*(pc.binary_length(raw).fill_null(0) for raw in (raw_key, raw_value)))
        self._write(
            {
                "ingested_at": np.full(rows, work.at_ms * 1000),
                "kind": _one_of((RECORD, DEAD_LETTER), dead.astype(np.int32)),
                "topic": _one_of((work.topic,), np.zeros(rows, np.int32)),
                "partition": records.column("partition"),
                "offset": records.column("offset"),
                "timestamp": _micros(dated_ms),
                "stream_time": _micros(stream_ms),
                "key": read.keys,
                "value": read.values,
                "headers": _null_if_empty(headers),
                "tombstone": raw_value.is_null(),
                "size_bytes": sizes,
                **chain,
                "replay": replay,
                **_of_dead_letters(read.reasons, dead, raw_key, raw_value),
            },
            rows,
        )
        self.records += rows
        self.dead_letters += len(read.reasons)
        self.replays += int(replay.sum())
        self.largest = max(self.largest, pc.max(sizes).as_py())
        self._bound("partition", partition)
        self._bound("offset", offset)
        self._bound("timestamp", dated_ms)
        self._bound("stream_time", stream_ms)

    def finish(self) -> dict[str, Any]:
        """What was written and found, as JSON."""
        file = None
        if self._writer is not None:
            self._writer.close()
            file = {"path": self.path.name, "size": self.path.stat().st_size, "stats": self._stats()}
        return {
            "file": file,
            "records": self.records,
            "dead_letters": self.dead_letters,
            "replays": self.replays,
            "largest": self.largest,
            "last": [[p, s.next_offset - 1, s.stream_ms] for p, s in self.partitions.items()],
            "seen": [[path, at, [NO_ORDINAL] * path.count(ARROW)] for path, at in self.highest.items()],
        }

    def give_up(self) -> None:
        """Leave no file behind."""
        if self._writer is not None:
            self._writer.close()
        self.path.unlink(missing_ok=True)

    def _new(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records that the log does not hold yet: a repeated micro-batch adds nothing."""
        partition, offset = (records.column(name).to_numpy() for name in ("partition", "offset"))
        old = np.zeros(len(offset), bool)
        for number in np.unique(partition):
            old |= (partition == number) & (offset < self.work.next_offsets.get(int(number), 0))
        return records.filter(pa.array(~old)) if old.any() else records

    def _judge(
        self, headers: pa.ListArray, partition: np.ndarray, offset: np.ndarray, dead: np.ndarray
    ) -> tuple[dict[str, pa.Array], np.ndarray]:
        """The chain's columns, null in dead letters, and which records are replays (see `headrace.log.monotone`)."""
        alive = np.flatnonzero(~dead)
        partition, offset = partition[alive], offset[alive]
        chains = read_chains(
            headers if len(alive) == len(dead) else headers.take(pa.array(alive)), self.work.header or ""
        )
        own = chains.route == 0
        root_offset = np.where(own, offset, chains.offsets)
        paths, path = paths_of(chains, self.work.topic, partition)
        roots = [route[0] if route else (self.work.topic, -1) for route in chains.routes]
        names = sorted({name for name, _ in roots})
        root = np.array([names.index(name) for name, _ in roots], np.int32)[chains.route]
        root_partition = np.array([number for _, number in roots], np.int32)[chains.route]
        hops = np.array([len(route) for route in chains.routes])[chains.route]
        starts = np.concatenate([[0], np.cumsum(hops)]).astype(np.int32)
        ordinals = pa.array(np.full(starts[-1], NO_ORDINAL, np.int32))
        columns = {
            "root_topic": _one_of(names, root),
            "root_partition": pa.array(np.where(own, partition, root_partition)),
            "root_offset": pa.array(root_offset),
            "ordinals": pa.ListArray.from_arrays(pa.array(starts), ordinals),
            "path": _one_of(paths, path.astype(np.int32)),
        }
        replay = np.zeros(len(dead), bool)
        replay[alive] = self._replays(paths, path, root_offset)
        if len(alive) < len(dead):
            place = pa.array(np.cumsum(~dead) - 1, mask=dead)
            columns = {name: column.take(place) for name, column in columns.items()}
        return columns, replay

    def _replays(self, paths: list[str], path: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Whether each position lies not beyond the highest before it on its path; the highest are kept."""
        replay = np.zeros(len(path), bool)
        order = np.argsort(path, kind="stable")
        sizes = np.bincount(path, minlength=len(paths))
        begin = 0
        for name, size in zip(paths, sizes, strict=True):
            mine = order[begin : begin + size]
            begin += size
            known = self.highest.get(name, self.work.highest.get(name, -1))
            reached = np.maximum.accumulate(np.concatenate([[known], at[mine]]))
            replay[mine] = at[mine] <= reached[:-1]
            self.highest[name] = int(reached[-1])
        return replay

    def _sequence(
        self, partition: np.ndarray, offset: np.ndarray, event_ms: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """Stream time (see `headrace.log.sequence`), `NOTHING` where there is none yet."""
        work, result = self.work, np.empty(len(offset), np.int64)
        for number in np.unique(partition).tolist():
            mine = np.flatnonzero(partition == number)
            at = self.partitions.get(number)
            if at is None:
                known = work.stream_ms.get(number)
                at = Partition(work.next_offsets.get(number, 0), known)
                begins = work.lowest_ms if known is None else known
            else:
                begins = at.stream_ms if at.found else work.stream_ms.get(number, work.lowest_ms)
            if offset[mine[0]] < at.next_offset or np.any(np.diff(offset[mine]) <= 0):
                raise OddError("records out of order")
            before = NOTHING if begins is None else begins
            counted = np.where(counts[mine], event_ms[mine], NOTHING)
            found = np.logical_or.accumulate(counts[mine]) | at.found
            highest = np.maximum(np.maximum.accumulate(counted), before)
            unfound = NOTHING if at.stream_ms is None else at.stream_ms
            result[mine] = np.where(found, highest, unfound)
            last = int(result[mine[-1]])
            self.partitions[number] = Partition(
                int(offset[mine[-1]]) + 1, None if last == NOTHING else last, bool(found[-1])
            )
        return result

    def _write(self, columns: Mapping[str, Any], rows: int) -> None:
        arrays = [_as_column(columns.get(each.name), each.type, rows) for each in self.work.schema]
        table = pa.Table.from_arrays(arrays, names=self.work.schema.names)
        if self._writer is None:
            repeating = [name for name in _leaves(table.schema) if name not in DIFFERENT]
            self._writer = pq.ParquetWriter(
                self.path,
                table.schema,
                compression="snappy",
                use_dictionary=repeating,
                write_statistics=list(SKIPPING),
                store_schema=False,
            )
        self._writer.write_table(table, row_group_size=rows)

    def _bound(self, name: str, numbers: np.ndarray) -> None:
        numbers, all_rows = numbers[numbers != NOTHING], len(numbers)
        lowest, highest, nulls = self._bounds.get(name, (np.iinfo(np.int64).max, NOTHING, 0))
        if len(numbers):
            lowest, highest = min(lowest, int(numbers.min())), max(highest, int(numbers.max()))
        self._bounds[name] = lowest, highest, nulls + all_rows - len(numbers)

    def _stats(self) -> str:
        """Statistics of the file by Delta's protocol."""
        at = {name: (low, high) for name, (low, high, _) in self._bounds.items() if high != NOTHING}
        at["ingested_at"] = self.work.at_ms, self.work.at_ms
        kinds = [DEAD_LETTER] * (self.dead_letters > 0) + [RECORD] * (self.records > self.dead_letters)
        times = ("ingested_at", "timestamp", "stream_time")
        lowest, highest = (
            {name: _iso(bounds[side]) if name in times else bounds[side] for name, bounds in at.items()}
            for side in (0, 1)
        )
        nulls = {name: nulls for name, (_, _, nulls) in self._bounds.items()} | {"ingested_at": 0, "kind": 0}
        return json.dumps(
            {
                "numRecords": self.records,
                "minValues": lowest | {"kind": kinds[0]},
                "maxValues": highest | {"kind": kinds[-1]},
                "nullCount": nulls,
            }
        )


def _iso(ms: int) -> str:
    return f"{np.datetime64(ms, 'ms')}Z"


def _leaves(fields: Iterable[pa.Field], within: str = "") -> Iterator[str]:
    """The columns of a Parquet file, by their paths."""
    for each in fields:
        path, held = f"{within}{each.name}", each.type
        while pa.types.is_list(held):
            path, held = f"{path}.list.element", held.value_type
        if pa.types.is_struct(held):
            yield from _leaves(held, f"{path}.")
        else:
            yield path


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


def _one_of(texts: Sequence[str], which: np.ndarray) -> pa.DictionaryArray:
    """Text that repeats."""
    return pa.DictionaryArray.from_arrays(pa.array(which), pa.array(texts, pa.string()))


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


def _as_column(column: Any, wanted: pa.DataType, rows: int) -> pa.Array:
    """A column in the log's type; text that repeats stays encoded by a dictionary."""
    if column is None:
        return pa.nulls(rows, wanted)
    if isinstance(column, np.ndarray):
        column = pa.array(column)
    if column.type == wanted or isinstance(column, pa.DictionaryArray):
        return column
    return column.cast(wanted)
