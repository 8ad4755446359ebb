"""Inventory totals with corrections: stock movements per warehouse and SKU, products by foreign key, negative stock."""

from pyspark.sql import SparkSession

import headrace as hr
from headrace.testing import TestDriver

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


def test_a_correction_supersedes_the_movement(spark: SparkSession) -> None:
    driver = TestDriver([stock_levels, negative_stock], spark)

    def move(movement: str, quantity: int, minute: int, warehouse: str | None = "ulm") -> None:
        value = {
            "warehouse": warehouse,
            "sku": "bolt",
            "quantity": quantity,
            "kind": "sale" if quantity < 0 else "delivery",
            "moved_at": minute * 60_000,
            "document": {"number": f"d-{movement}", "clerk": None},
        }
        driver.pipe("stock_movements", key=movement, value=value)

    driver.pipe("products", key="bolt", value={"name": "Bolt", "category": "metal", "price": 0.5})
    move("m1", 10, 1)
    move("m2", -12, 2)
    driver.cut()
    (row,) = driver.read("stock_levels").collect()
    assert (row.warehouse, row.sku, row.on_hand, row.movements, row.last_document) == ("ulm", "bolt", -2, 2, "d-m2")
    assert row.worth == -1
    move("m2", -2, 2)  # a correction: it was two, not twelve
    driver.crash("after outputs")
    driver.cut()
    (row,) = driver.read("stock_levels").collect()
    assert (row.on_hand, row.movements) == (8, 2)
    alerts = driver.read("negative_stock").collect()
    assert [(alert.on_hand, alert.key_deleted) for alert in alerts] == [(-2, False), (None, True)]
    assert driver.backfill("stock_levels").collect() == [row]
    driver.close()
