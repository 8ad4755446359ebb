"""Lookups are described by a stream, a table, and the columns that refer."""

from __future__ import annotations

import pytest

import headrace as hr
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

ORDERS = hr.Topic("orders", key="id STRING", value="item STRING, amount INT")
ITEMS = hr.Topic("items", key="item STRING", value="price INT")


def test_a_lookup_has_the_columns_of_the_stream_and_the_values_of_the_table() -> None:
    found = ORDERS.where("amount > 0").lookup(ITEMS.table(), on="ITEM")
    assert found.columns == ("id", "item", "amount", "price")
    assert [column.type for column in found.result_columns] == ["STRING", "STRING", "INT", "INT"]
    assert [topic.name for topic in found.topics] == ["orders", "items"]
    assert found.in_words == "One row per record, by item; as of the record's place in the log."
    inner = ORDERS.where("amount > 0").lookup(ITEMS.table(), on="item", how="inner")
    assert inner.fingerprint() != found.fingerprint()


def test_what_does_not_fit_is_refused() -> None:
    with refused("is no table of a topic", "topic.table()"):
        ORDERS.lookup(ITEMS, on="item")  # type: ignore[arg-type]
    with refused("on names item, amount", "the key of the table is item"):
        ORDERS.lookup(ITEMS.table(), on=("item", "amount"))
    with refused("'amount' is INT and the table's 'item' is STRING", "CAST(amount AS STRING)"):
        ORDERS.lookup(ITEMS.table(), on="amount")
    with refused("both have a column 'amount'", "amount AS its_amount"):
        ORDERS.lookup(hr.Topic("items", key="item STRING", value="amount INT").table(), on="item")
    with refused("as_of 'event' does not exist in this version"):
        ORDERS.lookup(ITEMS.table(), on="item", as_of="event")
    with refused("how 'outer' does not exist; there are inner, left"):
        ORDERS.lookup(ITEMS.table(), on="item", how="outer")
