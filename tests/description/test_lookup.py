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
    assert found.in_words == (
        "One row per record, by item; as of the record's place in the log; once the table is complete."
    )
    inner = ORDERS.where("amount > 0").lookup(ITEMS.table(), on="item", how="inner")
    assert inner.fingerprint() != found.fingerprint()


def test_as_of_event_time_a_lookup_waits_and_says_so() -> None:
    by_log = ORDERS.lookup(ITEMS.table(), on="item")
    by_time = ORDERS.lookup(ITEMS.table(), on="item", as_of="event", history="1 hour")
    assert by_time.in_words == (
        "One row per record, by item; as of the record's event time, once that is past; late if 1 hour behind"
        "; once the table is complete."
    )
    assert (by_log.longest_wait_ms, by_time.longest_wait_ms) == (0, 1)
    assert by_log.columns == by_time.columns
    forever = ORDERS.lookup(ITEMS.table(), on="item", as_of="event")
    assert len({node.fingerprint() for node in (by_log, by_time, forever)}) == 3


def test_a_table_that_has_to_be_complete_first_is_one_of_topics() -> None:
    plain = ORDERS.lookup(ITEMS.table(), on="item", complete_first=False)
    first = ORDERS.lookup(ITEMS.table(), on="item", complete_first=True)
    assert ORDERS.lookup(ITEMS.table(), on="item").rules() == first.rules(), "so it is by itself"
    assert (plain.waits_for, first.waits_for) == ((), ("items",))
    assert first.in_words.endswith("as of the record's place in the log; once the table is complete.")
    assert (plain.day_column, first.day_column) == ("__ingested_at", "__released_at")
    assert plain.fingerprint() != first.fingerprint()
    assert "complete_first" not in plain.rules()
    totals = ITEMS.group_by("item").aggregate(n=hr.count())
    with refused("complete_first waits for topics, and the table is made of", "or leave complete_first out"):
        ORDERS.lookup(totals, on="item", complete_first=True)
    assert not ORDERS.lookup(totals, on="item").complete_first
    itself = ORDERS.select("id", "item AS earlier").table()
    mapped = ORDERS.flat_map("array(item) AS named").select("id", "named")
    for stream, on in ((ORDERS, "item"), (mapped, "named")):
        later = "its own later records are no table of the past"
        assert not stream.lookup(itself, on=on).complete_first, later
    other = ITEMS.select("item", "price AS next_price").table()
    assert first.lookup(other, on="item").complete_first, "its rows are orders, not items"
    with refused("complete_first 'yes' is not True or False"):
        ORDERS.lookup(ITEMS.table(), on="item", complete_first="yes")  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused() -> None:
    with refused("is no table", "topic.table()"):
        ORDERS.lookup(ITEMS, on="item")  # type: ignore[arg-type]
    with refused("on names item, amount", "the key of the table is item"):
        ORDERS.lookup(ITEMS.table(), on=("item", "amount"))
    with refused("'amount' is INT and the table's 'item' is STRING", "CAST(amount AS STRING)"):
        ORDERS.lookup(ITEMS.table(), on="amount")
    with refused("both have a column 'amount'", "amount AS its_amount"):
        ORDERS.lookup(hr.Topic("items", key="item STRING", value="amount INT").table(), on="item")
    with refused("as_of 'now' does not exist; there are log, event"):
        ORDERS.lookup(ITEMS.table(), on="item", as_of="now")
    with refused("history has no meaning", "as_of='event'"):
        ORDERS.lookup(ITEMS.table(), on="item", history="1 day")
    with refused("history", "'soon'"):
        ORDERS.lookup(ITEMS.table(), on="item", as_of="event", history="soon")
    with refused("how 'outer' does not exist; there are inner, left"):
        ORDERS.lookup(ITEMS.table(), on="item", how="outer")
