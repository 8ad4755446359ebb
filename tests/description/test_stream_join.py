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
    assert found.key == ("order_id",)
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
        ORDERS.join(PAYMENTS, on="order_id", before=0, after="1 hour", grace="5 minutes"),
        ORDERS.join(PAYMENTS, on="order_id", before="1 hour", after=0, grace="5 minutes"),
    ]
    assert len({node.fingerprint() for node in nodes}) == len(nodes)
    assert "leaves after 1 hour 5 minutes" in nodes[3].in_words


def test_partners_may_lie_to_one_side_in_time() -> None:
    after = ORDERS.join(PAYMENTS, on="order_id", before=0, after="1 hour", grace="5 minutes", how="outer")
    assert (after.waits_ms, after.longest_wait_ms) == ((65 * 60_000, 5 * 60_000), 65 * 60_000)
    assert after.in_words == (
        "One row per pair of records with the same order_id, the right one at most 0 ms before and 1 hour after the left one; "
        "a record without a partner leaves after 1 hour 5 minutes of stream time, a right one after 5 minutes."
    )
    same = ORDERS.join(PAYMENTS, on="order_id", before="1 hour", after="1 hour", grace="5 minutes")
    assert same.fingerprint() == ORDERS.join(PAYMENTS, on="order_id", **TIMES).fingerprint()
    later = ORDERS.join(PAYMENTS, on="order_id", within="1 hour", after="2 hours", grace=0)
    assert (later.before_ms, later.after_ms) == (3_600_000, 7_200_000)


def test_a_stream_is_joined_with_another_of_its_own_topic() -> None:
    again = ORDERS.select("order_id", "amount AS earlier")
    found = ORDERS.join(again, on="order_id", **TIMES)
    assert (found.columns, len(found.topics)) == (("order_id", "amount", "earlier"), 1)
    assert found.shares_topics
    assert not ORDERS.join(PAYMENTS, on="order_id", **TIMES).shares_topics


def test_the_latest_earlier_record_is_told_by_a_grace() -> None:
    found = PAYMENTS.join_prior(ORDERS, on="order_id", grace="5 minutes")
    assert found.columns == ("payment_id", "order_id", "paid", "amount")
    assert found.longest_wait_ms == 5 * 60_000 + 1
    assert found.in_words == (
        "One row per record with the latest record before it of the same order_id; "
        "it leaves 5 minutes of stream time after its timestamp."
    )
    nodes = [
        found,
        PAYMENTS.join_prior(ORDERS, on="order_id", grace="6 minutes"),
        PAYMENTS.join_prior(ORDERS, on="order_id", grace="5 minutes", within="1 hour"),
        PAYMENTS.join_prior(ORDERS, on="order_id", grace="5 minutes", how="inner"),
        PAYMENTS.lookup(
            ORDERS.table("timestamp"), on="order_id", as_of="event", history="5 minutes", complete_first=False
        ),
    ]
    assert len({node.fingerprint() for node in nodes}) == len(nodes)
    with refused("is neither a topic nor a stream", "as_of='event'"):
        PAYMENTS.join_prior(ORDERS.table(), on="order_id", grace=0)  # type: ignore[arg-type]
    itself = ORDERS.join_prior(ORDERS.select("order_id", "amount AS before"), on="order_id", grace=0)
    assert (itself.columns, itself.finds_earlier_of_its_own) == (("order_id", "amount", "before"), True)
    assert not found.finds_earlier_of_its_own


def test_what_does_not_fit_is_refused() -> None:
    with refused("how far apart two records may be is not told", "before='10 minutes' and after='0 s'"):
        ORDERS.join(PAYMENTS, on="order_id", before="1 hour", grace=0)
    with refused("within, before and after are given", "Leave it out"):
        ORDERS.join(PAYMENTS, on="order_id", within="1 s", before="2 s", after="3 s", grace=0)
    with refused("is neither a topic nor a stream", ".lookup(table"):
        ORDERS.join(PAYMENTS.table(), on="order_id", **TIMES)  # type: ignore[arg-type]
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


def test_each_stream_may_have_its_own_name_of_a_column() -> None:
    """Before, on= took one name for both streams."""
    paid = PAYMENTS.select("payment_id", "order_id AS of", "paid")
    found = ORDERS.join(paid, on={"order_id": "OF"}, **TIMES)
    assert found.columns == ("order_id", "amount", "payment_id", "paid")
    assert found.fingerprint() != ORDERS.join(PAYMENTS, on="order_id", **TIMES).fingerprint()  # other steps
    prior = ORDERS.join_prior(paid, on={"order_id": "of"}, grace="5 minutes")
    assert prior.columns == ("order_id", "amount", "payment_id", "paid")


def test_names_that_do_not_fit_are_refused() -> None:
    with refused("the right stream has a column 'order_id', too", "order_id AS right_order_id"):
        ORDERS.join(PAYMENTS, on={"order_id": "payment_id"}, **TIMES)
    with refused("column 'payment' does not exist", "Did you mean 'payment_id'"):
        ORDERS.join(PAYMENTS, on={"amount": "payment"}, **TIMES)
    with refused("names a column of the right stream twice", "where"):
        ORDERS.join(PAYMENTS, on={"order_id": "order_id", "amount": "ORDER_ID"}, **TIMES)
    with refused("names no columns", "on={'left_id': 'right_id'}"):
        ORDERS.join(PAYMENTS, on={}, **TIMES)
    with refused("join: 'amount' is INT on the left and STRING on the right"):
        ORDERS.join(PAYMENTS, on={"amount": "payment_id"}, **TIMES)
