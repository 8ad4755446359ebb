"""A driver writes a dict of columns in the format of its topic, and asks no registry."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

import headrace as hr
from headrace.errors import HeadraceError
from headrace.testing import TestDriver
from tests.laws.kernel.protobuf_values import Field, compiled, field, message

pytestmark = pytest.mark.fast

NO_REGISTRY = "http://127.0.0.1:9"
CARD = {
    "type": "record",
    "name": "Card",
    "fields": [
        {"name": "id", "type": "string"},
        {
            "name": "amount",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}],
            "default": None,
        },
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["APPROVED", "DECLINED"]}},
        {
            "name": "shop",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Shop",
                    "fields": [{"name": "mcc", "type": ["null", "int"], "default": None}],
                },
            ],
            "default": None,
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
COLUMNS = (
    "id STRING, amount DECIMAL(12,2), status STRING NOT NULL, shop STRUCT<mcc: INT>, at TIMESTAMP NOT NULL"
)
AT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
ROWS: list[dict[str, Any]] = [
    {"id": "a", "amount": Decimal("12.50"), "status": "DECLINED", "shop": {"mcc": 7}, "at": AT},
    {"id": "b", "amount": None, "status": "APPROVED", "shop": {"mcc": None}, "at": AT.isoformat()},
    {"id": "c", "status": "APPROVED", "at": AT},
]
SUM = compiled(message("Sum", field("id", 1, Field.TYPE_STRING), field("n", 2, Field.TYPE_INT64)))["p.Sum"]
OBJECT = {"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "card", "type": "string"}]}


def piped(topic: hr.Topic, rows: list[dict[str, Any]], key: Any = None) -> list[dict[str, Any]]:
    """Pipe some rows, and read the values that the log has of them. No row may be a dead letter."""
    node = topic.where("true").named("all_rows")
    driver = TestDriver([node])
    for row in rows:
        driver.pipe(topic.name, key=key, value=row, timestamp_ms=1_000)
    driver.cut()
    driver.reset()  # the schemas stay
    for row in rows:
        driver.pipe(topic.name, key=key, value=row, timestamp_ms=1_000)
    driver.cut()
    assert driver.dead_letters(topic.name) == []
    found = driver.rows("all_rows")
    driver.check("all_rows")
    driver.close()
    return found


def test_rows_of_avro_with_and_without_a_registry_are_those_of_json() -> None:
    """Before: only bytes could be piped, and a registry had to run to read them."""
    in_json = piped(hr.Topic("cards", key="card STRING", value=COLUMNS, timestamp="at"), ROWS, "k")
    assert [row["amount"] for row in in_json] == [Decimal("12.50"), None, None]
    for of in (hr.Avro(schema=CARD), hr.Avro(schema=CARD, registry=NO_REGISTRY)):
        assert piped(hr.Topic("cards", key="card STRING", timestamp="at", format=of), ROWS, "k") == in_json
    declared = hr.Topic(
        "cards", key="card STRING", value=COLUMNS, timestamp="at", format=hr.Avro(registry=NO_REGISTRY)
    )
    assert piped(declared, ROWS, "k") == in_json


def test_keys_of_avro_are_written_too() -> None:
    of = hr.Avro(schema=KEY, registry=NO_REGISTRY)
    (row,) = piped(hr.Topic("cards", key_format=of, value="n INT"), [{"n": 1}], {"card": "k"})
    assert (row["card"], row["n"]) == ("k", 1)


@pytest.mark.parametrize(
    "of", [hr.Protobuf(SUM), hr.Protobuf(SUM, registered=True), hr.JsonSchema(schema=OBJECT)]
)
def test_messages_and_json_with_a_schema_are_written(of: hr.Protobuf | hr.JsonSchema) -> None:
    rows = [{"id": "a", "n": 1}, {"id": "b", "n": -5}]
    assert [(row["id"], row["n"]) for row in piped(hr.Topic("sums", format=of), rows)] == [
        ("a", 1),
        ("b", -5),
    ]


def test_a_row_that_does_not_fit_its_schema_is_refused_with_the_reason() -> None:
    topic = hr.Topic("cards", key="card STRING", timestamp="at", format=hr.Avro(schema=CARD))
    driver = TestDriver([topic.where("true").named("all_rows")])
    changes: list[tuple[dict[str, Any], str]] = [
        ({"status": "LOST"}, "LOST"),
        ({"amount": "much"}, "amount is not DECIMAL"),
        ({"at": 1_764_374_400_000}, "at is not TIMESTAMP"),
        ({"id": None}, "id"),
    ]
    for change, reason in changes:
        with pytest.raises(HeadraceError, match=reason) as refused:
            driver.pipe("cards", key="k", value=ROWS[0] | change)
        assert "Topic 'cards': the value" in str(refused.value)
    with pytest.raises(HeadraceError, match="neither bytes nor a dict"):
        driver.pipe("cards", key="k", value="text")
    driver.close()
