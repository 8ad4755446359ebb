"""A real registry of the kind that people run: its ids, its versions, and its bad days, as a topic's log meets them."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

import headrace as hr
from assets.tightenings import tightenings
from headrace.description.formats.registry import Registry, RegistryAwayError, SchemaRefusedError
from headrace.errors import TerminalError
from headrace.local.demos import republisher, scenes
from headrace.local.demos.scenes import Stations
from headrace.local.schema_registry import INTERFACE, RegistryFailed, SchemaRegistry
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.local.tightening_message import Tightening
from headrace.local.traffic import produce_history
from headrace.log import schema_store
from headrace.log.schema_store import SchemaStore
from headrace.sequence.decode import Decoder
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LogState
from headrace.sequence.replays.guards import new_guard
from headrace.sequence.sequence_records import Sequencer
from headrace.sinks.encoding import encoder_of
from tests.broker.certificates import certificates
from tests.faults.delivered import delivered
from tests.laws.kernel.protobuf_values import Field, compiled, field, message
from tests.laws.kernel.test_protobuf_indexes import order
from tests.log.registry_proxy import RegistryProxy

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
    monkeypatch.setenv("HEADRACE_REGISTRY_TIMEOUT_SECONDS", "60")
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


def test_a_log_goes_on_through_a_real_registrys_days(
    registry: SchemaRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert registry.pid is not None
    os.kill(registry.pid, signal.SIGSTOP)  # connections are accepted, and wait
    monkeypatch.setenv("HEADRACE_REGISTRY_TIMEOUT_SECONDS", "2")
    fresh = SchemaStore(f"file:{tmp_path / 'fresh'}", after)
    with pytest.raises(RegistryAwayError, match="Timeout"):
        fresh.learn({(registry.url, 1)})
    os.kill(registry.pid, signal.SIGCONT)
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


def test_an_incompatible_json_schema_is_refused_by_the_name_of_its_property(registry: SchemaRegistry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    properties = {"id": {"type": "string"}, "n": {"type": ["null", "string"]}}
    text = json.dumps({"type": "object", "properties": properties})
    client.register_schema("objects-value", Schema(text, "JSON"))
    client.set_compatibility("objects-value", "BACKWARD")
    changed = {"type": "object", "properties": {**properties, "n": {"type": "integer"}}}
    with pytest.raises(SchemaRefusedError) as told:
        encoder_of(
            hr.JsonSchema(schema=changed, registry=registry.url), "objects", "value", COLUMNS, register=True
        )
    why = "property 'n' is integer, and was null or string"
    assert f"subject 'objects-value' refuses the schema: {why}" in str(told.value)


def test_an_incompatible_message_is_refused_by_the_name_of_its_field(registry: SchemaRegistry) -> None:
    client = SchemaRegistryClient({"url": registry.url})

    def register(*fields: Any) -> bytes:
        of = compiled(message("Sum", field("id", 1, Field.TYPE_STRING), *fields))["p.Sum"]
        return encoder_of(
            hr.Protobuf(of, registry=registry.url), "numbers", "value", COLUMNS, register=True
        ).prefix

    n = field("n", 2, Field.TYPE_INT32)
    first = register(n)
    client.set_compatibility("numbers-value", "BACKWARD")
    with pytest.raises(SchemaRefusedError) as told:
        register(field("n", 3, Field.TYPE_INT32))
    why = "field 'Sum.n' has number 3, and had 2"
    assert f"subject 'numbers-value' refuses the schema: {why}" in str(told.value)
    assert register(n, field("more", 3, Field.TYPE_STRING)) != first


def test_a_message_that_an_earlier_version_registered_as_its_descriptor_is_found(
    registry: SchemaRegistry,
) -> None:
    of = compiled(message("Sum", field("id", 1, Field.TYPE_STRING), field("n", 2, Field.TYPE_INT32)))["p.Sum"]
    client = SchemaRegistryClient({"url": registry.url})
    number = client.register_schema("former-value", Schema(descriptor_of(of), "PROTOBUF"))
    protobuf = hr.Protobuf(of, registry=registry.url)
    found = encoder_of(protobuf, "former", "value", COLUMNS, register=False)
    assert found.prefix[:5] == b"\0" + number.to_bytes(4, "big")


def test_a_schema_that_the_registry_cannot_compare_with_a_descriptor_is_refused(
    registry: SchemaRegistry,
) -> None:
    """A producer of Confluent's Python client has registered the class of an older message."""
    client = SchemaRegistryClient({"url": registry.url})
    old = compiled(message("Sum", field("id", 1, Field.TYPE_STRING)))["p.Sum"]
    client.register_schema("described-value", Schema(descriptor_of(old), "PROTOBUF"))
    client.set_compatibility("described-value", "BACKWARD")
    new = hr.Protobuf(
        compiled(message("Sum", field("id", 1, Field.TYPE_STRING), field("n", 2, Field.TYPE_INT32)))["p.Sum"],
        registry=registry.url,
    )
    with pytest.raises(SchemaRefusedError) as told:
        encoder_of(new, "described", "value", COLUMNS, register=True)
    why = "the newest version of the subject is no .proto text but a descriptor, which this registry cannot compare"
    assert f"subject 'described-value' refuses the schema: {why}" in str(told.value)
    client.set_compatibility("described-value", "NONE")
    assert encoder_of(new, "described", "value", COLUMNS, register=True).prefix[:1] == b"\0"
    client.set_compatibility("described-value", "BACKWARD")
    newest = client.get_latest_version("described-value")
    assert newest.schema_id is not None
    assert newest.schema.schema_str is not None
    assert newest.schema.schema_str.startswith("syntax")
    found = encoder_of(new, "described", "value", COLUMNS, register=False)
    assert found.prefix[:5] == b"\0" + newest.schema_id.to_bytes(4, "big")


