"""What Debezium captured of a real PostgreSQL (see tests/fixtures/debezium), and topics that read it."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import headrace as hr

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "debezium"
RECORDINGS = ("plain", "with_schema")
CUSTOMERS = "id INT, name STRING NOT NULL, balance DECIMAL(12,2), born INT, joined TIMESTAMP, vip BOOLEAN, note STRING"
LINES = "order_id INT, line INT, sku STRING, quantity BIGINT, price DOUBLE"
TOPICS = {
    "shop.public.customers": ("id INT", CUSTOMERS),
    "shop.public.lines": ("order_id INT, line INT", LINES),
}


def recording(name: str) -> dict[str, Any]:
    """The records of a recording in the order of capture, and the rows that its tables had in the end."""
    found: dict[str, Any] = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    for row in found["tables"]["customers"]:
        row[2] = row[2] and Decimal(row[2])
        row[4] = row[4] and dt.datetime.fromisoformat(f"{row[4]}+00:00")
    return found


def topic(name: str) -> hr.Topic:
    """A captured table, with everything that Debezium tells beside its rows."""
    key, value = TOPICS[name]
    more = hr.Debezium(operation="op", changed_at="at", transaction="tx")
    return hr.Topic(name, key=key, value=value, timestamp="at", format=more)
