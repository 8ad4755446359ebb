"""JSON within JSON, lines of JSON, fields that no column has, and gzip: each record is what the oracle says, whatever the chunk."""

from __future__ import annotations

import gzip
import json
import os
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.sequence.decode import Decoded, Decoder
from headrace.sequence.formats import RecordFormat
from headrace.sequence.readers import gunzip, json_reader
from tests.oracle import json_oracle

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
RANDOMS = st.integers(0, 2**32).map(Random)
VALUES = (
    '"a"',
    "1",
    "-0.5",
    "1E+3",
    "true",
    "null",
    '{"b": [1, 2.50]}',
    "[]",
    '"é\\u0041"',
    "12345678901234567890.120",
)
NAMES = ('"id"', '"n"', '"more"', '"i\\u0064"', '"x y"', '"rest"')


def decoded(topic: hr.Topic, values: list[bytes | None]) -> Decoded:
    raw, keys = pa.array(values, pa.binary()), pa.nulls(len(values), pa.binary())
    return Decoder(RecordFormat.of(topic)).decode(
        keys, raw, pa.array([1_000] * len(values), pa.int64()), 2_000
    )


def found(topic: hr.Topic, *values: bytes | None) -> list[Any]:
    """The value of each record, or its reason."""
    read = decoded(topic, list(values))
    reasons = read.reasons.as_column().to_pylist()
    return [
        v if reason is None else reason for v, reason in zip(read.values.to_pylist(), reasons, strict=True)
    ]


def some_object(random: Random) -> str:
    pairs = [
        f"{random.choice(NAMES)}:{random.choice(['', ' '])}{random.choice(VALUES)}"
        for _ in range(random.randrange(5))
    ]
    text = "{" + ", ".join(pairs) + "}"
    return (
        text if random.random() < 0.8 else random.choice([text[:-1], text + text, f" {text}\t", "?", "null"])
    )


def told(text: str) -> Any:
    """The columns `id STRING, n DOUBLE` and the unknown fields, as the oracle has them; None: it is malformed."""
    if not text.strip(" \t\r\n").startswith("{") or not text.strip(" \t\r\n").endswith("}"):
        return None
    values = json_oracle.read(text, {"id": "STRING", "n": "DOUBLE"})
    if isinstance(values, str):
        return None
    parser = json_oracle.Parser(text)
    parser.blank()
    parser.need("{")
    rest = {name: value for name, value in parser.object(1).items() if name not in ("id", "n")}
    return values | {"rest": json_oracle.written(rest) if rest else None}


@given(RANDOMS)
@settings(max_examples=40 * EXAMPLES, deadline=None)
def test_fields_that_no_column_has_are_kept_as_they_are_written(random: Random) -> None:
    topic = hr.Topic("t", value="id STRING, n DOUBLE", format=hr.Json(unknown="rest"))
    texts = [some_object(random) for _ in range(random.randrange(1, 12))]
    for text, value in zip(texts, found(topic, *(text.encode() for text in texts)), strict=True):
        assert (value if isinstance(value, dict) else None) == told(text), (text, value)


@given(RANDOMS)
@settings(max_examples=20 * EXAMPLES, deadline=None)
def test_an_object_within_others_is_read_as_it_would_be_alone(random: Random) -> None:
    topic = hr.Topic("t", value="id STRING, n DOUBLE", format=hr.Json(value_path="a.b c", unknown="rest"))
    texts = [some_object(random) for _ in range(random.randrange(1, 8))]
    around = [f'{{"z": 1, "a": {{"b c": {text}, "id": 9}}, "n": "?"}}' for text in texts]
    for text, value in zip(texts, found(topic, *(text.encode() for text in around)), strict=True):
        assert (value if isinstance(value, dict) else None) == told(text), (text, value)


@given(RANDOMS)
@settings(max_examples=20 * EXAMPLES, deadline=None)
def test_each_line_is_read_as_it_would_be_alone(random: Random) -> None:
    topic = hr.Topic("t", value="items ARRAY<STRUCT<id: STRING, n: DOUBLE>>", format=hr.Json(lines=True))
    records = [
        [some_object(random) for _ in range(random.randrange(4))] for _ in range(random.randrange(1, 6))
    ]
    ends = [random.choice(["\n", "\r\n", "\n\n \n"]) for _ in records]
    values = [end.join([*lines, ""]).encode() for end, lines in zip(ends, records, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_reader, "LINES_MAX", 12)  # no record has more, and together they often do
        read = found(topic, *values)
    for lines, value in zip(records, read, strict=True):
        items = [told(line) for line in lines if line.strip()]
        if None in items:
            assert "malformed value: line " in value, (lines, value)
        else:
            assert value == {"items": [{"id": item["id"], "n": item["n"]} for item in items]}


@given(RANDOMS)
@settings(max_examples=5 * EXAMPLES, deadline=None)
def test_a_record_is_read_alike_whatever_stands_beside_it(random: Random) -> None:
    texts = [some_object(random) for _ in range(12)]
    values = [
        random.choice([t.encode(), gzip.compress(t.encode()), b"\xff", None, gzip.compress(t.encode())[:9]])
        for t in texts
    ]
    for of in (hr.Json(unknown="rest", gzip=True), hr.Json(value_path="more", gzip=True)):
        topic = hr.Topic("t", value="id STRING, n DOUBLE", format=of)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_reader, "ROWS_MAX", random.randrange(1, 6))
            together = found(topic, *values)
        assert together == [found(topic, value)[0] for value in values]


