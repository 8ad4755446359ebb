"""The fuzzer over all formats: whatever became of a record's bytes, it is decided about, and as if it had come alone."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description.formats.registry import RegisteredSchema
from headrace.sequence.encodings import KnownSchemas
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LogState
from headrace.sequence.sequence_records import Sequencer
from tests.laws.kernel.avro_values import encoded
from tests.laws.kernel.protobuf_values import Field, compiled, field, message

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
NOW_MS = 1_714_564_800_000
URL = "http://registry:8081"
COLUMNS = "id STRING, n BIGINT, at TIMESTAMP"
AT = "2024-05-01T12:00:00Z"
AVRO: Any = {"type": "record", "name": "r", "fields": [
    {"name": "id", "type": ["null", "string"]}, {"name": "n", "type": "long"},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
]}  # fmt: skip
OLDER = {**AVRO, "fields": [{"name": "n", "type": "int"}, {"name": "id", "type": "string"}]}
READER = {**AVRO, "fields": [AVRO["fields"][0], AVRO["fields"][1], {**AVRO["fields"][2], "default": None}]}
ENVELOPE = {"type": "record", "name": "e", "fields": [{"name": "op", "type": "string"}, {"name": "after", "type": ["null", AVRO]}]}  # fmt: skip
KNOWN = KnownSchemas(
    {(URL, 1): RegisteredSchema("AVRO", json.dumps(AVRO)), (URL, 2): RegisteredSchema("AVRO", json.dumps(OLDER)),
     (URL, 3): RegisteredSchema("AVRO", json.dumps(ENVELOPE)), (URL, 4): RegisteredSchema("PROTOBUF", "message R {}")},
    frozenset({(URL, 9)}),
)  # fmt: skip
R = compiled(message("R", field("id", 1, Field.TYPE_STRING), field("n", 2, Field.TYPE_INT64), field("at", 3, "google.protobuf.Timestamp")))["p.R"]  # fmt: skip
Make = Callable[[Random], bytes]


@dataclass(frozen=True)
class Case:
    """A format, and what makes a record of it that can be read."""

    of: (
        hr.Avro
        | hr.Protobuf
        | hr.JsonSchema
        | hr.Json
        | hr.Csv
        | hr.Text
        | hr.Bytes
        | hr.Number
        | hr.Debezium
    )
    make: Make
    value: str = COLUMNS


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def row(random: Random) -> dict[str, object]:
    return {"id": random.choice(["a", "é"]), "n": random.randrange(-9, 99), "at": AT}


def text(random: Random) -> bytes:
    return json.dumps(row(random), ensure_ascii=random.random() < 0.5).encode()


def avro(random: Random) -> bytes:
    return encoded(
        AVRO, {"id": random.choice([None, "a"]), "n": random.randrange(99), "at": random.choice([None, 5])}
    )


def either(random: Random) -> bytes:
    return random.choice(
        [framed(1, avro(random)), framed(2, encoded(OLDER, {"n": random.randrange(9), "id": "b"}))]
    )


def proto(random: Random) -> bytes:
    made = R(id="é", n=random.randrange(99))
    made.at.seconds = random.randrange(9)
    content: bytes = made.SerializeToString()
    return content


def packed(random: Random, content: bytes) -> bytes:
    return gzip.compress(content) if random.random() < 0.5 else content


def change(random: Random) -> bytes:
    return json.dumps({"op": random.choice("cru"), "after": row(random), "source": {"ts_ms": 5}}).encode()


def change_in_avro(random: Random) -> bytes:
    after = {"id": "a", "n": 1, "at": None}
    return framed(
        3, encoded(ENVELOPE, random.choice([{"op": "u", "after": after}, {"op": "d", "after": None}]))
    )


CASES: dict[str, Case] = {
    "Avro": Case(hr.Avro(schema=AVRO), avro),
    "Avro of a registry": Case(hr.Avro(registry=URL), either),
    "Avro that is resolved": Case(hr.Avro(schema=READER, registry=URL), either),
    "Protobuf": Case(hr.Protobuf(R), proto),
    "Protobuf of a registry": Case(hr.Protobuf(R, registered=True), lambda r: framed(7, b"\0" + proto(r))),
    "JSON of a registry": Case(hr.JsonSchema(), lambda r: framed(7, text(r))),
    "JSON within JSON": Case(
        hr.Json(value_path="a.b", unknown="more", gzip=True),
        lambda r: packed(r, b'{"a": {"b": %s}, "x": 1}' % text(r)),
    ),
    "lines of JSON": Case(
        hr.Json(lines=True),
        lambda r: b"\n".join(text(r) for _ in range(r.randrange(3))) + b"\n",
        f"items ARRAY<STRUCT<{COLUMNS.replace(' ', ': ').replace(',: ', ', ')}>>",
    ),
    "CSV": Case(
        hr.Csv(gzip=True),
        lambda r: packed(r, r.choice([b'"a, ""b""",1,' + AT.encode(), b"a,-7,\r\n"])),
    ),
    "text": Case(hr.Text(gzip=True), lambda r: packed(r, text(r)), "line STRING"),
    "bytes": Case(hr.Bytes(), lambda r: r.randbytes(r.randrange(9)), "content BINARY"),
    "number": Case(hr.Number("int64"), lambda r: r.randbytes(8), "n BIGINT"),
    "real number": Case(hr.Number("float32"), lambda r: r.randbytes(4), "n FLOAT"),
    "Debezium": Case(hr.Debezium(operation="op", changed_at="ms", transaction="tx"), change),
    "Debezium in Avro": Case(hr.Debezium(hr.Avro(registry=URL), operation="op"), change_in_avro),
}


