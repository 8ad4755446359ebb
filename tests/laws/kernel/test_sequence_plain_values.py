"""Plain values: what Kafka's own serializers write is read as the value, and written as the same bytes."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.description.formats.plain_values import NUMBER_TYPES
from headrace.sequence.decode import Decoder
from headrace.sequence.formats import RecordFormat
from headrace.sequence.readers.plain_values import written
from tests.laws.kernel.json_texts import a_value
from tests.oracle import json_oracle

pytestmark = pytest.mark.fast

TEXTS = ("2026-11-28T15:00:01Z ERROR checkout card refused", "", "é漢", "two\nlines\n", '{"a": 1}', "\x00")
SERIALIZED = Path(__file__).parents[2] / "fixtures" / "kafka_serializers" / "serialized.tsv"
FORMATS = {"text": ("STRING", hr.Text()), "bytes": ("BINARY", hr.Bytes())} | {
    kind: (of, hr.Number(kind))  # type: ignore[arg-type]
    for kind, of in NUMBER_TYPES.items()
}


def read(topic: hr.Topic, *values: bytes | None, part: str = "value") -> list[Any]:
    """The value, or key, of each record, or its reason."""
    raw, nothing = pa.array(values, pa.binary()), pa.nulls(len(values), pa.binary())
    times = pa.array([1_000] * len(values), pa.int64())
    keys, contents = (nothing, raw) if part == "value" else (raw, nothing)
    decoded = Decoder(RecordFormat.of(topic)).decode(keys, contents, times, 2_000)
    reasons = decoded.reasons.as_column().to_pylist()
    structs = decoded.values if part == "value" else decoded.keys
    assert structs is not None
    return [
        value if reason is None else reason
        for value, reason in zip(structs.to_pylist(), reasons, strict=True)
    ]


def from_java(kind: str, text: str) -> Any:
    match kind:
        case "text":
            return text.replace("\\n", "\n")
        case "bytes":
            return bytes.fromhex(text)
        case "int32" | "int64":
            return int(text)
        case "float32":
            return struct.unpack("f", struct.pack("f", float(text)))[0]
    return float(text)


def serialized(kind: str) -> list[tuple[Any, bytes]]:
    rows = [line.split("\t") for line in SERIALIZED.read_text("utf-8").splitlines()]
    return [(from_java(kind, text), bytes.fromhex(raw)) for name, text, raw in rows if name == kind]


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("kind", FORMATS)
def test_what_kafkas_serializers_write_is_read_and_written_as_they_do(kind: str, part: str) -> None:
    of, form = FORMATS[kind]
    values, raw = zip(*serialized(kind), strict=True)
    assert [written(kind, value) for value in values] == [*raw]
    if part == "key":
        topic = hr.Topic("t", key=f"k {of}", key_format=form, value="other INT")
    else:
        topic = hr.Topic("t", value=f"k {of}", format=form)
    expected = str([{"k": value} for value in values])  # as text: NaN is not equal to itself
    assert str(read(topic, *raw, part=part)) == expected
    assert str([read(topic, each, part=part)[0] for each in raw]) == expected


@pytest.mark.parametrize("kind", NUMBER_TYPES)
def test_a_number_of_another_length_is_a_dead_letter(kind: str) -> None:
    width = len(written(kind, 1))
    topic = hr.Topic("t", value=f"n {NUMBER_TYPES[kind]}", format=hr.Number(kind))  # type: ignore[arg-type]
    good, short, long = written(kind, 7), b"\0" * (width - 1), b"\0" * (width + 1)
    assert read(topic, good, short, None, long, b"", good) == [
        {"n": 7},
        f"malformed value: it has {width - 1} bytes, and {kind} has {width}",
        None,
        f"malformed value: it has {width + 1} bytes, and {kind} has {width}",
        f"malformed value: it has 0 bytes, and {kind} has {width}",
        {"n": 7},
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
    with pytest.raises(hr.DescriptionError, match="is not one STRING column, and text has no others"):
        _ = hr.Topic("app_logs", value=value, format=hr.Text()).columns


def test_a_number_has_a_column_of_its_type() -> None:
    with pytest.raises(
        hr.DescriptionError, match="'id BIGINT' is not one INT column, and int32 has no others"
    ):
        _ = hr.Topic("t", key="id BIGINT", key_format=hr.Number("int32"), value="n INT")
    with pytest.raises(
        hr.DescriptionError, match="Number: type 'int' does not exist; types are int32, int64"
    ):
        hr.Number("int")  # type: ignore[arg-type]
    with pytest.raises(hr.DescriptionError, match=r"Number: type \['int32'\] \(list\) does not exist"):
        hr.Number(["int32"])  # type: ignore[arg-type]


SCALARS: dict[str, Any] = {
    "INT": "INT", "BIGINT": "BIGINT", "DOUBLE": "DOUBLE", "FLOAT": "FLOAT", "BOOLEAN": "BOOLEAN", "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP", "BINARY": "BINARY", "DECIMAL(6,2)": ("DECIMAL", 6, 2),
}  # fmt: skip


def is_a_value(text: str, of: Any) -> bool:
    """True if a text is one JSON value of a type, by the oracle of JSON; null, objects and arrays are none."""
    parser = json_oracle.Parser(text)
    try:
        value = parser.value()
        parser.blank()
        return value is not None and parser.at == len(text) and json_oracle.typed(value, of) is not None
    except json_oracle.Refused:
        return False


@pytest.mark.parametrize("ddl", SCALARS)
@given(random=st.integers(0, 2**32).map(Random))
def test_a_json_key_of_one_column_is_its_object_or_its_value_alone(ddl: str, random: Random) -> None:
    topic = hr.Topic("t", key=f"id {ddl}", value="n INT")
    texts = [a_value(random, SCALARS[ddl], random.choice([0, 0.5])) for _ in range(5)]
    texts = [text for text in texts if text.isprintable() and not text.strip().startswith(("{", "["))]
    objects = read(topic, *(f'{{"id": {text}}}'.encode() for text in texts), part="key")
    alone = read(topic, *(text.encode() for text in texts), part="key")
    for text, key, from_object in zip(texts, alone, objects, strict=True):
        if is_a_value(text, SCALARS[ddl]):
            assert str(key) == str(from_object), text
        else:
            assert str(key).startswith("malformed key"), text


def test_a_json_key_that_is_no_value_of_its_column_is_a_dead_letter() -> None:
    """Before, `1234` was a dead letter, too: 'not a JSON object'."""
    topic = hr.Topic("t", key="id INT", value="n INT")
    keys = (
        b"1234",
        b' {"id": 1234}\n',
        b"12x",
        b'1}, "x": {2',
        b"1, 2",
        b"[1]",
        b"null",
        b"",
        b"99999999999",
    )
    rows = read(topic, *keys, part="key")
    assert rows[:2] == [{"id": 1234}] * 2
    assert rows[2:8] == ["malformed key: not a JSON object"] * 6
    assert rows[8].startswith("malformed key: ")


def test_a_key_of_kafkas_serializers_says_which_format_reads_it() -> None:
    topic = hr.Topic("t", key="id BIGINT", value="n INT")
    keys = read(topic, written("int64", 1234), b"abcdefgh", b"12345678", written("int32", 7), part="key")
    assert keys == [
        "malformed key: no JSON, but 8 bytes, as key_format=hr.Number('int64') reads",
        "malformed key: not a JSON object",
        {"id": 12345678},
        "malformed key: not a JSON object",
    ]
