"""Nodes that differ in their sinks alone share an operator; each one's rows reach its own sinks, and each is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.testing import TestDriver

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.sinks import Delivery

pytestmark = pytest.mark.fast

ORDERS = hr.Topic("orders", key="id STRING", value="amount BIGINT")


class Store:
    """Keeps all that it is given."""

    name = "store"

    def __init__(self) -> None:
        """It is empty."""
        self.amounts: list[int] = []

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """See `Sink`."""
        raise AssertionError("few rows come as a table")

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        """See `TableSink`."""
        self.amounts += rows["amount"].to_pylist()


@pytest.mark.parametrize("kind", ["stream", "table"])
def test_rows_reach_the_sinks_of_the_node_that_runs_and_its_oracle_checks_it(kind: str) -> None:
    for amount in (1, 2):
        store, rows = Store(), ORDERS if kind == "stream" else ORDERS.table()
        driver = TestDriver(
            [rows.where("amount > 0").with_column("twice", "amount * 2").to(store).named("kept")]
        )
        driver.pipe("orders", key="a", value={"amount": amount}, timestamp_ms=0)
        driver.cut()
        assert store.amounts == [amount]
        driver.check("kept")
        assert driver.verify("kept", 10).equal
        driver.close()