BAD: dict[str, tuple[hr.Json, bytes, str]] = {
    "no object at the path": (hr.Json(value_path="payload"), b'{"id": "a"}', "payload is null or missing"),
    "null at the path": (hr.Json(value_path="payload"), b'{"payload": null}', "payload is null or missing"),
    "null above the path": (hr.Json(value_path="a.payload"), b'{"a": null}', "a is null or missing"),
    "text at the path": (hr.Json(value_path="payload"), b'{"payload": "{}"}', "payload is not STRUCT"),
    "gzip that is cut short": (hr.Json(gzip=True), gzip.compress(b'{"id": "a"}')[:-1], "its gzip is cut short"),
    "gzip that is damaged": (hr.Json(gzip=True), b"\x1f\x8b\0\0\0", "its gzip is damaged"),
    "bytes after gzip": (hr.Json(gzip=True), gzip.compress(b"{}") + b"??????", "its gzip is damaged"),
    "gzip of something else": (hr.Json(gzip=True), gzip.compress(b"[]"), "not a JSON object"),
    "gzip that nobody expects": (hr.Json(), gzip.compress(b"{}"), "not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_dead_letter_with_its_reason(name: str) -> None:
    of, value, why = BAD[name]
    topic = hr.Topic("t", value="id STRING", format=of)
    good = {
        None: b'{"id": "b"}',
        "payload": b'{"payload": {"id": "b"}}',
        "a.payload": b'{"a": {"payload": {"id": "b"}}}',
    }
    bad, fine, tombstone = found(topic, value, good[of.value_path], None)
    assert bad.startswith("malformed value: ")
    assert why in bad
    assert (fine, tombstone) == ({"id": "b"}, None)


def test_a_bad_line_is_named() -> None:
    topic = hr.Topic("t", value="items ARRAY<STRUCT<n: INT>>", format=hr.Json(lines=True, gzip=True))
    lines = b'{"n": 1}\n\n{"n": 2}\n{"n": "x"}\n'
    assert found(topic, lines)[0].startswith("malformed value: line 4: not JSON, or a field does not fit")
    assert found(topic, b"\n", gzip.compress(b'{"n": 7}'), b"\xff{") == [
        {"items": []},
        {"items": [{"n": 7}]},
        "malformed value: not UTF-8",
    ]


def test_a_record_of_too_many_lines_is_refused() -> None:
    topic = hr.Topic("t", value="items ARRAY<STRUCT<n: INT>>", format=hr.Json(lines=True, gzip=True))
    most = b'{"n": 1}' + b"\n" * json_reader.LINES_MAX
    assert found(topic, most, gzip.compress(most + b"\n"), b'{"n": 2}', None) == [
        {"items": [{"n": 1}]},
        "malformed value: it has more than 1,000,000 lines",
        {"items": [{"n": 2}]},
        None,
    ]


@pytest.mark.parametrize("lines", [1, 2, 3, 4])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_final_newline_is_no_line_more(lines: int, end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "LINES_MAX", 3)
    topic = hr.Topic("t", value="items ARRAY<STRUCT<n: INT>>", format=hr.Json(lines=True))
    value = b"\n".join([b'{"n": 1}'] * lines) + end
    wanted = {"items": [{"n": 1}] * lines} if lines <= 3 else "malformed value: it has more than 3 lines"
    assert found(topic, b"", value, b"") == [{"items": []}, wanted, {"items": []}]


def test_a_value_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gunzip, "BYTES_MAX", 1_000)
    topic = hr.Topic("t", value="id STRING", format=hr.Json(gzip=True))
    small, large = (json.dumps({"id": "x" * size}).encode() for size in (900, 1_000))
    assert found(topic, gzip.compress(small))[0]["id"] == "x" * 900
    assert found(topic, gzip.compress(large)) == ["malformed value: its gzip holds more than 1,000 bytes"]
    two = gzip.compress(b'{"id": ') + gzip.compress(b'"a"}')  # members follow one another
    assert found(topic, two) == [{"id": "a"}]


def test_members_of_gzip_follow_one_another_whatever_their_number_and_size() -> None:
    topic = hr.Topic("t", value="id STRING", format=hr.Json(gzip=True))
    parts = [b'{"id": "', Random(1).randbytes(3_000).hex().encode(), b"x" * 5_000, b"", b'"}']
    (value,) = found(topic, b"".join(map(gzip.compress, parts)))
    assert value == {"id": b"".join(parts[1:4]).decode()}
    empty = gzip.compress(b"") * 20_000
    assert found(topic, empty + gzip.compress(b'{"id": "a"}') + empty) == [{"id": "a"}]
    assert found(topic, empty + gzip.compress(b"{}")[:-1]) == ["malformed value: its gzip is cut short"]


@pytest.mark.parametrize(
    ("of", "value", "says"),
    [
        ({"value_path": "a..b"}, "id STRING", "no path of names"),
        ({"unknown": ""}, "id STRING", "not the name of a column"),
        ({"unknown": "ID"}, "id STRING", "differ only in case"),
        ({"unknown": "__rest"}, "id STRING", "reserved"),
        ({"lines": True}, "id STRING", "an array of structs"),
        ({"lines": True}, "ids ARRAY<STRING>", "an array of structs"),
        ({"lines": True, "unknown": "rest"}, "i ARRAY<STRUCT<id: STRING>>", "lines goes with neither"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_so_is_refused(of: dict[str, Any], value: str, says: str) -> None:
    with pytest.raises(hr.DescriptionError, match=says):
        _ = hr.Topic("t", value=value, format=hr.Json(**of)).columns
