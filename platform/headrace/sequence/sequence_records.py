"""One log commit: Kafka records in, rows of the log out, and the state after them.

Law: L1 to L3 and L13. The union of the rows does not depend on how records were cut into commits, but for what the
commit decides: `ingested_at`, what lies too far ahead, and where a new partition starts. No record raises an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.log.state import LastRow, LogState, PartitionState
from headrace.sequence.decode import Decoded, Decoder
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_rows import HEADERS, chain_columns, log_schema, moments, record_columns, rows_of
from headrace.sequence.replays.chains import Chains, malformed_reason, read_chains
from headrace.sequence.replays.guards import Guard
from headrace.sequence.replays.monotone import MonotoneGuard
from headrace.sequence.stream_time import assign_stream_time, last_rows, new_in_order

NAMES, VALUES = "header_names", "header_values"


@dataclass(frozen=True)
class Sequenced:
    """What one commit adds to a log.

    rows          in the columns of `log_schema`, by partition and offset
    state, guard  after the commit; guard None: the topic has none
    records       how many rows; of these so many `dead_letters` and `replays`
    """

    rows: pa.Table
    state: LogState
    guard: Guard | None
    records: int
    dead_letters: int
    replays: int


class Sequencer:
    """Sequences the records of one topic."""

    def __init__(self, of: RecordFormat) -> None:
        self._of = of
        self._decoder = Decoder(of)
        self.schema = log_schema(of)

    def sequence(self, records: pa.Table, state: LogState, guard: Guard | None, at_ms: int) -> Sequenced:
        """Decide about the records of one commit.

        In: records  one row per record, in any order: `partition` INT, `offset` BIGINT, `key` and `value` BINARY,
                     `timestamp` BIGINT (Kafka's, in ms, any number), and `headers` ARRAY<STRUCT<key: STRING, value:
                     BINARY>> or, side by side, `header_names` and `header_values`; less than 2 GiB. Offsets that the
                     log holds are passed over
            state    of the log before the commit
            guard    before the commit; None: the topic has none
            at_ms    the commit's `ingested_at`
        """
        records = _new(_arranged(records), state.partitions)
        partition, offset = (records[name].chunk(0).to_numpy() for name in ("partition", "offset"))
        kafka_ms = records["timestamp"].chunk(0)
        decoded = self._decoder.decode(records["key"].chunk(0), records["value"].chunk(0), kafka_ms, at_ms)
        chains, replay, guard = self._judge(records, decoded, guard)
        dead = decoded.reasons.dead
        stream_ms = assign_stream_time(partition, decoded.event_ms, ~(dead | replay), *_before(state))
        columns = record_columns(records, decoded, self._of.topic, at_ms)
        columns |= {"stream_time": moments(stream_ms), "replay": pa.array(replay)}
        columns |= {} if chains is None else chain_columns(chains, dead)
        ends = [LastRow(*row) for row in last_rows(partition, offset, stream_ms)]
        return Sequenced(
            rows_of(self.schema, columns, records.num_rows),
            state.after(at_ms, ends),
            guard,
            records.num_rows,
            int(dead.sum()),
            int(replay.sum()),
        )

    def _judge(
        self, records: pa.Table, decoded: Decoded, guard: Guard | None
    ) -> tuple[Chains | None, np.ndarray, Guard | None]:
        """The source chains, which records are replays, and the guard after them; malformed chains get their reason."""
        if guard is None or self._of.guard is None:
            return None, np.zeros(records.num_rows, bool), guard
        partition, offset = (records[name].chunk(0).to_numpy() for name in ("partition", "offset"))
        header = self._of.guard.header
        chains = read_chains(records["headers"].chunk(0), header, self._of.topic, partition, offset)
        decoded.reasons.add(chains.malformed, malformed_reason(header))
        alive = ~decoded.reasons.dead
        if isinstance(guard, MonotoneGuard):
            replay, seen = guard.judge(chains, alive)
            return chains, replay, guard.after(seen)
        replay, after = guard.judge(chains, alive)
        return chains, replay, after


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
    partition, offset = (records[name].chunk(0).to_numpy() for name in ("partition", "offset"))
    rows = new_in_order(partition, offset, next_offsets)
    if rows is None:
        return records
    taken = records.take(pa.array(rows))
    return pa.table({name: _whole(taken[name]) for name in taken.column_names})


def _before(state: LogState) -> tuple[dict[int, int], int | None]:
    stream_ms = {number: at.stream_ms for number, at in state.partitions.items() if at.stream_ms is not None}
    return stream_ms, state.lowest_stream_ms()


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
