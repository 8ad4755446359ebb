"""Lookups as of event time, as a person would draw them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from tests.rows import state_rows
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    from headrace.testing import TestDriver
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

ORDERS = hr.Topic("orders", key="id STRING", value="item STRING")
PRICES = hr.Topic("prices", key="item STRING", value="price INT")


def order(driver: TestDriver, key: str, minute: float) -> None:
    driver.pipe("orders", key=key, value={"item": "a"}, timestamp_ms=round(minute * MINUTE))


def price(driver: TestDriver, price: int | None, minute: float, item: str = "a") -> None:
    value = None if price is None else {"price": price}
    driver.pipe("prices", key=item, value=value, timestamp_ms=round(minute * MINUTE))


def found(driver: TestDriver) -> dict[str, int | None]:
    rows = driver.rows("priced")
    driver.check("priced")
    return {row["id"]: row["price"] for row in rows}


def test_a_record_waits_until_both_are_past_its_time_and_a_late_price_changes_nothing_that_has_left(
    drive: Drive,
) -> None:
    driver = drive(
        ORDERS.lookup(PRICES.table(), on="item", as_of="event", complete_first=False).named("priced")
    )
    order(driver, "o5", 5)
    order(driver, "o8", 8)
    price(driver, 1, 2)
    driver.cut()
    assert found(driver) == {}
    price(driver, 2, 5)  # valid at o5's time, and another of that very time might follow
    driver.cut()
    assert found(driver) == {}
    assert driver.fates("priced") == {"used": 2, "open": 2}
    price(driver, None, 7)
    driver.cut()
    assert found(driver) == {"o5": 2}
    price(
        driver, 3, 4
    )  # late: o5 has left with the price of minute 5, which is valid after that of minute 4 as well
    price(driver, 4, 5)  # late, and would have been o5's
    price(driver, 9, 9)
    driver.cut()
    order(driver, "late", 5)
    order(driver, "o9", 9)
    driver.cut()
    assert found(driver) == {"o5": 2, "o8": None, "late": 4}
    assert driver.fates("priced") == {"used": 9, "open": 1}


def test_versions_that_no_record_can_find_are_dropped_and_a_record_further_behind_is_late(
    drive: Drive,
) -> None:
    node = ORDERS.lookup(
        PRICES.table(), on="item", as_of="event", history="10 minutes", complete_first=False
    ).named("priced")
    driver = drive(node)
    for minute in range(1, 31):
        price(driver, minute, minute)
    order(driver, "o30", 30)
    driver.cut()
    driver._runners["priced"].maintain()
    versions = state_rows(driver, "priced", "versions")
    assert sorted(row["price"] for row in versions) == [*range(20, 31)]
    order(driver, "o20", 20.5)
    order(driver, "o19", 19.5)
    driver.cut()
    assert found(driver) == {}, "it waits until the lowest stream time has passed that of its partition"
    assert [row["late_by_ms"] for row in driver.late("priced")] == [MINUTE // 2]
    price(driver, 31, 31)
    order(driver, "o31", 31)
    driver.cut()
    assert found(driver) == {"o20": 20, "o30": 30}
    assert driver.fates("priced") == {"used": 33, "open": 1, "late": 1}
