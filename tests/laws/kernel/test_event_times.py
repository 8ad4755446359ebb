"""Event times by an expression over the value: those of records, and the reasons of records that have none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.sequence.decode import NOTHING, Decoder
from headrace.sequence.formats import RecordFormat

pytestmark = pytest.mark.fast

NOW_MS = 1_800_000_000_000
VALUE = "at TIMESTAMP, n BIGINT, meta STRUCT<at: STRING, ms: BIGINT>"


def decided(timestamp: str, *values: Any) -> list[int | str | None]:
    """The event time of each value in ms, or why it has none; None: a tombstone, which has neither."""
    texts = [None if value is None else json.dumps(value).encode() for value in values]
    of = RecordFormat.of(hr.Topic("t", value=VALUE, timestamp=timestamp))
    kafka_ms = pa.array([1] * len(texts), pa.int64())
    found = Decoder(of).decode(
        pa.nulls(len(texts), pa.binary()), pa.array(texts, pa.binary()), kafka_ms, NOW_MS
    )
    reasons = found.reasons.as_column().to_pylist()
    times = [None if ms == NOTHING else ms for ms in found.event_ms.tolist()]
    return [ms if why is None else why for ms, why in zip(times, reasons, strict=True)]


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_texts_are_read_as_a_column_of_timestamps_is() -> None:
    texts = ["2024-05-01T12:30:15.1239Z", "2024-5-1 12:30", "2024-05-01 14:30:00+02:00", "tomorrow", None]
    null = "timestamp: to_timestamp(meta.at) is null"
    found = decided(
        "to_timestamp(meta.at)", *({"meta": {"at": text}} for text in texts), {"meta": None}, {}, None
    )
    noon = ms("2024-05-01T12:30:00")
    assert found == [noon + 15_123, noon, noon, null, null, null, null, None]
    as_column = decided("at", *({"at": text} for text in texts[:3]))
    assert found[:3] == as_column


def test_numbers_count_units_and_what_is_out_of_reach_is_a_dead_letter() -> None:
    ahead = "lies more than 1 day ahead of its ingestion"
    assert decided("timestamp_seconds(n)", {"n": 7}, {"n": -1}) == [7_000, "timestamp: before 1970"]
    (far, deep) = decided("timestamp_seconds(n)", {"n": 2**63 - 1}, {"n": -(2**63)})
    assert str(far).endswith(ahead)
    assert deep == "timestamp: before 1970"
    assert decided("timestamp_micros(n)", {"n": 7_999}, {"n": -1}) == [7, "timestamp: before 1970"]
    assert decided("timestamp_millis(meta.ms)", {"meta": {"ms": 7}}) == [7]
    assert decided("meta.ms", {"meta": {"ms": 7}}) == [7]


def test_the_first_that_is_there_counts() -> None:
    sql = "coalesce(to_timestamp(meta.at), timestamp_millis(meta.ms), at)"
    at = "2024-05-01T00:00:00Z"
    values = [{"meta": {"at": "no", "ms": 5}}, {"meta": {"at": at, "ms": 5}}, {"at": at}, {}]
    noon = ms("2024-05-01T00:00:00")
    assert decided(sql, *values) == [5, noon, noon, f"timestamp: {sql} is null"]
