"""Formats with a schema are checked when they are described."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from dagster import EnvVar

import headrace as hr
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

SCHEMA = {
    "type": "record",
    "name": "order",
    "fields": [{"name": "id", "type": "string"}, {"name": "total", "type": ["null", "double"]}],
}


def test_a_schema_is_a_text_or_what_it_stands_for_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(SCHEMA, indent=2))
    one, two, three = (
        hr.Topic("t", format=hr.Avro(schema=given)) for given in (SCHEMA, json.dumps(SCHEMA), file)
    )
    assert one == two == three
    assert hash(one) == hash(two)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.columns == ("id", "total")
    assert one != hr.Topic("t", value="id STRING, total DOUBLE")


def test_a_json_schema_may_give_its_null_a_title() -> None:
    """Confluent's serializers do; before, the columns were silently STRING."""

    def null_or(other: dict[str, object], null: object = "null") -> dict[str, object]:
        return {"oneOf": [{"type": null, "title": "Not included"}, other]}

    schema = {
        "properties": {
            "n": null_or({"type": "integer"}),
            "at": null_or({"type": "string", "format": "date-time"}, ["null"]),
            "who": null_or({"$ref": "#/definitions/Who"}),
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
        },
        "definitions": {"Who": {"type": "object", "properties": {"name": null_or({"type": "string"})}}},
    }
    columns = hr.Topic("t", format=hr.JsonSchema(schema=schema)).value_columns
    types = {column.name: column.type for column in columns}
    assert types == {"n": "BIGINT", "at": "TIMESTAMP", "who": "STRUCT<name: STRING>", "either": "STRING"}


def test_the_registrys_address_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_URL", "http://registry:8081")
    named = hr.Avro(schema=SCHEMA, registry=EnvVar("REGISTRY_URL"))
    assert named.url == "http://registry:8081"
    assert hr.Avro(schema=SCHEMA).url is None
    monkeypatch.setenv("REGISTRY_URL", "http://me:secret@registry:8081")
    with refused("holds a user or a password"):
        _ = named.url
    with refused("holds a user or a password"):
        _ = hr.Topic("t", format=hr.JsonSchema(registry=EnvVar("REGISTRY_URL"))).columns


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with refused("neither schema nor registry"):
        hr.Avro()
    with refused("is not JSON"):
        hr.Avro(schema="orders.avsc")
    with refused("cannot be read"):
        hr.Avro(schema=tmp_path / "none.avsc")
    with refused("type 'nothing' is not defined"):
        hr.Avro(schema={"type": "array", "items": "nothing"})
    with refused("both name the reader's schema"):
        hr.Avro(schema=SCHEMA, registry="http://r", subject="s")
    with refused("version 0"):
        hr.Avro(registry="http://r", version=0)
    with refused("is not the address"):
        hr.Avro(registry="registry:8081")
    with refused("holds a user or a password", "HEADRACE_REGISTRY_PASSWORD"):
        hr.Avro(registry="https://me:secret@registry")
    with refused("holds itself"):
        hr.Avro(schema={"type": "record", "name": "n", "fields": [{"name": "next", "type": ["null", "n"]}]})


def test_columns_that_the_schema_does_not_have_are_refused() -> None:
    of = hr.Avro(schema=SCHEMA)
    with refused("column 'totl' is not in the Avro schema", "Did you mean 'total'?"):
        hr.Topic("t", value="totl DOUBLE", format=of)
    with refused("column 'total' is INT, and DOUBLE by the Avro schema"):
        hr.Topic("t", value="total INT", format=of)
    with refused("its Avro schema is string, and values are records"):
        hr.Topic("t", format=hr.Avro(schema="string"))
    with refused("gives no column", "f: a union of int and long and other types has no column"):
        fields = [{"name": "f", "type": ["int", "long", "string"]}]
        hr.Topic("t", format=hr.Avro(schema={"type": "record", "name": "r", "fields": fields}))
    with refused("'__x' is reserved"):
        fields = [{"name": "__x", "type": "int"}]
        hr.Topic("t", format=hr.Avro(schema={"type": "record", "name": "r", "fields": fields}))
    with refused("key_format 'avro' does not exist"):
        hr.Topic("t", value="x INT", key_format="avro")


def test_a_format_is_no_part_of_what_a_node_depends_on() -> None:
    """Equal columns of equal logs give equal rows, however the bytes in Kafka were written."""
    plain = hr.Topic("t", value="id STRING, total DOUBLE").group_by("id").aggregate(n=hr.count()).named("n")
    avro = hr.Topic("t", format=hr.Avro(schema=SCHEMA)).group_by("id").aggregate(n=hr.count()).named("n")
    assert plain.fingerprint() == avro.fingerprint()
