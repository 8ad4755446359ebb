"""The log's columns as Arrow's, and rows of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.fates import BARE_TOMBSTONE
from headrace.fold.values.columns import MOMENT, moments
from headrace.sequence.decode import LAST_TIMESTAMP_MS, NOTHING, Decoded, without
from headrace.sequence.formats import RecordFormat
from headrace.sequence.parse.types import fields_of
from headrace.sequence.replays.chains import Chains

RAW_TIMESTAMP = "raw_timestamp"  # Kafka's, in ms, of logs that keep the bytes of records
RECORD, DEAD_LETTER, TICK, CONTROL = "record", "dead_letter", "tick", "control"
HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


def log_schema(of: RecordFormat) -> pa.Schema:
    """The columns of a topic's log, one row per record, dead letter, tick or control entry.

    `key` and `value` are typed by the topic's schema; a topic without key columns has no `key` column.
    """
    return pa.schema(
        [
            ("ingested_at", MOMENT),
            ("kind", pa.string()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", MOMENT),
            ("stream_time", MOMENT),
            *([("key", pa.struct(fields_of(of.key)))] if of.key else []),
            ("value", pa.struct(fields_of(of.value))),
            ("headers", HEADERS),
            ("tombstone", pa.bool_()),
            ("size_bytes", pa.int32()),
            ("root_topic", pa.string()),
            ("root_partition", pa.int32()),
            ("root_offset", pa.int64()),
            ("ordinals", pa.list_(pa.field("element", pa.int32()))),
            ("path", pa.string()),
            ("replay", pa.bool_()),
            ("reason", pa.string()),
            ("raw_key", pa.binary()),
            ("raw_value", pa.binary()),
            ("control", pa.string()),
            *([(RAW_TIMESTAMP, pa.int64())] if of.keep_raw else []),
        ]
    )


def record_columns(
    records: pa.Table, decoded: Decoded, topic: str, at_ms: int, *, keep_raw: bool = False
) -> dict[str, pa.Array]:
    """The columns of a log's row that follow from the record and its decoding alone.

    In: records   with `key`, `value`, `timestamp` and `headers`
        keep_raw  whether the row also has the bytes of the record; the row of a dead letter always has them
    """
    rows, dead = records.num_rows, decoded.reasons.dead
    raw_key, raw_value = records["key"].chunk(0), records["value"].chunk(0)
    event_ms = decoded.event_ms
    outside = (event_ms < 0) | (event_ms > LAST_TIMESTAMP_MS)
    columns = {
        "ingested_at": moments(np.full(rows, at_ms)),
        "kind": repeating((RECORD, DEAD_LETTER), dead.astype(np.int32)),
        "topic": repeating((topic,), np.zeros(rows, np.int32)),
        "partition": records["partition"].chunk(0),
        "offset": records["offset"].chunk(0),
        "timestamp": moments(np.where(outside, NOTHING, event_ms), NOTHING),
        "value": without(decoded.values, dead),
        "headers": records["headers"].chunk(0),
        "tombstone": pa.array(decoded.tombstones),
        "size_bytes": pc.add(*(pc.binary_length(raw).fill_null(0) for raw in (raw_key, raw_value))),
    }
    if decoded.keys is not None:
        columns["key"] = without(decoded.keys, dead)
    if decoded.bare.any():
        bare = pa.array(decoded.bare & ~dead)
        columns["reason"] = pc.if_else(bare, BARE_TOMBSTONE, decoded.reasons.as_column())
    if dead.any():
        mask, nothing = pa.array(dead), pa.scalar(None, pa.binary())
        columns |= {
            "reason": columns.get("reason", decoded.reasons.as_column()),
            "raw_key": pc.if_else(mask, raw_key, nothing),
            "raw_value": pc.if_else(mask, raw_value, nothing),
        }
    if keep_raw:
        kafka_ms = records["timestamp"].chunk(0)
        columns |= {"raw_key": raw_key, "raw_value": raw_value, RAW_TIMESTAMP: kafka_ms}
    return columns


def chain_columns(chains: Chains, dead: np.ndarray) -> dict[str, pa.Array]:
    """Where records come from; null in dead letters."""
    ends = np.concatenate([[0], np.cumsum(chains.hops)])
    columns = {
        "root_topic": chains.root_topic,
        "root_partition": pa.array(chains.root_partition),
        "root_offset": pa.array(chains.root_offset),
        "ordinals": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(chains.ordinals)),
        "path": chains.path,
    }
    if not dead.any():
        return columns
    place = pa.array(np.arange(len(dead)), mask=dead)
    return {name: column.take(place) for name, column in columns.items()}


def repeating(texts: tuple[str, ...], which: np.ndarray) -> pa.DictionaryArray:
    """Text that repeats: which of a few each row has."""
    return pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), pa.array(texts, pa.string()))
