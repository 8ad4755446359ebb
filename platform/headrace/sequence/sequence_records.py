"""One log commit: Kafka records in, rows of the log out, and the state after them.

Law: L1 to L3 and L13. The union of the rows does not depend on how records were cut into commits, but for what the
commit decides: `ingested_at`, what lies too far ahead, and where a new partition starts. No record raises an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.values.columns import moments, table_of
from headrace.sequence.decode import NOTHING, Decoded, Decoder
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_rows import HEADERS, chain_columns, log_schema, record_columns
from headrace.sequence.log_state import LastRow, LogState, PartitionState
from headrace.sequence.replays.chains import Chains, in_headers, malformed_reason, read_chains
from headrace.sequence.replays.chains_in_values import in_values, with_chains
from headrace.sequence.replays.contents import Contents
from headrace.sequence.replays.guards import Guard
from headrace.sequence.replays.verdicts import AMBIGUOUS_REASON
from headrace.sequence.stream_time import assign_stream_time, last_rows, new_in_order

NAMES, VALUES = "header_names", "header_values"
# Raw records on their way to a sequencer, one row per record.
RECORDS = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        (NAMES, pa.list_(pa.string())),
        (VALUES, pa.list_(pa.binary())),
    ]
)


@dataclass(frozen=True)
class Read:
    """Records that were decided about one by one, by partition and offset.

    records  in one chunk each: `partition`, `offset`, `key`, `value`, `timestamp`, `headers`
    chains   None: the topic has no guard; `contents`: the bytes that a guard compares
    """

    records: pa.Table
    decoded: Decoded
    chains: Chains | None
    contents: Contents = field(default_factory=Contents)

    @property
    def alive(self) -> np.ndarray:
        """Which are no dead letters."""
        return ~self.decoded.reasons.dead


@dataclass(frozen=True)
class Sequenced:
    """The rows that one commit adds to a log, and the state after it.

    rows          in the columns of `log_schema`, by partition and offset
    ends          the last row of each partition
    state, guard  after the commit; guard None: the topic has none
    records       the number of rows; `dead_letters` and `replays` of them are such
    """

    rows: pa.Table
    ends: tuple[LastRow, ...]
    state: LogState
    guard: Guard | None
    records: int
    dead_letters: int
    replays: int


class Sequencer:
    """Sequences the records of one topic.

    `sequence` does all at once. Its parts may run elsewhere: `read` wherever some of the records are, `judge` where all of a
    partition are (with the exact guard: all of the commit), `finish` where all of a partition are.
    """

    def __init__(self, of: RecordFormat) -> None:
        self._of = of
        self._decoder = Decoder(of)
        self.schema = log_schema(of)

    def sequence(self, records: pa.Table, state: LogState, guard: Guard | None, at_ms: int) -> Sequenced:
        """Decide about the records of one commit.

        In: records  as for `read`
            state    of the log before the commit
            guard    before the commit; None: the topic has none
            at_ms    the commit's `ingested_at`
        """
        read = self.read(records, state, at_ms)
        read, replay, after = judge(read, guard)
        columns, ends = self.finish(read, replay, state, at_ms, state.lowest_stream_ms())
        rows, records = table_of(self.schema, columns, len(replay)), len(replay)
        dead_letters = records - int(read.alive.sum())
        after_commit = state.after(at_ms, ends)
        return Sequenced(rows, ends, after_commit, after, records, dead_letters, int(replay.sum()))

    def read(self, records: pa.Table, state: LogState, at_ms: int) -> Read:
        """Decide about records one by one: what each holds, and where it comes from.

        In: records  one row per record, in any order: `partition` INT, `offset` BIGINT, `key` and `value` BINARY,
                     `timestamp` BIGINT (Kafka's, in ms, any number), and `headers` ARRAY<STRUCT<key: STRING, value:
                     BINARY>> or, side by side, `header_names` and `header_values`; less than 2 GiB. Offsets that the
                     log holds are passed over
        """
        records = _new(_arranged(records), state.partitions)
        key, value, kafka_ms = (records[name].chunk(0) for name in ("key", "value", "timestamp"))
        headers = records["headers"].chunk(0)
        decoded = self._decoder.decode(key, value, kafka_ms, at_ms, headers)
        if self._of.guard is None:
            return Read(records, decoded, None)
        guard, (partition, offset) = self._of.guard, _places(records)
        at, texts = (
            in_headers(headers, guard.log_header)
            if guard.path is None
            else in_values(decoded.values, guard.path)
        )
        chains = read_chains(at, texts, self._of.topic, partition, offset)
        contents = Contents.of(records, at, texts)
        decoded.reasons.add(chains.malformed, malformed_reason(guard.place))
        if guard.path is not None:
            alive = ~decoded.reasons.dead[at]
            headers = with_chains(headers, at[alive], texts.filter(pa.array(alive)))
            records = records.set_column(records.column_names.index("headers"), "headers", headers)
        return Read(records, decoded, chains, contents)

    def finish(
        self, read: Read, replay: np.ndarray, state: LogState, at_ms: int, lowest_ms: int | None
    ) -> tuple[dict[str, pa.Array], tuple[LastRow, ...]]:
        """Columns of the log, and the last row of each partition.

        Law: a record without an event time gets its row's stream time, and moves none; null while there is none.
        In: replay     which records are
            state      after the records of this commit that came before
            lowest_ms  where the stream time of a new partition starts: the lowest one before the commit
        """
        partition, offset = _places(read.records)
        event_ms, stream_times = read.decoded.event_ms, _stream_times(state)
        undated = read.alive & (event_ms == NOTHING)
        counts = read.alive & ~replay & ~undated
        stream_ms = assign_stream_time(partition, event_ms, counts, stream_times, lowest_ms)
        decoded = replace(read.decoded, event_ms=np.where(undated, stream_ms, event_ms))
        columns = record_columns(read.records, decoded, self._of.topic, at_ms, keep_raw=self._of.keep_raw)
        columns |= {"stream_time": moments(stream_ms, NOTHING), "replay": pa.array(replay)}
        columns |= {} if read.chains is None else chain_columns(read.chains, ~read.alive)
        ends = tuple(LastRow(*row) for row in last_rows(partition, offset, stream_ms))
        return columns, ends


def judge(read: Read, guard: Guard | None) -> tuple[Read, np.ndarray, Guard | None]:
    """The records as the guard numbers them, which are replays, and the guard after. Ambiguous ones are dead letters."""
    if guard is None or read.chains is None:
        return read, np.zeros(read.records.num_rows, bool), guard
    verdicts, after = guard.judge(read.chains, read.alive, read.contents)
    read.decoded.reasons.add(verdicts.ambiguous, AMBIGUOUS_REASON)
    return replace(read, chains=verdicts.chains), verdicts.replay, after


def _arranged(records: pa.Table) -> pa.Table:
    """The columns that count, each in one chunk and of the type that the log has."""
    headers = _paired(records) if NAMES in records.column_names else records["headers"]
    columns: dict[str, pa.ChunkedArray | pa.Array] = {
        "partition": records["partition"].cast(pa.int32()),
        "offset": records["offset"].cast(pa.int64()),
        "key": records["key"].cast(pa.binary()),
        "value": records["value"].cast(pa.binary()),
        "timestamp": records["timestamp"].cast(pa.int64()),
        "headers": _null_if_empty(_whole(headers).cast(HEADERS)),
    }
    return pa.table({name: _whole(column) for name, column in columns.items()})


def _paired(records: pa.Table) -> pa.Array:
    """Headers of which the names and the values came apart."""
    names, values = _whole(records[NAMES]), _whole(records[VALUES])
    pairs = pa.StructArray.from_arrays([names.flatten(), values.flatten()], ["key", "value"])
    lengths = pc.list_value_length(names).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), pairs)


def _null_if_empty(lists: pa.Array) -> pa.Array:
    """A record without headers has none."""
    empty = pc.equal(pc.list_value_length(lists), 0).fill_null(False)
    if not pc.any(empty).as_py():
        return lists
    return lists.take(pa.array(np.arange(len(lists)), mask=empty.to_numpy(zero_copy_only=False)))


def _new(records: pa.Table, partitions: Mapping[int, PartitionState]) -> pa.Table:
    """The records that the log does not hold yet, in order."""
    next_offsets = {number: at.next_offset for number, at in partitions.items()}
    partition, offset = _places(records)
    rows = new_in_order(partition, offset, next_offsets)
    if rows is None:
        return records
    taken = records.take(pa.array(rows))
    return pa.table({name: _whole(taken[name]) for name in taken.column_names})


def _places(records: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The partition and the offset of each record."""
    return records["partition"].chunk(0).to_numpy(), records["offset"].chunk(0).to_numpy()


def _stream_times(state: LogState) -> dict[int, int]:
    return {number: at.stream_ms for number, at in state.partitions.items() if at.stream_ms is not None}


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
