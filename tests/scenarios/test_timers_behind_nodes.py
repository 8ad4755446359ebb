"""Timers of a processor that reads another node: they belong to the records, not to the commits of that node's log.

   0:00      1:00      2:00      3:00
a  placed              paid                  not paid within an hour: told at 1:00
b  placed    paid                            told, too: the timer of 1:00 comes before the payment of 1:00
c            placed 0:30, paid 1:10          in time
d                      placed                told at 3:00, once e has come
e                                placed 3:30
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

import headrace as hr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.description import Node
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

MINUTE = 60_000
ORDERS = hr.Topic("orders", key="order_id STRING", value="status STRING, customer STRING", idle_timeout=None)
CUSTOMERS = hr.Topic("customers", key="customer STRING", value="country STRING", idle_timeout=None)
EVENTS = [
    ("a", "placed", 0),
    ("b", "placed", 0),
    ("c", "placed", 30),
    ("b", "paid", 60),
    ("c", "paid", 70),
    ("d", "placed", 120),
    ("a", "paid", 120),
    ("e", "placed", 210),
]
TOLD = [("a", 60), ("b", 60), ("d", 180)]


class Unpaid(hr.Processor):
    """The guide's example, with what an entry with a time to live still holds."""

    def init(self, context: hr.Context) -> None:
        self.context, self.status, self.seen = context, context.store("status"), context.store("seen")

    def process(self, record: hr.Record) -> None:
        self.status.put(record["status"])
        self.seen.put(record["status"])
        if record["status"] == "placed":
            self.context.schedule("1 hour", self.too_late, once=True)
        else:
            self.context.cancel("too_late")

    def too_late(self, moment: dt.datetime) -> None:
        self.context.forward(order_id=self.context.key["order_id"], seen=self.seen.get(), at=moment)


def unpaid(stream: object, name: str, order: str | None = None) -> Node:
    node: Node = (
        stream.group_by("order_id")  # type: ignore[attr-defined]
        .process(
            Unpaid,
            output="order_id STRING, seen STRING, at TIMESTAMP",
            stream_wait="1 hour",
            order=order,
            stores=[
                hr.value_store("status", "status STRING"),
                hr.value_store("seen", "status STRING", ttl="90 minutes"),
            ],
        )
        .named(name)
    )
    return node


VALID = ORDERS.where("status <> ''").named("valid")
LINES = ORDERS.flat_map("explode(array(status)) AS line").named("lines")
ENRICHED = ORDERS.lookup(CUSTOMERS.table(), on="customer").named("enriched")
STEPS = [VALID, LINES, ENRICHED]
BEHIND = [
    unpaid(VALID, "behind_a_named_stream"),
    unpaid(LINES.select("order_id", "line AS status"), "behind_a_flat_map"),
    unpaid(ENRICHED.select("order_id", "status"), "behind_a_lookup"),
    unpaid(ENRICHED.select("order_id", "status"), "behind_a_lookup_by_time", "time"),
]


@pytest.mark.parametrize("sizes", [[8], [1] * 8, [2, 3, 3]], ids=["one commit", "one a record", "three"])
@pytest.mark.slow
def test_behind_a_node_the_same_orders_are_told_however_the_log_was_committed(
    drive: Drive, sizes: Sequence[int]
) -> None:
    driver = drive(*STEPS, *BEHIND)
    for events in _cut(sizes):
        for order, status, minute in events:
            value = {"status": status, "customer": "x"}
            driver.pipe("orders", key=order, value=value, timestamp_ms=minute * MINUTE)
        driver.cut()
    for node in BEHIND:
        name = node.required_name
        rows = sorted(driver.rows(name), key=lambda row: (row["at"], row["order_id"]))
        at = [(row["order_id"], round(row["at"].timestamp() / 60)) for row in rows]
        assert at == TOLD, f"{name}: {at}"
        assert {row["seen"] for row in rows} == {"placed"}, name
        driver.check(name)


def _cut(sizes: Sequence[int]) -> list[list[tuple[str, str, int]]]:
    """The events of each commit."""
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [EVENTS[end - size : end] for end, size in zip(ends, sizes, strict=True)]