def damaged(random: Random, content: bytes) -> bytes:
    """The bytes with one thing done to them."""
    at, other = random.randrange(len(content) + 1), random.randrange(len(content) + 1)
    return random.choice(
        [
            content[:at],
            content[at:],
            content[:at] + random.randbytes(random.randrange(1, 4)) + content[at:],
            content[:at] + random.randbytes(1) + content[at + 1 :],
            content[: min(at, other)] + content[max(at, other) :],
            content + content,
            framed(random.choice([2, 4, 9, 2**31]), content[5:]),
            random.randbytes(random.randrange(12)),
        ]
    )


@pytest.mark.parametrize("name", CASES)
@given(random=st.integers(0, 2**32).map(Random))
@settings(max_examples=2 * EXAMPLES, deadline=None)
def test_whatever_became_of_its_bytes_a_record_is_decided_about_by_itself(name: str, random: Random) -> None:
    case = CASES[name]
    topic = hr.Topic("t", key="k STRING", value=case.value, format=case.of)
    good = [random.random() < 0.5 for _ in range(random.randrange(1, 30))]
    values = [value if fine else damaged(random, value) for fine in good for value in [case.make(random)]]
    table = pa.table(
        {
            "partition": pa.array([0] * len(values), pa.int32()),
            "offset": pa.array(range(len(values)), pa.int64()),
            "key": pa.array([b'{"k": "k"}'] * len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array([NOW_MS] * len(values), pa.int64()),
            "headers": pa.nulls(
                len(values), pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            ),
        }
    )
    asked = Sequencer(RecordFormat.of(topic, KNOWN)).read(table, LogState(), NOW_MS).decoded.asked
    known = KnownSchemas(KNOWN.schemas, KNOWN.unknown | asked)  # the registry has none of these
    sequencer = Sequencer(RecordFormat.of(topic, known))
    rows = [sequencer.sequence(table, LogState(), None, NOW_MS).rows]
    rows += [
        sequencer.sequence(table.slice(at, 1), LogState(), None, NOW_MS).rows for at in range(len(values))
    ]
    together, *alone = (each.drop_columns(["stream_time"]) for each in rows)
    # As texts: a damaged number may be NaN.
    assert str(pa.concat_tables(alone).to_pylist()) == str(together.to_pylist())
    for fine, value, found in zip(good, values, together.to_pylist(), strict=True):
        assert found["kind"] in (("record",) if fine else ("record", "dead_letter")), found["reason"]
        assert (found["reason"] is None) == (found["kind"] == "record")
        assert found["raw_value"] == (value if found["kind"] == "dead_letter" else None)
