"""Schemas by id: asked of the registry once, kept below the log, and never taken from anything but a registry's answer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryError

import headrace as hr
from headrace.description.formats import registry as registries
from headrace.description.formats.registry import RegisteredSchema, RegistryAwayError, SchemaRefusedError
from headrace.log import schema_store
from headrace.log.schema_store import SchemaStore
from headrace.sinks.encoding.subjects import SchemaText, SubjectSchema, subject_schema
from tests.broker.certificates import certificates
from tests.log.registry_server import RegistryServer

pytestmark = pytest.mark.fast

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_store, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setenv("HEADRACE_REGISTRY_RETRIES", "0")


def topic(url: str) -> hr.Topic:
    return hr.Topic("orders", value="id STRING", format=hr.Avro(registry=url))


def store(folder: Path, url: str) -> SchemaStore:
    return SchemaStore(f"file:{folder}", topic(url))


def test_a_schema_is_asked_for_once_and_kept_for_ever(tmp_path: Path, registry: RegistryServer) -> None:
    registry.schemas[7] = SCHEMA
    first = store(tmp_path, registry.url)
    first.learn({(registry.url, 7)})
    expected = {(registry.url, 7): RegisteredSchema("AVRO", json.dumps(SCHEMA))}
    assert first.known.schemas == expected
    registry.fails = 500
    assert store(tmp_path, registry.url).known.schemas == expected
    assert registry.asked == ["/schemas/ids/7"]


def test_what_is_kept_is_never_replaced(tmp_path: Path, registry: RegistryServer) -> None:
    registry.schemas[7] = SCHEMA
    one, other = store(tmp_path, registry.url), store(tmp_path, registry.url)
    one.learn({(registry.url, 7)})
    registry.schemas[7] = "string"
    other.learn({(registry.url, 7)})
    assert other.known == one.known


def test_two_registries_give_one_id_to_two_schemas(tmp_path: Path, registry: RegistryServer) -> None:
    registry.schemas[7] = SCHEMA
    store(tmp_path, registry.url).learn({(registry.url, 7)})
    with RegistryServer() as other:
        other.schemas[7] = "string"
        moved = store(tmp_path, other.url)
        assert not moved.known.schemas
        moved.learn({(other.url, 7)})
        assert moved.known.schemas[other.url, 7].text == '"string"'


def test_an_id_that_the_registry_does_not_have_is_asked_for_again_and_then_unknown_for_a_while(
    tmp_path: Path, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = store(tmp_path, registry.url)
    asking.learn({(registry.url, 404)})
    assert registry.asked == ["/schemas/ids/404"] * schema_store.TRIES
    assert asking.known.unknown == {(registry.url, 404)}
    now = time.monotonic() + schema_store.FORGET_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert not asking.known.unknown
    registry.schemas[404] = SCHEMA
    asking.learn({(registry.url, 404)})
    assert (registry.url, 404) in asking.known.schemas


def test_many_unknown_ids_are_garbage_and_not_waited_for(tmp_path: Path, registry: RegistryServer) -> None:
    asked = {(registry.url, number) for number in range(schema_store.PATIENT_WITH + 1)}
    asking = store(tmp_path, registry.url)
    asking.learn(asked)
    assert len(registry.asked) == len(asked)
    assert asking.known.unknown == asked


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        (500, "not today"),
        (401, "HEADRACE_REGISTRY_PASSWORD"),
        (404, "not today"),  # no registry's 404
        ("garbage", "JSONDecodeError"),
        ("nothing", "Timeout"),
    ],
)
def test_a_registry_that_does_not_answer_as_one_makes_no_dead_letters(
    tmp_path: Path, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch, fails: Any, says: str
) -> None:
    if fails == "nothing":
        monkeypatch.setenv("HEADRACE_REGISTRY_TIMEOUT_SECONDS", "2")
    asking, registry.fails = store(tmp_path, registry.url), fails
    with pytest.raises(RegistryAwayError, match=says):
        asking.learn({(registry.url, 7)})
    assert not asking.known.schemas
    assert not asking.known.unknown
    registry.fails, registry.schemas[7] = None, SCHEMA
    asking.learn({(registry.url, 7)})
    assert asking.known.schemas


@pytest.mark.parametrize("document", [{"schema": None}, {"schema": "{not JSON"}, {"schema": " "}])
def test_an_answer_that_holds_no_schema_is_not_kept(
    tmp_path: Path, registry: RegistryServer, document: dict[str, Any]
) -> None:
    registry.schemas[7] = document
    with pytest.raises(RegistryAwayError):
        store(tmp_path, registry.url).learn({(registry.url, 7)})
    assert not list(tmp_path.rglob("*.json"))


def test_a_registry_that_is_not_there_may_come_back(tmp_path: Path) -> None:
    with RegistryServer() as gone:
        url = gone.url
    with pytest.raises(RegistryAwayError, match="ConnectError"):
        store(tmp_path, url).learn({(url, 7)})


def test_a_schema_comes_with_those_that_it_uses(tmp_path: Path, registry: RegistryServer) -> None:
    leaf = {"type": "record", "name": "leaf", "fields": [{"name": "n", "type": "int"}]}
    registry.subjects = {"leaf": [leaf], "twig": [{
        "schema": json.dumps({"type": "record", "name": "twig", "fields": [{"name": "l", "type": "leaf"}]}),
        "references": [{"name": "leaf", "subject": "leaf", "version": 1}],
    }]}  # fmt: skip
    registry.schemas[7] = {
        "schema": json.dumps({"type": "record", "name": "tree", "fields": [{"name": "t", "type": "twig"}]}),
        "references": [{"name": "twig", "subject": "twig", "version": 1}],
    }
    asking = store(tmp_path, registry.url)
    asking.learn({(registry.url, 7)})
    kept = asking.known.schemas[registry.url, 7]
    assert kept.references == (json.dumps(leaf), registry.subjects["twig"][0]["schema"])
    from headrace.description.formats.avro_types import parse_schema

    assert parse_schema(kept.text, kept.references).column() == "STRUCT<`t`: STRUCT<`l`: STRUCT<`n`: INT>>>"


def test_a_schema_whose_reference_is_not_there_is_not_unknown(
    tmp_path: Path, registry: RegistryServer
) -> None:
    registry.schemas[7] = {
        "schema": json.dumps({"type": "record", "name": "tree", "fields": [{"name": "t", "type": "twig"}]}),
        "references": [{"name": "twig", "subject": "twig", "version": 1}],
    }
    asking = store(tmp_path, registry.url)
    with pytest.raises(RegistryAwayError, match="'twig' in version 1, which another schema uses"):
        asking.learn({(registry.url, 7)})
    assert not asking.known.unknown
    registry.subjects["twig"] = [{"schema": '{"type": "fixed", "name": "twig", "size": 1}'}]
    asking.learn({(registry.url, 7)})
    assert asking.known.schemas


def test_a_registry_may_want_a_password_and_have_a_certificate_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = certificates(tmp_path / "certificates")
    with RegistryServer(files.broker) as server:
        server.schemas[7], server.user = SCHEMA, ("reader", "a secret")
        key = {(server.url, 7)}
        with pytest.raises(RegistryAwayError, match="CERTIFICATE_VERIFY_FAILED"):
            store(tmp_path, server.url).learn(key)
        monkeypatch.setenv("HEADRACE_REGISTRY_SSL_CA_LOCATION", str(files.authority))
        with pytest.raises(RegistryAwayError, match="who are you"):
            store(tmp_path, server.url).learn(key)
        monkeypatch.setenv("HEADRACE_REGISTRY_USERNAME", "reader")
        monkeypatch.setenv("HEADRACE_REGISTRY_PASSWORD", "another secret")
        with pytest.raises(RegistryAwayError) as refused:
            store(tmp_path, server.url).learn(key)
        assert "another secret" not in str(refused.value)
        monkeypatch.setenv("HEADRACE_REGISTRY_PASSWORD", "a secret")
        asking = store(tmp_path, server.url)
        asking.learn(key)
        assert asking.known.schemas


def test_a_description_may_take_its_columns_from_the_registry(registry: RegistryServer) -> None:
    newer = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "n", "type": "int", "default": 0}]}
    registry.subjects = {"orders-value": [SCHEMA, newer], "orders-key": ["string"]}
    both = hr.Avro(registry=registry.url)
    orders = hr.Topic("orders", format=both, key_format=both)
    assert orders.columns == ("key", "id", "n")
    assert hr.Topic("orders", format=hr.Avro(registry=registry.url, version=1)).columns == ("id",)
    other = hr.Topic("other", format=hr.Avro(registry=registry.url, subject="orders-value"))
    assert other.columns == ("id", "n")
    asked = len(registry.asked)
    assert hr.Topic("orders", format=both).columns == ("id", "n")
    assert len(registry.asked) == asked
    with pytest.raises(hr.DescriptionError, match="no subject 'missing-value'"):
        hr.Topic("missing", format=both)
    registry.fails = 500
    registries.described_schema.cache_clear()
    with pytest.raises(RegistryAwayError):
        hr.Topic("orders", format=both)


def test_a_refusal_is_told_also_where_the_other_schema_cannot_be_decoded() -> None:
    itself = {"type": "record", "name": "r", "fields": [{"name": "next", "type": ["null", "r"]}]}

    class Client:
        def register_schema(self, subject: str, schema: Any) -> int:
            raise SchemaRegistryError(409, 409, "the schema is incompatible")

        def get_latest_version(self, subject: str) -> Any:
            newest = SimpleNamespace(schema_type="AVRO", schema_str=json.dumps(itself), references=[])
            return SimpleNamespace(schema=newest)

    asked = registries.Registry("http://registry:8081")
    vars(asked)["_client"] = Client()
    with pytest.raises(SchemaRefusedError, match="subject 'orders-value' refuses the schema") as refused:
        asked.register("orders-value", "AVRO", json.dumps(SCHEMA))
    assert "the schema is incompatible" in str(refused.value)


def test_a_refused_schema_of_another_kind_and_one_without_sense_are_told() -> None:
    class Client:
        def register_schema(self, subject: str, schema: Any) -> int:
            raise SchemaRegistryError(409, 409, "the schema is incompatible")

        def get_latest_version(self, subject: str) -> Any:
            text = 'syntax = "proto3"; message M { string id = 1; int32 n = 2; }'
            newest = SimpleNamespace(schema_type="PROTOBUF", schema_str=text, references=[])
            return SimpleNamespace(schema=newest)

    asked = registries.Registry("http://registry:8081")
    vars(asked)["_client"] = Client()
    with pytest.raises(SchemaRefusedError, match="its schemas are PROTOBUF, and this one is JSON"):
        asked.register("orders-value", "JSON", "{}")
    with pytest.raises(SchemaRefusedError, match="see its own words"):
        asked.register("orders-value", "PROTOBUF", "message M {")


def test_a_schema_keeps_its_id_where_the_registry_cannot_compare_its_text_with_its_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Client:
        def register_schema(self, subject: str, schema: Any) -> int:
            raise SchemaRegistryError(500, 500, "it cannot compare descriptors")

        def lookup_schema(self, subject: str, schema: Any) -> Any:
            if schema.schema_str == "descriptor":
                return SimpleNamespace(schema_id=7)
            raise SchemaRegistryError(404, 40403, "it does not have the schema")

    monkeypatch.setattr(registries.Registry, "_client", Client())

    def registered(former: str | None) -> SubjectSchema:
        at = "http://compares-no-descriptors:8081"
        return subject_schema(at, "s-value", SchemaText("PROTOBUF", "text", former=former), register=True)

    assert registered("descriptor") == SubjectSchema(7, is_former=True)
    for former in (None, "another"):
        with pytest.raises(RegistryAwayError, match="the registration of a schema in subject 's-value'"):
            registered(former)
