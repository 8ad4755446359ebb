"""Joins of orders and payments, as a person would draw them: within ten minutes, with two minutes of grace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.quality import check_node
from tests.rows import columns
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from headrace.sinks import Delivery
    from headrace.testing import TestDriver
    from tests.conftest import Drive

ORDERS = hr.Topic("orders", key="order_id STRING", value="amount INT")
PAYMENTS = hr.Topic("payments", key="payment_id STRING", value="order_id STRING, paid INT")
TIMES: dict[str, Any] = {"within": "10 minutes", "grace": "2 minutes"}


class Heard:
    """A sink that keeps each row at its place."""

    name = "heard"

    def __init__(self) -> None:
        self.rows: dict[tuple[int, bytes], tuple[Any, ...]] = {}

    def deliver(self, rows: Any, delivery: Delivery) -> None:
        raise AssertionError("few rows start no Spark")

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        for row in rows.to_pylist():
            place, values = (row["__sequence"], row["__place"]), tuple(row[n] for n in delivery.columns)
            assert self.rows.setdefault(place, values) == values


def order(driver: TestDriver, key: str | None, minute: float, partition: int = 0) -> None:
    driver.pipe(
        "orders", key=key, value={"amount": 5}, timestamp_ms=round(minute * MINUTE), partition=partition
    )


def payment(driver: TestDriver, key: str, of: str | None, minute: float) -> None:
    driver.pipe("payments", key=key, value={"order_id": of, "paid": 5}, timestamp_ms=round(minute * MINUTE))


def shown(driver: TestDriver, name: str) -> list[str]:
    """Rows as `order payment`, the same live, backfilled and by the oracle."""
    rows = driver.rows(name)
    driver.check(name)
    return sorted(
        f"{row['order_id']} {'-' if row['amount'] is None else 'order'} {row['payment_id'] or '-'}"
        for row in rows
    )


@pytest.mark.fast
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
    assert driver.fates("paid") == {"open": 5}
    order(driver, "c", 30)
    driver.cut()
    assert len(driver.rows("paid")) == 2, "payments are at minute 10 still"
    payment(driver, "p4", "c", 13)  # b closes at minute 13; c is 17 minutes apart
    driver.crash("after outputs")
    driver.cut()
    assert shown(driver, "paid") == ["a order p1", "a order p2", "b order -"]
    payment(driver, "p5", "b", 11)  # b's window has closed: it is too late for b, and not for others
    payment(driver, "p6", "a", 1)  # late: its own window closed at minute 13
    payment(driver, "p7", None, 14)  # pays no order, and leaves alone
    driver.cut()
    assert driver.fates("paid") == {"used": 2, "open": 7, "late": 1}  # a and b have closed
    late = driver.late("paid")
    assert [(row["offset"], row["order_id"], row["late_by_ms"]) for row in late] == [(5, "a", 0)]
    order(driver, "flush", 100)
    payment(driver, "flush", "other", 100)
    driver.cut()
    left = ["None - p7", "b - p5", "c - p4", "c order -", "nobody - p3"]
    assert shown(driver, "paid") == sorted([*left, "a order p1", "a order p2", "b order -"])
    assert len(heard.rows) == 8
    assert sorted(heard.rows.values(), key=repr) == sorted(
        columns(driver.rows("paid"), *paid.columns), key=repr
    )


@pytest.mark.spark
def test_a_join_of_streams_is_checked_read_by_other_nodes_and_described(drive: Drive, tmp_path: Path) -> None:
    matched = ORDERS.join(PAYMENTS, on="order_id", how="left", **TIMES).named("matched")
    unpaid = matched.where("payment_id IS NULL").select("order_id", "amount").named("unpaid")
    driver = drive(matched, unpaid)
    assert "left join of streams on order_id, within 10 minutes, grace 2 minutes" in str(hr.describe(unpaid))
    for number in range(4):
        order(driver, f"o{number}", number)
    payment(driver, "p1", "o1", 2)
    payment(driver, "p2", "o2", 2)
    driver.cut()
    order(driver, "flush", 60)
    payment(driver, "flush", "other", 60)
    driver.cut()
    assert {row["order_id"] for row in driver.rows("unpaid")} == {"o0", "o3"}
    driver.check(matched.required_name)
    results = check_node(driver.spark, driver._lake, matched, str(tmp_path))
    found = {result.name: result for result in results}
    assert [*found] == [
        "every_offset_accounted_for",
        "rows_are_unique",
        "late_drops_below",
        "no_unmatched_above",
        "backfill_equals_stream",
    ]
    assert {name for name, result in found.items() if not result.passed} == {"no_unmatched_above"}
    assert found["no_unmatched_above"].sentence.startswith(
        "2 of 4 rows are records without a partner, 50.00% where 5.00% may be;"
    )
    assert found["no_unmatched_above"].severity == "warn"
