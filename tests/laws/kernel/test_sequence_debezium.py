"""Debezium's envelopes: the rows after each change are the captured table, and each odd envelope is a dead letter."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import headrace as hr
from headrace.description.formats.registry import RegisteredSchema
from headrace.sequence.decode import Decoded, Decoder
from headrace.sequence.encodings import KnownSchemas
from headrace.sequence.formats import RecordFormat
from tests.laws.kernel.debezium_records import RECORDINGS, TOPICS, recording, topic

pytestmark = pytest.mark.fast


def decoded(
    of: hr.Topic, pairs: list[tuple[bytes | None, bytes | None]], known: KnownSchemas | None = None
) -> Decoded:
    keys, values = (pa.array([pair[part] for pair in pairs], pa.binary()) for part in (0, 1))
    times = pa.array([1_000] * len(pairs), pa.int64())
    return Decoder(RecordFormat.of(of, known)).decode(keys, values, times, 4_000_000_000_000)


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("table", TOPICS)
def test_the_last_row_of_each_key_is_the_captured_table(name: str, table: str) -> None:
    captured = recording(name)
    records = [record for record in captured["records"] if record["topic"] == table]
    pairs = [(r["key"].encode(), r["value"] and r["value"].encode()) for r in records]
    read = decoded(topic(table), pairs)
    assert read.reasons.as_column().null_count == len(records)
    assert read.keys is not None
    rows: dict[tuple[Any, ...], Any] = {}
    told = zip(read.keys.to_pylist(), read.values.to_pylist(), read.tombstones.tolist(), records, strict=True)
    for key, value, gone, record in told:
        envelope = json.loads(record["value"] or "null")
        envelope = envelope["payload"] if envelope and "payload" in envelope else envelope
        assert gone == (envelope is None or envelope["op"] == "d")
        if envelope is not None:
            transaction = (envelope["transaction"] or {}).get("id")
            more = (envelope["op"], envelope["source"]["ts_ms"], transaction)
            assert tuple(value.pop(each) for each in ("op", "at", "tx")) == more
        if gone:
            rows.pop(tuple(key.values()), None)
        else:
            rows[tuple(key.values())] = list(value.values())
    assert sorted(rows.values()) == captured["tables"][table.rpartition(".")[2]]


def test_a_recording_holds_each_operation() -> None:
    values = [json.loads(r["value"]) for r in recording("plain")["records"] if r["value"]]
    assert {"r", "c", "u", "d"} <= {value.get("op") for value in values}
    assert any((value.get("transaction") or {}).get("id") for value in values)


def envelope(op: str | None, after: Any, **more: Any) -> bytes:
    return json.dumps({"before": None, "after": after, "op": op, "ts_ms": 9, **more}).encode()


SIGN = "__debezium_unavailable_value"
NESTED = (
    "tags ARRAY<STRING>, ids ARRAY<BIGINT>, attributes MAP<STRING, STRING>, parts ARRAY<STRUCT<a: BINARY>>"
)
ROW = {"id": 1, "name": "a", "photo": "AAEC"}
ODD: dict[str, tuple[bytes, str | None]] = {
    "a created row": (envelope("c", ROW), None),
    "a row read by a snapshot": (envelope("r", ROW), None),
    "within schema and payload": (
        b'{"schema": {"type": "struct"}, "payload": %s}' % envelope("u", ROW),
        None,
    ),
    "a deletion without the row before": (envelope("d", None), None),
    "no envelope": (b'{"id": 1, "name": "a"}', "it is no envelope of Debezium: op is null"),
    "a message about a transaction": (b'{"status": "BEGIN", "id": "7"}', "it is no envelope of Debezium"),
    "an operation without its row": (envelope("c", None), "its after is null, and its op no d"),
    "a truncation": (envelope("t", None), "op t, a truncation of the table, cannot be followed"),
    "another operation": (envelope("m", None), "Debezium has no op 'm'"),
    "a field of another type": (envelope("c", ROW | {"id": "x"}), "not JSON, or a field does not fit"),
    "a required field is missing": (envelope("c", {"id": 1}), "missing value field: name is NOT NULL"),
    "a long text that did not change": (
        envelope("u", ROW | {"name": "__debezium_unavailable_value"}),
        "name was not sent, for it did not change; its table needs REPLICA IDENTITY FULL",
    ),
    "long bytes that did not change": (
        envelope("u", ROW | {"photo": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="}),
        "photo was not sent",
    ),
    "a long array of texts that did not change": (envelope("u", ROW | {"tags": [SIGN]}), "tags was not sent"),
    "a long array of numbers that did not change": (
        envelope("u", ROW | {"ids": [*SIGN.encode()]}),
        "ids was not sent",
    ),
    "a long map that did not change": (
        envelope("u", ROW | {"attributes": {SIGN: SIGN}}),
        "attributes was not sent",
    ),
    "arrays and a map that were sent": (
        envelope("u", ROW | {"tags": ["a", None], "ids": [*SIGN.encode()][1:], "attributes": {"a": None}}),
        None,
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_each_envelope_has_its_outcome(name: str) -> None:
    value, why = ODD[name]
    of = hr.Topic(
        "t", key="id INT", value=f"id INT, name STRING NOT NULL, photo BINARY, {NESTED}", format=hr.Debezium()
    )
    read = decoded(of, [(b'{"id": 1}', value), (b'{"payload": {"id": 1}}', None)])
    reason, _ = read.reasons.as_column().to_pylist()
    assert (reason is None) == (why is None), reason
    assert (why or "") in (reason or "")
    assert read.keys is not None
    assert read.keys.to_pylist() == [{"id": 1}, {"id": 1}]


def test_a_placeholder_within_a_value_makes_its_own_record_a_dead_letter_alone() -> None:
    random, of = Random(7), hr.Topic("t", key="id INT", value=f"id INT, {NESTED}", format=hr.Debezium())
    choices: dict[str, list[Any]] = {
        "tags": [None, [], [SIGN], ["a"], [None, SIGN], [SIGN + "s"]],
        "ids": [None, [], [*SIGN.encode()], [7, None], [*SIGN.encode()[:-1], None], [*SIGN.encode(), 0]],
        "attributes": [None, {}, {"a": SIGN}, {SIGN: None}, {"a": "b", "c": None}],
        "parts": [
            None,
            [None],
            [{"a": "AAEC"}, {"a": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="}],
            [{"a": None}],
        ],
    }
    unsent = {"tags": (2, 4), "ids": (2,), "attributes": (2, 3), "parts": (2,)}
    picked = [{name: random.randrange(len(some)) for name, some in choices.items()} for _ in range(200)]
    rows = [{name: choices[name][at] for name, at in each.items()} for each in picked]
    values = [envelope("u", None if n % 9 == 8 else {"id": n, **row}) for n, row in enumerate(rows)]
    read = decoded(of, [(b'{"id": %d}' % n, value) for n, value in enumerate(values)])
    for n, (each, why) in enumerate(zip(picked, read.reasons.as_column().to_pylist(), strict=True)):
        first = next((name for name, at in each.items() if at in unsent[name]), None)
        wanted = "its after is null" if n % 9 == 8 else first and f"{first} was not sent"
        assert (why is None) == (wanted is None), (n, why)
        assert (wanted or "") in (why or "")


SCHEMA = {
    "type": "record", "name": "Envelope", "namespace": "shop.public.customers", "fields": [
        {"name": "before", "type": ["null", {"type": "record", "name": "Value", "fields": [
            {"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"], "default": None},
        ]}], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}]}},
        {"name": "op", "type": "string"},
        {"name": "transaction", "type": ["null", {"type": "record", "name": "block", "fields": [{"name": "id", "type": "string"}]}], "default": None},
    ],
}  # fmt: skip


def test_envelopes_in_avro_are_rows_too() -> None:
    def framed(value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), value)
        return b"\0\0\0\0\7" + out.getvalue()

    url = "http://registry:8081"
    known = KnownSchemas({(url, 7): RegisteredSchema("AVRO", json.dumps(SCHEMA))})
    row = {"id": 1, "name": "a"}
    values = [
        framed({"before": None, "after": row, "source": {"ts_ms": 5}, "op": "c", "transaction": {"id": "9"}}),
        framed({"before": row, "after": None, "source": {"ts_ms": 6}, "op": "d", "transaction": None}),
        b"\0\0\0\0\7",
    ]
    more = {"operation": "op", "transaction": "tx", "changed_at": "at"}
    for avro, value in (
        (hr.Avro(registry=url), "id INT, name STRING"),
        (hr.Avro(schema=SCHEMA, registry=url), ""),
    ):
        of = hr.Topic("t", key="k STRING", value=value, format=hr.Debezium(avro, **more))
        assert of.columns == ("k", "id", "name", "op", "at", "tx")
        read = decoded(of, [(b"1", each) for each in values], known)
        held, reasons = read.values.to_pylist(), read.reasons.as_column().to_pylist()
        assert held[:2] == [
            row | {"op": "c", "at": 5, "tx": "9"},
            {"id": None, "name": None, "op": "d", "at": 6, "tx": None},
        ]
        assert (read.tombstones.tolist(), reasons[:2]) == ([False, True, False], [None, None])
        assert "schema 7: it is cut short" in reasons[2]
        assert not read.asked
        assert decoded(of, [(b"1", values[0])]).asked == {(url, 7)}


@pytest.mark.parametrize(
    ("of", "value", "says"),
    [
        ({"format": "xml"}, "id INT", "neither 'json' nor hr.Avro"),
        ({"operation": ""}, "id INT", "not the name of a column"),
        ({"operation": "id"}, "id INT", "occurs twice"),
        ({}, "", "is not a list of columns"),
        ({"format": hr.Avro(schema={**SCHEMA, "fields": SCHEMA["fields"][3:4]})}, "", "no record 'after'"),
        ({"format": hr.Avro(schema=SCHEMA)}, "id INT, nmae STRING", "'nmae' is not in the Avro schema's after"),
    ],
)  # fmt: skip
def test_what_cannot_be_captured_so_is_refused(of: dict[str, Any], value: str, says: str) -> None:
    with pytest.raises(hr.DescriptionError, match=says):
        _ = hr.Topic("t", value=value, format=hr.Debezium(**of)).columns
