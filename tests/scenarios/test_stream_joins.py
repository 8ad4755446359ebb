"""Joins of orders and payments, as a person would draw them: within ten minutes, with two minutes of grace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from tests.scenarios.timeline import MINUTE, fates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.sinks import Delivery
    from headrace.testing import TestDriver
    from tests.conftest import Drive

pytestmark = pytest.mark.spark

ORDERS = hr.Topic("orders", key="order_id STRING", value="amount INT")
PAYMENTS = hr.Topic("payments", key="payment_id STRING", value="order_id STRING, paid INT")
TIMES: dict[str, Any] = {"within": "10 minutes", "grace": "2 minutes"}


class Heard:
    """A sink that keeps each row at its place."""

    name = "heard"

    def __init__(self) -> None:
        self.rows: dict[tuple[int, bytes], tuple[Any, ...]] = {}

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        for row in rows.select("__sequence", "__place", *delivery.columns).collect():
            place = row["__sequence"], bytes(row["__place"])
            assert self.rows.setdefault(place, tuple(row[2:])) == tuple(row[2:])


def order(driver: TestDriver, key: str | None, minute: float, partition: int = 0) -> None:
    driver.pipe(
        "orders", key=key, value={"amount": 5}, timestamp_ms=round(minute * MINUTE), partition=partition
    )


def payment(driver: TestDriver, key: str, of: str | None, minute: float) -> None:
    driver.pipe("payments", key=key, value={"order_id": of, "paid": 5}, timestamp_ms=round(minute * MINUTE))


def shown(driver: TestDriver, name: str) -> list[str]:
    """Rows as `order payment`, the same live, backfilled and by the oracle."""
    rows = driver.read(name).collect()
    assert sorted(map(repr, driver.backfill(name).collect())) == sorted(map(repr, rows))
    return sorted(
        f"{row['order_id']} {'-' if row['amount'] is None else 'order'} {row['payment_id'] or '-'}"
        for row in rows
    )


def test_an_order_waits_for_its_payment_and_leaves_alone_once_when_both_topics_have_passed_its_window(
    drive: Drive,
) -> None:
    heard = Heard()
    paid = (
        ORDERS.join(PAYMENTS.where("paid > 0"), on="order_id", how="outer", **TIMES).to(heard).named("paid")
    )
    driver = drive(paid)
    order(driver, "a", 0)
    order(driver, "b", 1)
    payment(driver, "p1", "a", 3)
    payment(driver, "p2", "a", 10)  # the last moment for an order of minute 0
    payment(driver, "p3", "nobody", 4)
    driver.cut()
    assert shown(driver, "paid") == ["a order p1", "a order p2"]
    assert fates(driver.ledger("paid")) == {"open": 5}
    order(driver, "c", 30)
    driver.cut()
    assert len(driver.read("paid").collect()) == 2, "payments are at minute 10 still"
    payment(driver, "p4", "c", 13)  # b closes at minute 13; c is 17 minutes apart
    driver.crash("after results")
    driver.cut()
    assert shown(driver, "paid") == ["a order p1", "a order p2", "b order -"]
    payment(driver, "p5", "b", 11)  # b's window has closed: it is too late for b, and not for others
    payment(driver, "p6", "a", 1)  # late: its own window closed at minute 13
    payment(driver, "p7", None, 14)  # pays no order, and leaves alone
    driver.cut()
    assert fates(driver.ledger("paid")) == {"used": 4, "open": 5, "late": 1}
    late = driver.late("paid").collect()
    assert [(row["offset"], row["order_id"], row["late_by_ms"]) for row in late] == [(5, "a", 0)]
    order(driver, "flush", 100)
    payment(driver, "flush", "other", 100)
    driver.cut()
    left = ["None - p7", "b - p5", "c - p4", "c order -", "nobody - p3"]
    assert shown(driver, "paid") == sorted([*left, "a order p1", "a order p2", "b order -"])
    assert len(heard.rows) == 8
    assert sorted(map(repr, heard.rows.values())) == sorted(
        repr(tuple(row)) for row in driver.read("paid").collect()
    )


def test_inner_and_left_joins_leave_out_what_has_no_partner(drive: Drive) -> None:
    inner = ORDERS.join(PAYMENTS, on="order_id", **TIMES).named("inner_paid")
    left = ORDERS.join(PAYMENTS, on="order_id", how="left", **TIMES).named("left_paid")
    driver = drive(inner, left)
    order(driver, "a", 0)
    order(driver, "b", 0)
    payment(driver, "p1", "a", 1)
    payment(driver, "p2", "nobody", 1)
    payment(driver, "p3", None, 1)
    driver.cut()
    order(driver, "flush", 60)
    payment(driver, "flush", "other", 60)
    driver.cut()
    assert shown(driver, "inner_paid") == ["a order p1"]
    assert shown(driver, "left_paid") == ["a order p1", "b order -"]
    assert fates(driver.ledger("inner_paid")) == {"used": 4, "open": 2, "filtered": 1}