def test_a_nested_message_has_the_indexes_that_its_registered_form_gives_it(registry: SchemaRegistry) -> None:
    """In a text a map field makes no message of its own, and in a descriptor it does."""
    schema = order("Sum", columns=[field("id", 1, Field.TYPE_STRING), field("n", 2, Field.TYPE_INT32)])
    of = hr.Protobuf("p.Order.Sum", schema=schema, registry=registry.url)
    text = encoder_of(of, "texts-of-maps", "value", COLUMNS, register=True).prefix
    assert text[5:] == b"\4\0\0"
    client = SchemaRegistryClient({"url": registry.url})
    file = FileDescriptorSet.FromString(schema).file[-1].SerializeToString(deterministic=True)
    client.register_schema("classes-of-maps-value", Schema(base64.b64encode(file).decode(), "PROTOBUF"))
    described = encoder_of(of, "classes-of-maps", "value", COLUMNS, register=False).prefix
    assert described[5:] == b"\4\0\2"


def descriptor_of(made: Any) -> str:
    described = FileDescriptorProto()
    made.DESCRIPTOR.file.CopyToProto(described)
    return base64.b64encode(described.SerializeToString(deterministic=True)).decode()


def test_protobuf_and_json_are_registered_too(registry: SchemaRegistry, tmp_path: Path) -> None:
    number = field("n", 2, Field.TYPE_INT32, proto3_optional=True)
    made = compiled(message("Other"), message("Sum", field("id", 1, Field.TYPE_STRING), number))
    protobuf = hr.Protobuf(made["p.Sum"], registry=registry.url)
    first = encoder_of(protobuf, "protos", "value", COLUMNS, register=True)
    contents = first.encoded(ROWS).flatten()[0].to_pylist()
    assert contents[0][5:7] == b"\2\2"  # one index, and it is 1, as zigzag numbers
    protos = hr.Topic("protos", format=protobuf)
    assert read(protos, SchemaStore(f"file:{tmp_path}", protos), contents) == ROWS.to_pylist()
    kinds = {subject: Registry(registry.url).of_subject(subject).kind for subject in ("protos-value",)}  # type: ignore[union-attr]
    assert kinds == {"protos-value": "PROTOBUF"}
    encoder = encoder_of(hr.JsonSchema(registry=registry.url), "texts", "value", COLUMNS, register=True)
    assert (encoder.rows, encoder.prefix[:1], len(encoder.prefix)) == (None, b"\0", 5)
    texts = hr.Topic("texts", format=hr.JsonSchema(registry=registry.url))
    assert [column.type for column in texts.value_columns] == ["STRING", "BIGINT"]


