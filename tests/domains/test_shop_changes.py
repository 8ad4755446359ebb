"""Change data capture of three tables: orders joined with customers and the sums of their lines, and revenue by country."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import headrace as hr
from headrace.testing import TestDriver
from tests.rows import columns

pytestmark = pytest.mark.fast

customers = hr.Topic(
    "shop.customers", key="id BIGINT", value="name STRING, country STRING", format=hr.Debezium()
)
orders = hr.Topic(
    "shop.orders", key="id BIGINT", value="customer_id BIGINT, status STRING", format=hr.Debezium()
)
lines = hr.Topic(
    "shop.lines",
    key="id BIGINT",
    value="order_id BIGINT, price DECIMAL(12,2), quantity INT",
    format=hr.Debezium(),
)

amounts = lines.table().group_by("order_id").aggregate(amount=hr.sum("price * quantity"), lines=hr.count())
placed = (
    orders.table()
    .where("status <> 'cancelled'")
    .join(customers.table(), on="customer_id", how="left")
    .join(amounts, on="id", how="left")
    .named("orders_with_customers")
)
revenue = (
    placed.group_by("country")
    .aggregate(orders=hr.count(), revenue=hr.sum("amount"))
    .to(hr.KafkaSink("revenue-by-country"))
    .named("revenue_by_country")
)


def test_each_change_of_any_table_shows() -> None:
    driver = TestDriver([placed, revenue])

    def change(table: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        op = "d" if after is None else "c" if before is None else "u"
        key = {"id": (after or before or {})["id"]}
        driver.pipe(
            f"shop.{table}", key=key, value={"before": before, "after": after, "op": op, "ts_ms": 1_000}
        )

    def orders_now() -> list[tuple[Any, ...]]:
        rows = columns(driver.rows("orders_with_customers"), "id", "name", "amount", "lines")
        return sorted(rows)

    change("customers", None, {"id": 1, "name": "Ann", "country": "DE"})
    change("orders", None, {"id": 10, "customer_id": 1, "status": "placed"})
    change("orders", None, {"id": 11, "customer_id": 9, "status": "placed"})
    change("lines", None, {"id": 100, "order_id": 10, "price": "2.50", "quantity": 2})
    driver.cut()
    assert orders_now() == [(10, "Ann", Decimal("5.00"), 1), (11, None, None, None)]
    driver.crash("after outputs")
    change(
        "lines",
        {"id": 100, "order_id": 10, "price": "2.50", "quantity": 2},
        {"id": 100, "order_id": 10, "price": "2.50", "quantity": 3},
    )
    change("customers", None, {"id": 9, "name": "Bob", "country": None})
    driver.cut()
    assert orders_now() == [(10, "Ann", Decimal("7.50"), 1), (11, "Bob", None, None)]
    rows = {row["country"]: (row["orders"], row["revenue"]) for row in driver.rows("revenue_by_country")}
    assert rows == {"DE": (1, Decimal("7.50")), None: (1, None)}
    change(
        "orders",
        {"id": 10, "customer_id": 1, "status": "placed"},
        {"id": 10, "customer_id": 1, "status": "cancelled"},
    )
    change("lines", {"id": 100, "order_id": 10, "price": "2.50", "quantity": 3}, None)
    driver.cut()
    assert orders_now() == [(11, "Bob", None, None)]
    driver.check("revenue_by_country")
    assert len(driver.backfill("revenue_by_country")) == 1
    driver.close()
