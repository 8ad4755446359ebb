"""Joins of streams are described by two streams, the columns that both have, and how far apart their records may be."""

from __future__ import annotations

import pytest

import headrace as hr
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

ORDERS = hr.Topic("orders", key="order_id STRING", value="amount INT")
PAYMENTS = hr.Topic("payments", key="payment_id STRING", value="order_id STRING, paid INT")
TIMES = {"within": "1 hour", "grace": "5 minutes"}


def test_a_join_of_streams_has_the_key_then_the_columns_of_both() -> None:
    found = PAYMENTS.where("paid > 0").join(ORDERS, on="ORDER_ID", **TIMES)
    assert found.columns == ("order_id", "payment_id", "paid", "amount")
    assert [column.type for column in found.result_columns] == ["STRING", "STRING", "INT", "INT"]
    assert [topic.name for topic in found.topics] == ["payments", "orders"]
    assert found.identity == ("order_id",)
    assert found.longest_wait_ms == 65 * 60_000
    assert found.in_words == "One row per pair of records with the same order_id, at most 1 hour apart."


def test_whatever_alters_rows_alters_the_fingerprint() -> None:
    nodes = [
        ORDERS.join(PAYMENTS, on="order_id", **TIMES),
        PAYMENTS.join(ORDERS, on="order_id", **TIMES),
        ORDERS.join(PAYMENTS, on="order_id", how="left", **TIMES),
        ORDERS.join(PAYMENTS, on="order_id", how="outer", **TIMES),
        ORDERS.join(PAYMENTS, on="order_id", within="1 hour", grace="6 minutes"),
        ORDERS.join(PAYMENTS, on="order_id", within="2 hours", grace="5 minutes"),
        ORDERS.join(PAYMENTS.where("paid > 0"), on="order_id", **TIMES),
    ]
    assert len({node.fingerprint() for node in nodes}) == len(nodes)
    assert "leaves after 1 hour 5 minutes" in nodes[3].in_words


def test_what_does_not_fit_is_refused() -> None:
    with refused("is neither a topic nor a stream", ".lookup(table"):
        ORDERS.join(PAYMENTS.table(), on="order_id", **TIMES)  # type: ignore[arg-type]
    with refused("topic 'orders' is on both sides", "different topics"):
        ORDERS.join(PAYMENTS.select("order_id").merge(ORDERS.select("order_id")), on="order_id", **TIMES)
    with refused("column 'customer' does not exist", "order_id, amount"):
        ORDERS.join(PAYMENTS, on="customer", **TIMES)
    with refused("join: on, right: column 'amount' does not exist"):
        ORDERS.join(PAYMENTS, on="amount", **TIMES)
    with refused("'order_id' is STRING on the left and INT on the right", "CAST(order_id AS STRING)"):
        numbered = hr.Topic("numbered", key="id STRING", value="order_id INT")
        ORDERS.join(numbered, on="order_id", **TIMES)
    with refused("both streams have a column 'amount'", "amount AS right_amount"):
        other = hr.Topic("other", key="id STRING", value="order_id STRING, amount INT")
        ORDERS.join(other, on="order_id", **TIMES)
    with refused("how 'full' does not exist; there are inner, left, outer"):
        ORDERS.join(PAYMENTS, on="order_id", how="full", **TIMES)
    with refused("within", "'soon'"):
        ORDERS.join(PAYMENTS, on="order_id", within="soon", grace=0)
    with refused("a transform leaves the columns unknown"):
        ORDERS.transform(lambda rows: rows).join(PAYMENTS, on="order_id", **TIMES)
