"""Inventory totals with corrections: stock movements per warehouse and SKU, products by foreign key, negative stock."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.testing import TestDriver
from tests.rows import columns

pytestmark = pytest.mark.fast

movements = hr.Topic(
    "stock_movements",
    key="movement_id STRING",
    value="warehouse STRING, sku STRING, quantity INT NOT NULL, kind STRING, moved_at BIGINT NOT NULL, "
    "document STRUCT<number: STRING NOT NULL, clerk: STRING>",
    timestamp="moved_at",
)
products = hr.Topic("products", key="sku STRING", value="name STRING, category STRING, price DECIMAL(10,2)")

stock_levels = (
    movements.table()
    .where("kind <> 'planned'")
    .group_by("warehouse", "sku")
    .aggregate(
        on_hand=hr.sum("quantity"),
        movements=hr.count(),
        last_moved_at=hr.max("moved_at"),
        last_document=hr.max_by("document.number", by="moved_at"),
    )
    .join(products.table(), on="sku", how="left")
    .with_column("worth", "on_hand * price")
    .to(hr.PostgresSink("stock_levels"))
    .named("stock_levels", description="What each warehouse holds of each product now.")
)

negative_stock = (
    stock_levels.where("on_hand < 0")
    .changes()
    .to(hr.KafkaSink("stock_alerts"))
    .named("negative_stock", description="Each time that a stock falls below zero, or is corrected.")
)


def test_a_correction_supersedes_its_movement_and_a_stock_below_zero_is_told() -> None:
    driver = TestDriver([stock_levels, negative_stock])

    def move(
        movement: str | None, quantity: object, minute: int, warehouse: str | None = "ulm", **more: object
    ) -> None:
        value = {
            "warehouse": warehouse,
            "sku": "bolt",
            "quantity": quantity,
            "kind": "count",
            "moved_at": minute * 60_000,
            "document": {"number": f"d-{movement}", "clerk": None},
        }
        driver.pipe("stock_movements", key=movement, value=value | more)

    def levels() -> list[tuple[object, ...]]:
        names = ("warehouse", "sku", "on_hand", "last_document", "name", "worth")
        return sorted(columns(driver.rows("stock_levels"), *names), key=str)

    driver.pipe("products", key="bolt", value={"name": "Bolt", "category": "metal", "price": "0.50"})
    move("m1", 10, 1)
    move("m2", -12, 2)
    move("m3", 99, 3, kind="planned")  # it counts once it has happened
    move("m4", 4, 3, warehouse=None)  # no warehouse: a group like others
    move("m5", 7, 4, sku="gear")  # nobody describes it
    driver.cut()
    assert levels() == [
        ("ulm", "bolt", -2, "d-m2", "Bolt", -1),
        ("ulm", "gear", 7, "d-m5", None, None),
        (None, "bolt", 4, "d-m4", "Bolt", 2),
    ]
    move("m2", -2, 2)  # a correction: it was two, not twelve
    move("m4", 4, 3)  # and this one was in Ulm
    driver.pipe("stock_movements", key="m5", value=None)  # withdrawn: the group has no movement any more
    move("m6", "many", 5)
    move("m7", 1, 5, document={"clerk": "ann"})  # a document has a number
    move(None, 1, 5)  # a movement without an id cannot be corrected
    driver.crash("after outputs")
    driver.cut()
    assert levels() == [("ulm", "bolt", 12, "d-m4", "Bolt", 6)]
    driver.pipe("products", key="bolt", value={"name": "Bolt", "category": "metal", "price": "2.00"})
    driver.cut()
    assert levels() == [("ulm", "bolt", 12, "d-m4", "Bolt", 24)]

    alerts = driver.rows("negative_stock")
    assert columns(alerts, "warehouse", "on_hand", "key_deleted") == [
        ("ulm", None, True),
        ("ulm", -2, False),
    ]
    dead = {row["offset"]: row["reason"] for row in driver.dead_letters("stock_movements")}
    by_offset = [dead[offset].split(":")[0] for offset in sorted(dead)]
    assert by_offset == ["malformed value", "malformed value", "key"]
    for name in ("stock_levels", "negative_stock"):
        driver.check(name)
    driver.close()