def test_a_guarded_registry_is_read_and_written_with_the_right_password_alone(
    registry: SchemaRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = written(registry, OLD, {"id": "a"})
    files = certificates(tmp_path / "certificates")
    readers, writers = {"reader": "its secret"}, {"writer": "another secret"}
    with RegistryProxy(
        f"http://127.0.0.1:{registry.port}", files.broker, readers=readers, writers=writers
    ) as proxy:
        avro = hr.Avro(registry=proxy.endpoint + INTERFACE)
        topic = hr.Topic("guarded", value="id STRING", format=avro)

        def store(**credentials: str) -> SchemaStore:
            for name in ("USERNAME", "PASSWORD", "SSL_CA_LOCATION"):
                if name in credentials:
                    monkeypatch.setenv(f"HEADRACE_REGISTRY_{name}", credentials[name])
            return SchemaStore(f"file:{tmp_path}/log", topic)

        def away(says: str, **credentials: str) -> None:
            with pytest.raises(RegistryAwayError) as told:
                read(topic, store(**credentials), [value])
            assert says in str(told.value)
            assert "secret" not in str(told.value)

        away("CERTIFICATE_VERIFY_FAILED")
        away("Correct HEADRACE_REGISTRY_USERNAME", SSL_CA_LOCATION=str(files.authority))
        away("Correct HEADRACE_REGISTRY_USERNAME", USERNAME="reader", PASSWORD="another secret")
        assert not list((tmp_path / "log").rglob("*.json"))
        assert read(topic, store(PASSWORD="its secret"), [value]) == [{"id": "a"}]
        with pytest.raises(RegistryAwayError) as refused:  # 403: a reader may not register
            encoder_of(avro, "guarded", "value", COLUMNS, register=True)
        assert "Correct HEADRACE_REGISTRY_USERNAME" in str(refused.value)
        known = store(USERNAME="nobody")  # what is kept needs no registry
        assert read(topic, known, [value]) == [{"id": "a"}]
        store(USERNAME="writer", PASSWORD="another secret")
        prefix = encoder_of(avro, "guarded", "value", COLUMNS, register=True).prefix
        assert Registry(registry.url).schema(int.from_bytes(prefix[1:5], "big")) is not None


@pytest.mark.long
def test_the_demos_service_registers_its_messages_and_sends_some_of_them_again(
    registry: SchemaRegistry, kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenes, "CRASHES", 1)
    monkeypatch.setattr(scenes, "CRASH_AFTER", republisher.COMMIT_EVERY + 40)
    servers = kafka.bootstrap_servers
    create_topics(servers, {republisher.SOURCE: 2, republisher.TARGET: 2})
    produce_history(servers, republisher.SOURCE, Stations(), days=0, records=300)
    assert scenes.republish_once(servers, registry.url, tmp_path / "republisher.log") == 1
    sent = delivered(servers, republisher.TARGET)
    newest = SchemaRegistryClient({"url": registry.url}).get_latest_version("tightenings-value")
    assert newest.schema.schema_type == "PROTOBUF"
    assert newest.schema_id is not None
    frame = b"\0" + newest.schema_id.to_bytes(4, "big") + b"\2\4"  # one index: the third message of its file
    for each in sent:
        assert each.value is not None
        assert each.value.startswith(frame)
        inside = Tightening.FromString(each.value[len(frame) :]).envelope.source_topic_chain
        chain = [[entry.topic, entry.partition, entry.offset] for entry in inside]
        assert each.chain is not None
        assert chain == json.loads(each.chain)
    headers = [[{"key": "x", "value": b""}]] * len(sent)  # none that tells a chain
    columns = {
        name: [getattr(each, name) for each in sent] for name in ("partition", "offset", "key", "value")
    }
    times = [each.timestamp_ms for each in sent]
    raw = pa.table({**columns, "timestamp": times, "headers": headers})
    made = Sequencer(RecordFormat.of(tightenings)).sequence(
        raw, LogState(), new_guard(tightenings.replay_guard), max(times) + 1
    )
    assert (made.records, made.dead_letters, made.replays) == (340, 0, 40)
    fresh = made.rows.filter(pc.invert(made.rows["replay"]))
    assert pc.sum(pc.struct_field(fresh["value"], "count")).as_py() == scenes.tightenings(300)


def test_a_port_that_is_taken_is_named(registry: SchemaRegistry, tmp_path: Path) -> None:
    with pytest.raises(RegistryFailed, match=f"Port {registry.port} on 127.0.0.1 is taken"):
        SchemaRegistry(tmp_path, registry.port).start()
