"""Plain text: every letter is read as it is, whatever the chunk; bytes that are not UTF-8 are a dead letter."""

from __future__ import annotations

import gzip
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.sequence.decode import Decoder
from headrace.sequence.formats import RecordFormat

pytestmark = pytest.mark.fast

TEXTS = ("2026-11-28T15:00:01Z ERROR checkout card refused", "", "é漢", "two\nlines\n", '{"a": 1}', "\x00")


def read(topic: hr.Topic, *values: bytes | None) -> list[Any]:
    """The value of each record, or its reason."""
    raw, keys = pa.array(values, pa.binary()), pa.nulls(len(values), pa.binary())
    times = pa.array([1_000] * len(values), pa.int64())
    part = Decoder(RecordFormat.of(topic)).decode(keys, raw, times, 2_000)
    reasons = part.reasons.as_column().to_pylist()
    return [
        value if reason is None else reason
        for value, reason in zip(part.values.to_pylist(), reasons, strict=True)
    ]


def test_every_letter_of_a_text_is_read() -> None:
    topic = hr.Topic("app_logs", value="line STRING", format=hr.Text())
    values = [text.encode() for text in TEXTS]
    assert read(topic, *values, None) == [*({"line": text} for text in TEXTS), None]
    assert [read(topic, value) for value in values] == [[{"line": text}] for text in TEXTS]


def test_bytes_that_are_no_text_are_a_dead_letter() -> None:
    topic = hr.Topic("app_logs", value="line STRING NOT NULL", format=hr.Text())
    assert read(topic, b"\xff", b"a", gzip.compress(b"a")) == [
        "malformed value: not UTF-8",
        {"line": "a"},
        "malformed value: not UTF-8",
    ]


def test_texts_may_be_compressed() -> None:
    topic = hr.Topic("app_logs", value="line STRING", format=hr.Text(gzip=True))
    assert read(topic, gzip.compress(b"a"), b"b") == [{"line": "a"}, {"line": "b"}]


@pytest.mark.parametrize("value", ["", "line STRING, n INT", "n INT"])
def test_a_text_has_one_column(value: str) -> None:
    with pytest.raises(hr.DescriptionError, match="one STRING column, and a text has no others"):
        _ = hr.Topic("app_logs", value=value, format=hr.Text()).columns
