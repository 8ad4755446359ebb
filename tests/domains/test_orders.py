"""Orders, payments and refunds of a shop: which orders are unpaid after an hour, and each day's revenue by currency."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

import headrace as hr
from headrace.testing import TestDriver
from tests.conftest import Drive

orders = hr.Topic(
    "orders",
    key="order_id STRING",
    value="""
        customer STRUCT<id: STRING NOT NULL, address: STRUCT<country: STRING, city: STRING>>,
        items ARRAY<STRUCT<sku: STRING NOT NULL, quantity: INT NOT NULL, price: DECIMAL(12,2)>>,
        currency STRING NOT NULL,
        placed_at BIGINT NOT NULL
    """,
    timestamp="placed_at",
    idle_timeout="1 minute",
)

payments = hr.Topic(
    "payments",
    key="payment_id STRING",
    value="""
        order_id STRING,
        money STRUCT<amount: DECIMAL(12,2) NOT NULL, currency: STRING>,
        card STRUCT<brand: STRING, country: STRING>,
        paid_at BIGINT NOT NULL
    """,
    timestamp="paid_at",
    idle_timeout="1 minute",
)

refunds = hr.Topic(
    "shop.public.refunds",
    key="id INT",
    value="id INT, order_id STRING, amount DECIMAL(12,2), currency STRING",
    timestamp="changed_at",
    format=hr.Debezium(changed_at="changed_at", operation="operation"),
    idle_timeout="1 minute",
)

placed = orders.select(
    "order_id",
    "customer.id AS customer_id",
    "customer.address.country AS country",
    "currency",
    "aggregate(items, CAST(0 AS DECIMAL(14,2)), (sum, item) -> CAST(sum + item.quantity * item.price AS DECIMAL(14,2)))"
    " AS total",
    "placed_at",
)
paid = payments.select(
    "payment_id", "order_id", "money.amount AS amount", "money.currency AS paid_currency", "paid_at"
)

orders_with_payments = placed.join(
    paid, on="order_id", before=0, after="1 hour", grace="5 minutes", how="outer"
).named("orders_with_payments", description="Each order with its payment of the hour after it.")

unpaid_orders = (
    orders_with_payments.where("paid_at IS NULL")
    .select("order_id", "customer_id", "country", "currency", "total", "placed_at")
    .to(hr.KafkaSink("unpaid-orders"))
    .named("unpaid_orders", description="Orders that were not paid within an hour.")
)

late_payments = (
    orders_with_payments.where("placed_at IS NULL")
    .select("order_id", "payment_id", "amount", "paid_currency", "paid_at")
    .named("late_payments", description="Payments without an order in the hour before.")
)

daily_revenue = (
    payments.select("money.currency AS currency", "money.amount AS amount")
    .merge(refunds.where("operation = 'c'").select("currency", "-amount AS amount"))
    .group_by("currency")
    .window(hr.tumbling("1 day"), grace="1 hour")
    .aggregate(
        revenue=hr.sum("amount"),
        largest=hr.max("amount"),
        payments=hr.count(where="amount > 0"),
        refunds=hr.count(where="amount < 0"),
    )
    .suppress(hr.until_window_closes())
    .named("daily_revenue", description="What came in less what went back, by currency and UTC day.")
)


class Reminders(hr.Processor):
    """Reminds a customer after a quarter of an hour and after half an hour, unless the order is paid."""

    def init(self, context: hr.Context) -> None:
        self.context, self.order = context, context.store("order")

    def process(self, record: hr.Record) -> None:
        if record["kind"] == "order":
            self.order.put({"customer_id": record["customer_id"], "reminders": 0})
            self.context.schedule("15 minutes", self.remind)
        else:
            self.order.delete()
            self.context.cancel("remind")

    def remind(self, moment: dt.datetime) -> None:
        order = self.order.get()
        if order is None:
            return
        number = order["reminders"] + 1
        self.context.forward(
            order_id=self.context.key["order_id"], customer_id=order["customer_id"], number=number, at=moment
        )
        self.order.put({"customer_id": order["customer_id"], "reminders": number})
        if number == 2:
            self.context.cancel("remind")


reminders = (
    placed.select("order_id", "'order' AS kind", "customer_id")
    .merge(paid.select("order_id", "'payment' AS kind", "CAST(NULL AS STRING) AS customer_id"))
    .where("order_id IS NOT NULL")
    .group_by("order_id")
    .process(
        Reminders,
        output="order_id STRING, customer_id STRING, number INT, at TIMESTAMP",
        stores=[hr.value_store("order", "customer_id STRING, reminders INT")],
        stream_wait="15 minutes",
        order="time",
        grace="1 minute",
    )
    .named("reminders", description="Reminders of orders that are not paid yet.")
)

MINUTE = 60_000
HOUR = 60 * MINUTE


def order(driver: TestDriver, key: str | None, at: int, currency: str = "EUR") -> None:
    items = [{"sku": "a", "quantity": 2, "price": "9.99"}, {"sku": "b", "quantity": 1, "price": "0.02"}]
    customer = {"id": "c1", "address": {"country": "DE", "city": "Bonn"}}
    value = {"customer": customer, "items": items, "currency": currency, "placed_at": at}
    driver.pipe("orders", key=key, value=value, timestamp_ms=at)


def pay(
    driver: TestDriver, key: str | None, order: str | None, at: int, amount: str, currency: str | None = "EUR"
) -> None:
    value = {"order_id": order, "money": {"amount": amount, "currency": currency}, "paid_at": at}
    driver.pipe("payments", key=key, value=value, timestamp_ms=at)


def refund(driver: TestDriver, id: int, amount: str, at: int) -> None:
    after = {"id": id, "order_id": "a", "amount": amount, "currency": "EUR"}
    value = {"op": "c", "before": None, "after": after, "source": {"ts_ms": at}}
    driver.pipe("shop.public.refunds", key={"id": id}, value=value, timestamp_ms=at)


@pytest.mark.spark
def test_an_order_that_is_not_paid_within_an_hour_is_unpaid(drive: Drive) -> None:
    driver = drive(orders_with_payments, unpaid_orders, late_payments, reminders)
    order(driver, "a", HOUR)
    order(driver, "b", HOUR)
    order(driver, None, HOUR)
    pay(driver, "p1", "a", HOUR + 10 * MINUTE, "20.00")
    driver.cut()
    assert driver.rows("unpaid_orders") == []
    driver.crash("after outputs")
    pay(driver, None, "b", HOUR + 61 * MINUTE, "20.00")
    order(driver, "z", 5 * HOUR)
    pay(driver, "p9", "z", 5 * HOUR, "20.00")
    driver.cut()
    rows = driver.rows("unpaid_orders")
    assert [(row["order_id"], row["customer_id"], row["country"], row["total"]) for row in rows] == [
        (None, "c1", "DE", Decimal("20.00")),
        ("b", "c1", "DE", Decimal("20.00")),
    ]
    (late,) = driver.rows("late_payments")
    assert (late["order_id"], late["payment_id"], late["amount"]) == ("b", None, Decimal("20.00"))
    reminded = driver.rows("reminders")
    assert [(row["order_id"], row["number"]) for row in reminded] == [("b", 1), ("b", 2)]
    for node in ("orders_with_payments", "unpaid_orders", "late_payments", "reminders"):
        driver.check(node)


@pytest.mark.fast
def test_the_revenue_of_a_day_is_exact_and_final(drive: Drive) -> None:
    driver = drive(daily_revenue)
    pay(driver, "p1", "a", 10 * HOUR, "0.10")
    pay(driver, "p2", "b", 11 * HOUR, "0.20")
    pay(driver, "p3", "c", 11 * HOUR, "7.00", currency=None)
    refund(driver, 1, "0.30", 12 * HOUR)
    driver.cut()
    assert driver.rows("daily_revenue") == []
    pay(driver, "p4", "d", 26 * HOUR, "1.00")
    refund(driver, 2, "1.00", 26 * HOUR)
    pay(driver, "p5", "e", 23 * HOUR, "5.00")
    driver.cut()
    rows = driver.rows("daily_revenue")
    assert [(row["currency"], row["revenue"], row["payments"], row["refunds"]) for row in rows] == [
        (None, Decimal("7.00"), 1, 0),
        ("EUR", Decimal("0.00"), 2, 1),
    ]
    assert len(driver.late("daily_revenue")) == 1
    driver.check("daily_revenue")
    assert driver.backfill("daily_revenue") == rows
