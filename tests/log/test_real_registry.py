"""A real registry of the kind that people run: its ids, its versions, and its bad days, as a topic's log meets them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import headrace as hr
from headrace.description.formats.registry import Registry, RegistryAwayError, SchemaRefusedError
from headrace.errors import TerminalError
from headrace.local.schema_registry import RegistryFailed, SchemaRegistry
from headrace.log import schema_store
from headrace.log.schema_store import SchemaStore
from headrace.sequence.decode import Decoder
from headrace.sequence.formats import RecordFormat
from headrace.sinks.encoding import encoder_of
from tests.laws.kernel.protobuf_values import Field, compiled, field, message

pytestmark = pytest.mark.broker

OLD: Any = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "string"}]}
NEW: Any = {**OLD, "fields": [*OLD["fields"], {"name": "n", "type": "int", "default": 0}]}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_store, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setenv("HEADRACE_REGISTRY_TIMEOUT_SECONDS", "2")
    monkeypatch.setenv("HEADRACE_REGISTRY_RETRIES", "0")


def written(registry: SchemaRegistry, schema: Any, value: Any) -> bytes:
    """A value as a producer of Confluent's client sends it; the schema is registered."""
    serializer = AvroSerializer(SchemaRegistryClient({"url": registry.url}), json.dumps(schema))
    found: bytes = serializer(value, SerializationContext("orders", MessageField.VALUE))
    return found


def read(topic: hr.Topic, store: SchemaStore, values: list[bytes]) -> list[Any]:
    """What the sequencer makes of values: their columns, or the reason."""
    while True:
        keys, raw = pa.nulls(len(values), pa.binary()), pa.array(values, pa.binary())
        times = pa.array([1_000] * len(values), pa.int64())
        decoded = Decoder(RecordFormat.of(topic, store.known)).decode(keys, raw, times, 10_000)
        if not decoded.asked:
            break
        store.learn(decoded.asked)
    held = zip(decoded.values.to_pylist(), decoded.reasons.as_column().to_pylist(), strict=True)
    return [value if reason is None else reason for value, reason in held]


def test_a_log_goes_on_through_a_real_registrys_days(registry: SchemaRegistry, tmp_path: Path) -> None:
    first = written(registry, OLD, {"id": "a"})
    before = hr.Topic("orders", format=hr.Avro(registry=registry.url, version=1))
    second = written(registry, NEW, {"id": "b", "n": 7})
    after = hr.Topic("orders", format=hr.Avro(registry=registry.url, version=2))
    assert (before.columns, after.columns) == (("id",), ("id", "n"))
    store = SchemaStore(f"file:{tmp_path}", after)
    assert read(after, store, [first, second]) == [{"id": "a", "n": 0}, {"id": "b", "n": 7}]
    assert read(before, store, [first, second]) == [{"id": "a"}, {"id": "b"}]
    unknown = b"\0\0\0\x0f\xff" + first[5:]
    assert read(after, store, [first, unknown]) == [
        {"id": "a", "n": 0},
        "malformed value: schema 4095 is not in the registry",
    ]
    registry.pause()
    fresh = SchemaStore(f"file:{tmp_path / 'fresh'}", after)
    with pytest.raises(RegistryAwayError, match="Timeout"):
        fresh.learn({(registry.url, 1)})
    registry.resume()
    registry.stop()
    with pytest.raises(RegistryAwayError, match="Connect"):
        fresh.learn({(registry.url, 1)})
    assert read(after, store, [second]) == [{"id": "b", "n": 7}]
    registry.start().wait_ready()


COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int32())])
ROWS = pa.array([{"id": "a", "n": 1}, {"id": "é", "n": None}, None], pa.struct(list(COLUMNS)))


def test_a_sink_registers_its_schema_and_a_topic_reads_its_rows(
    registry: SchemaRegistry, tmp_path: Path
) -> None:
    avro = hr.Avro(registry=registry.url)
    with pytest.raises(TerminalError, match="subject 'sums-value' does not have the schema"):
        encoder_of(avro, "sums", "value", COLUMNS, register=False)
    contents, problems = encoder_of(avro, "sums", "value", COLUMNS, register=True).encoded(ROWS).flatten()
    assert problems.null_count == 3
    assert encoder_of(avro, "sums", "value", COLUMNS, register=False).prefix == contents[0].as_py()[:5]
    sums = hr.Topic("sums", format=avro)
    assert sums.columns == ("id", "n")
    assert read(sums, SchemaStore(f"file:{tmp_path}", sums), contents.to_pylist()) == ROWS.to_pylist()


def test_an_incompatible_schema_is_refused_by_the_name_of_its_field(registry: SchemaRegistry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    client.register_schema("strict-value", Schema(json.dumps(OLD), "AVRO"))
    client.set_compatibility("strict-value", "BACKWARD")
    refused: dict[str, Any] = {
        "field 'n' is not written, and has no default": {
            **OLD,
            "fields": [*OLD["fields"], {"name": "n", "type": "int"}],
        },
        "field 'id' is written as string, and read as long": {
            **OLD,
            "fields": [{"name": "id", "type": "long"}],
        },
    }
    for why, schema in refused.items():
        columns = pa.schema(
            [
                (field["name"], {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}[field["type"]])
                for field in schema["fields"]
            ]
        )
        with pytest.raises(SchemaRefusedError) as told:
            encoder_of(
                hr.Avro(schema=schema, registry=registry.url), "strict", "value", columns, register=True
            )
        assert f"subject 'strict-value' refuses the schema: {why}" in str(told.value)
    encoder_of(hr.Avro(schema=NEW, registry=registry.url), "strict", "value", COLUMNS, register=True)


def test_protobuf_and_json_are_registered_too(registry: SchemaRegistry, tmp_path: Path) -> None:
    made = compiled(
        message("Other"), message("Sum", field("id", 1, Field.TYPE_STRING), field("n", 2, Field.TYPE_INT32))
    )
    protobuf = hr.Protobuf(made["p.Sum"], registry=registry.url)
    first = encoder_of(protobuf, "protos", "value", COLUMNS, register=True)
    contents = first.encoded(ROWS).flatten()[0].to_pylist()
    assert contents[0][5:7] == b"\2\2"  # one index, and it is 1, as zigzag numbers
    protos = hr.Topic("protos", format=protobuf)
    assert read(protos, SchemaStore(f"file:{tmp_path}", protos), contents) == [
        {"id": "a", "n": 1}, {"id": "é", "n": 0}, None,
    ]  # fmt: skip
    kinds = {subject: Registry(registry.url).of_subject(subject).kind for subject in ("protos-value",)}  # type: ignore[union-attr]
    assert kinds == {"protos-value": "PROTOBUF"}
    encoder = encoder_of(hr.JsonSchema(registry=registry.url), "texts", "value", COLUMNS, register=True)
    assert (encoder.rows, encoder.prefix[:1], len(encoder.prefix)) == (None, b"\0", 5)
    texts = hr.Topic("texts", format=hr.JsonSchema(registry=registry.url))
    assert [column.type for column in texts.value_columns] == ["STRING", "BIGINT"]


def test_a_port_that_is_taken_is_named(registry: SchemaRegistry, tmp_path: Path) -> None:
    with pytest.raises(RegistryFailed, match=f"Port {registry.port} on 127.0.0.1 is taken"):
        SchemaRegistry(tmp_path, registry.port).start()
