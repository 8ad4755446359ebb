"""What becomes of each kind of input: a typed row, or a dead letter with its reason."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace as hr
from headrace.description import to_ddl
from headrace.sequence.decode import Decoder
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LogState
from headrace.sequence.sequence_records import Sequencer

pytestmark = pytest.mark.fast

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FITS = "malformed value: not JSON, or a field does not fit"

PLAIN = hr.Topic(
    "plain", key="id STRING", value="id STRING, x DOUBLE, n INT, `a b.c` STRING, tags ARRAY<STRING>"
)
PLAIN_DDL = to_ddl(PLAIN.value_columns)
STRICT = hr.Topic("strict", key="id STRING", value="x DOUBLE NOT NULL, at TIMESTAMP", timestamp="at")
TYPED = hr.Topic("typed", key="a INT, b STRING NOT NULL", value="ms BIGINT, d DECIMAL(6,2)", timestamp="ms")
KEYLESS = hr.Topic("keyless", value="x DOUBLE")
TOPICS = {topic.name: topic for topic in (PLAIN, STRICT, TYPED, KEYLESS)}

# name: topic, key, value, Kafka's timestamp, and what is expected: the decoded value, or the reason.
CASES: dict[str, tuple[str, bytes | None, bytes | None, int, Any]] = {
    # plain: a scalar key, everything nullable
    "good": ("plain", b"k", b'{"id": "k", "x": 1.5, "n": 2}', 5, {"id": "k", "x": 1.5, "n": 2}),
    "unknown extra fields are ignored": ("plain", b"k", b'{"x": 1, "y": {"z": []}}', 5, {"x": 1.0}),
    "missing nullable fields are null": ("plain", b"k", b"{}", 5, {"x": None, "n": None}),
    "white space around": ("plain", b"k", b' \n{"x": 1}\t ', 5, {"x": 1.0}),
    "a name with a blank and a dot": ("plain", b"k", b'{"a b.c": "yes"}', 5, {"a b.c": "yes"}),
    "braces in a text": ("plain", b"k", b'{"a b.c": "}{ } {"}', 5, {"a b.c": "}{ } {"}),
    "nested objects that are ignored": ("plain", b"k", b'{"o": {"x": {"y": 1}}, "x": 2}', 5, {"x": 2.0}),
    "not a number": ("plain", b"k", b'{"x": NaN, "o": {}}', 5, f"{FITS} {PLAIN_DDL} (NaN is not JSON)"),
    "infinity": ("plain", b"k", b'{"x": -Infinity}', 5, f"{FITS} {PLAIN_DDL} (-Infinity is not JSON)"),
    "not a number in a field that is ignored": ("plain", b"k", b'{"o": [NaN]}', 5, f"{FITS} {PLAIN_DDL} (NaN is not JSON)"),
    "not a number as a text": ("plain", b"k", b'{"x": "NaN", "o": {}}', 5, {"x": float("nan")}),
    "infinity as a text": ("plain", b"k", b'{"x": "-Infinity"}', 5, {"x": float("-inf")}),
    "beyond the largest DOUBLE": ("plain", b"k", b'{"x": 1e400}', 5, {"x": float("inf")}),
    "single quotes": ("plain", b"k", b"{'x': 1}", 5, f"{FITS} {PLAIN_DDL} (not JSON)"),
    "a leading zero": ("plain", b"k", b'{"x": 01}', 5, f"{FITS} {PLAIN_DDL} (not JSON)"),
    "a comment": ("plain", b"k", b'{"x": 1 /* one */}', 5, f"{FITS} {PLAIN_DDL} (not JSON)"),
    "a control character in a text": ("plain", b"k", b'{"a b.c": "\x01"}', 5, f"{FITS} {PLAIN_DDL} (not JSON)"),
    "half of a surrogate pair": ("plain", b"k", b'{"a b.c": "\\ud83d"}', 5, f"{FITS} {PLAIN_DDL} (half of a surrogate pair is no text)"),
    "nested too deeply": ("plain", b"k", b'{"o": ' + b"[" * 500 + b"]" * 500 + b"}", 5, f"{FITS} {PLAIN_DDL} (nested deeper than 500)"),
    "a field that occurs twice": ("plain", b"k", b'{"x": 1, "x": 2}', 5, {"x": 2.0}),
    "an element that does not fit": ("plain", b"k", b'{"tags": ["a"], "n": [1]}', 5, f"{FITS} {PLAIN_DDL} (n is not INT)"),
    "a value with other values as texts": ("plain", b"k", b'{"tags": [1.50, {"a": [true, null]}]}', 5, {"tags": ["1.50", '{"a":[true,null]}']}),
    "a number where a text is declared is its text": ("plain", b"k", b'{"a b.c": 5}', 5, {"a b.c": "5"}),
    "unicode": ("plain", "ключ".encode(), '{"a b.c": "é漢"}'.encode(), 5, {"a b.c": "é漢"}),
    "a megabyte": ("plain", b"k", b'{"a b.c": "' + b"m" * 2**20 + b'"}', 5, {"a b.c": "m" * 2**20}),
    "null key": ("plain", None, b'{"x": 1}', 5, {"x": 1.0}),
    "empty key": ("plain", b"", b'{"x": 1}', 5, {"x": 1.0}),
    "tombstone": ("plain", b"k", None, 5, None),
    "tombstone without a key": ("plain", None, None, 5, None),
    "not JSON": ("plain", b"k", b"{nonsense}", 5, FITS),
    "cut short": ("plain", b"k", b'{"x": 1', 5, "malformed value: not a JSON object"),
    "empty": ("plain", b"k", b"", 5, "malformed value: not a JSON object"),
    "blank": ("plain", b"k", b"  ", 5, "malformed value: not a JSON object"),
    "the JSON null": ("plain", b"k", b"null", 5, "malformed value: not a JSON object"),
    "an array": ("plain", b"k", b'[{"x": 1}]', 5, "malformed value: not a JSON object"),
    "a number": ("plain", b"k", b"7", 5, "malformed value: not a JSON object"),
    "garbage behind": ("plain", b"k", b'{"x": 1} garbage', 5, "malformed value: not a JSON object"),
    "garbage behind that ends well": ("plain", b"k", b'{"x": 1} garbage}', 5, "malformed value: more than one JSON object"),
    "two objects": ("plain", b"k", b'{"x": 1}{"x": 2}', 5, "malformed value: more than one JSON object"),
    "two objects with a comma": ("plain", b"k", b'{"x": 1}, {"x": 2}', 5, "malformed value: more than one JSON object"),
    "closed twice": ("plain", b"k", b'{"o": {}}}', 5, "malformed value: more than one JSON object"),
    "an array closed behind": ("plain", b"k", b'{"x": 1}] }', 5, "malformed value: more than one JSON object"),
    "invalid UTF-8": ("plain", b"k", b'{"a b.c": "\xff"}', 5, "malformed value: not UTF-8"),
    "a key of invalid UTF-8": ("plain", b"\xc3\x28", b'{"x": 1}', 5, "malformed key: not UTF-8"),
    "a text where a number is declared": ("plain", b"k", b'{"x": "1.5"}', 5, FITS),
    "an object where a number is declared": ("plain", b"k", b'{"x": {"y": 1}}', 5, FITS),
    "an integer that does not fit": ("plain", b"k", b'{"n": 2147483648}', 5, FITS),
    "a fraction where an integer is declared": ("plain", b"k", b'{"n": 1.5}', 5, FITS),
    "key and value disagree": ("plain", b"k", b'{"id": "other"}', 5, "disagreement: id differs between key and value"),
    "1970": ("plain", b"k", b"{}", 0, {}),
    "before 1970": ("plain", b"k", b"{}", -1, "timestamp: before 1970"),
    "a day ahead": ("plain", b"k", b"{}", NOW_MS + DAY_MS, {}),
    "more than a day ahead": (
        "plain", b"k", b"{}", NOW_MS + DAY_MS + 1, "timestamp: 2027-01-16 08:00:00.001 lies more than 1 day ahead",
    ),
    "2099": ("plain", b"k", b"{}", 4_070_908_800_000, "timestamp: 2099-01-01 00:00:00 lies more than 1 day ahead"),
    # strict: NOT NULL, and a TIMESTAMP column is the event time
    "event time of the value": ("strict", b"k", b'{"x": 1, "at": "1970-01-01T00:00:07Z"}', 5, {"x": 1.0}),
    "a NOT NULL field is missing": ("strict", b"k", b'{"at": "1970-01-01T00:00:07Z"}', 5, "missing value field: x is NOT NULL"),
    "a NOT NULL field is null": (
        "strict", b"k", b'{"x": null, "at": "1970-01-01T00:00:07Z"}', 5, "missing value field: x is NOT NULL",
    ),
    "no event time": ("strict", b"k", b'{"x": 1}', 5, "timestamp: at is null"),
    "an event time that is none": ("strict", b"k", b'{"x": 1, "at": "soon"}', 5, FITS),
    "a tombstone has no time of its own": ("strict", b"k", None, 9_000, None),
    "not even an absurd one": ("strict", b"k", None, -1, None),
    # typed: a key of two columns is JSON; BIGINT ms is the event time
    "a key of two columns": ("typed", b'{"a": 1, "b": "x"}', b'{"ms": 8, "d": 1.25}', 5, {"ms": 8}),
    "a key that is no JSON": ("typed", b"x", b'{"ms": 8}', 5, "malformed key: not a JSON object"),
    "a key with a wrong type": ("typed", b'{"a": "x", "b": "x"}', b'{"ms": 8}', 5, "malformed key: not JSON, or a field does not fit"),
    "a key without a NOT NULL column": ("typed", b'{"a": 1}', b'{"ms": 8}', 5, "missing key field: b is NOT NULL"),
    "no key where one is required": ("typed", None, b'{"ms": 8}', 5, "missing key field: b is NOT NULL"),
    "two keys": ("typed", b'{"b": "x"} {"b": "y"}', b'{"ms": 8}', 5, "malformed key: more than one JSON object"),
    "a decimal too large": ("typed", b'{"a": 1, "b": "x"}', b'{"ms": 8, "d": 12345.67}', 5, FITS),
    "ms before 1970": ("typed", b'{"a": 1, "b": "x"}', b'{"ms": -8}', 5, "timestamp: before 1970"),
    "ms beyond the calendar": (
        "typed", b'{"a": 1, "b": "x"}', b'{"ms": 9223372036854775807}', 5, "timestamp: 9223372036854775807 ms lies more than",
    ),
    "a decimal is rounded half up": ("typed", b'{"a": 1, "b": "x"}', b'{"ms": 8, "d": "-1.255"}', 5, {"d": Decimal("-1.26")}),
    # times: every form in which a time may come
    "Kafka's timestamp is absurd": ("plain", b"k", b"{}", 2**63 - 1, "timestamp: 9223372036854775807 ms lies more than"),
    "Kafka's timestamp is as absurd": ("plain", b"k", b"{}", -(2**63), "timestamp: before 1970"),
    "Kafka has no timestamp": ("plain", b"k", b"{}", -1, "timestamp: before 1970"),
    "a time in seconds": ("strict", b"k", b'{"x": 1, "at": 7}', 5, {"at": EPOCH + dt.timedelta(seconds=7)}),
    "a time before 1970": ("strict", b"k", b'{"x": 1, "at": "1969-12-31T23:59:59.9999Z"}', 5, "timestamp: before 1970"),
    "a time of day alone": ("strict", b"k", b'{"x": 1, "at": "12:30:00"}', 5, FITS),
    "a time in a region": ("strict", b"k", b'{"x": 1, "at": "2024-05-01 12:30:00 Europe/Rome"}', 5, FITS),
    # keyless: whatever the key is, it is not looked at
    "a key that is not declared": ("keyless", b"\xff", b'{"x": 1}', 5, {"x": 1.0}),
}  # fmt: skip


Rows = dict[str, dict[str, Any]]


def sequenced(cases: Mapping[str, tuple[str, bytes | None, bytes | None, int, Any]], topic: hr.Topic) -> Rows:
    given = [case for case in cases.values() if case[0] == topic.name]
    table = pa.table(
        {
            "partition": pa.array([0] * len(given), pa.int32()),
            "offset": pa.array(range(len(given)), pa.int64()),
            "key": pa.array([key for _, key, _, _, _ in given], pa.binary()),
            "value": pa.array([value for _, _, value, _, _ in given], pa.binary()),
            "timestamp": pa.array([ts for _, _, _, ts, _ in given], pa.int64()),
            "headers": pa.nulls(
                len(given), pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            ),
        }
    )
    found = Sequencer(RecordFormat.of(topic)).sequence(table, LogState(), None, NOW_MS)
    names = [name for name, case in cases.items() if case[0] == topic.name]
    return dict(zip(names, found.rows.to_pylist(), strict=True))


@pytest.fixture(scope="module", params=["together", "alone"])
def decoded(request: pytest.FixtureRequest) -> Rows:
    """All cases, of each topic in one commit; or each in a commit of its own."""
    groups = [CASES] if request.param == "together" else [{name: case} for name, case in CASES.items()]
    return {
        name: row
        for group in groups
        for topic in TOPICS.values()
        for name, row in sequenced(group, topic).items()
    }


@pytest.mark.parametrize("case", [case for case, given in CASES.items() if not isinstance(given[4], str)])
def test_a_record_that_fits_is_typed(decoded: Rows, case: str) -> None:
    row, (of, key, value, ts, expected) = decoded[case], CASES[case]
    assert (row["kind"], row["reason"], row["raw_value"]) == ("record", None, None)
    assert row["tombstone"] == (value is None)
    assert row["size_bytes"] == len(key or b"") + len(value or b"")
    if expected is None:
        assert row["value"] is None
        own_time = of != "strict"  # in that topic values tell the event time
        assert row["timestamp"] == (EPOCH + dt.timedelta(milliseconds=ts) if own_time else row["stream_time"])
    else:
        found = {name: row["value"][name] for name in expected}
        assert json.dumps(found, default=str) == json.dumps(expected, default=str)  # not a number is itself


@pytest.mark.parametrize("case", [case for case, given in CASES.items() if isinstance(given[4], str)])
def test_a_record_that_does_not_is_a_dead_letter_with_its_bytes_and_the_reason(
    decoded: Rows, case: str
) -> None:
    row, (_, key, value, _, reason) = decoded[case], CASES[case]
    assert row["kind"] == "dead_letter"
    assert row["reason"].startswith(reason)
    assert (row["value"], row.get("key")) == (None, None)
    assert (row["raw_key"], row["raw_value"]) == (key, value)


def test_many_different_times_that_lie_ahead_take_no_longer_than_one() -> None:
    times = NOW_MS + 2 * DAY_MS + np.arange(100_000)
    of = RecordFormat.of(KEYLESS)
    values = pa.array([b'{"x": 1}']).take(pa.array(np.zeros(len(times), np.int64)))
    keys = pa.nulls(len(times), pa.binary())
    began = time.process_time()
    found = Decoder(of).decode(keys, values, pa.array(times), NOW_MS).reasons
    assert time.process_time() - began < 10  # one mask for each time took half a minute
    assert found.dead.all()
    reasons = found.as_column()
    assert reasons[0].as_py() != reasons[1].as_py()
    assert pc.all(pc.match_substring(reasons, "lies more than 1 day ahead")).as_py()


def test_keys_are_typed_too(decoded: Rows) -> None:
    assert decoded["good"]["key"] == {"id": "k"}
    assert decoded["a key of two columns"]["key"] == {"a": 1, "b": "x"}
    assert decoded["null key"]["key"] is None
    assert decoded["empty key"]["key"] == {"id": ""}
    assert "key" not in decoded["a key that is not declared"]


def test_the_event_time_is_the_column_that_the_topic_names(decoded: Rows) -> None:
    assert decoded["good"]["timestamp"] == EPOCH + dt.timedelta(milliseconds=5)
    assert decoded["event time of the value"]["timestamp"] == EPOCH + dt.timedelta(seconds=7)
    assert decoded["a key of two columns"]["timestamp"] == EPOCH + dt.timedelta(milliseconds=8)
    assert decoded["Kafka's timestamp is absurd"]["timestamp"] is None
    assert decoded["2099"]["timestamp"] == EPOCH + dt.timedelta(milliseconds=4_070_908_800_000)


def test_key_and_value_disagree_about_values_of_any_type() -> None:
    shared = "f DOUBLE, s STRUCT<a: DOUBLE, b: ARRAY<INT>>"
    topic = hr.Topic("shared", key=shared, value=shared)
    pairs = {
        "equal": (
            '{"f": 0.0, "s": {"a": "NaN", "b": [1, null]}}',
            '{"s": {"b": [1, null], "a": "NaN"}, "f": -0.0}',
        ),
        "f": ('{"f": 1.5}', '{"f": 1.25}'),
        "s": ('{"s": {"a": 1, "b": []}}', '{"s": {"a": 1, "b": [null]}}'),
        "null": ('{"s": null}', '{"s": {"a": 1}, "f": 2}'),
    }
    cases = {name: ("shared", key.encode(), value.encode(), 5, None) for name, (key, value) in pairs.items()}
    found = {name: row["reason"] for name, row in sequenced(cases, topic).items()}
    wanted = "disagreement: {} differs between key and value"
    assert found == {"equal": None, "f": wanted.format("f"), "s": wanted.format("s"), "null": None}
