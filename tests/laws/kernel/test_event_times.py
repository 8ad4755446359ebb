"""Event times by an expression over the value: those of records, and the reasons of records that have none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.sequence.decode import NOTHING, Decoder
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_rows import HEADERS

pytestmark = pytest.mark.fast

NOW_MS = 1_800_000_000_000
VALUE = "at TIMESTAMP, n BIGINT, meta STRUCT<at: STRING, ms: BIGINT>"


Headers = list[tuple[str, bytes | None]] | None


def decided(timestamp: str, *values: Any, headers: Sequence[Headers] | None = None) -> list[int | str | None]:
    """The event time of each value in ms, or why it has none; None: a tombstone, which has neither."""
    texts = [None if value is None else json.dumps(value).encode() for value in values]
    of = RecordFormat.of(hr.Topic("t", value=VALUE, timestamp=timestamp))
    kafka_ms = pa.array([1] * len(texts), pa.int64())
    found = Decoder(of).decode(
        pa.nulls(len(texts), pa.binary()),
        pa.array(texts, pa.binary()),
        kafka_ms,
        NOW_MS,
        None if headers is None else pa.array([as_entries(each) for each in headers], HEADERS),
    )
    reasons = found.reasons.as_column().to_pylist()
    times = [None if ms == NOTHING else ms for ms in found.event_ms.tolist()]
    return [ms if why is None else why for ms, why in zip(times, reasons, strict=True)]


def as_entries(headers: Headers) -> list[dict[str, Any]] | None:
    return None if headers is None else [{"key": name, "value": value} for name, value in headers]


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


def test_arithmetic_of_whole_numbers_is_that_of_bigint() -> None:
    assert decided("n * 1000", {"n": 7}, {}, None) == [7_000, "timestamp: n * 1000 is null", None]
    assert decided("n DIV 1000 + 1", {"n": 7_999}) == [8]
    assert decided("n DIV 1000", {"n": -1_999}, {"n": 1_999}) == ["timestamp: before 1970", 1]
    before = "timestamp: before 1970"  # the quotient wraps; before, it was 0, which is a moment
    assert decided("n DIV -1", {"n": -(2**63)}, {"n": -7}, {"n": 7}) == [before, 7, before]
    assert decided("timestamp_seconds(n - 946684800)", {"n": 946_684_807}) == [7_000]
    assert decided("5000 - n", {"n": 1}) == [4_999]
    assert decided("n DIV meta.ms", {"n": 6, "meta": {"ms": 0}}, {"n": 6, "meta": {"ms": 2}}) == [
        "timestamp: n DIV meta.ms is null",
        3,
    ]
    assert decided("n * 4", {"n": 1 << 62}, {"n": (1 << 62) + 1}) == [0, 4]  # it wraps, as Spark's does


def test_a_header_has_texts_and_numbers_in_texts() -> None:
    sent = "CAST(record_header('sent') AS STRING)"
    headers: list[Headers] = [
        [("sent", b"2024-05-01T00:00:00Z")],
        [("other", b"2024-05-01T00:00:00Z")],
        [("sent", b"2024-05-01T00:00:00Z"), ("sent", b"2024-05-02T00:00:00Z")],
        [("sent", b"\xff")],
        None,
    ]
    null = f"timestamp: to_timestamp({sent}) is null"
    found = decided(f"to_timestamp({sent})", *[{}] * 5, headers=headers)
    assert found == [ms("2024-05-01T00:00:00"), null, ms("2024-05-02T00:00:00"), null, null]
    numbers: list[Headers] = [[("sent", text)] for text in (b"7", b" +8 ", b"x", b"", b"9.5")]
    found = decided(f"CAST({sent} AS BIGINT) * 1000", *[{}] * 4, None, headers=numbers)
    reason = f"timestamp: CAST({sent} AS BIGINT) * 1000 is null"
    assert found == [7_000, 8_000, reason, reason, None]
    dated = decided(f"CAST({sent} AS BIGINT)", None, headers=[[("sent", b"7")]])
    assert dated == [7], "a tombstone has the time of its header"


def test_the_first_that_is_there_counts() -> None:
    sql = "coalesce(to_timestamp(meta.at), timestamp_millis(meta.ms), at)"
    at = "2024-05-01T00:00:00Z"
    values = [{"meta": {"at": "no", "ms": 5}}, {"meta": {"at": at, "ms": 5}}, {"at": at}, {}]
    noon = ms("2024-05-01T00:00:00")
    assert decided(sql, *values) == [5, noon, noon, f"timestamp: {sql} is null"]
