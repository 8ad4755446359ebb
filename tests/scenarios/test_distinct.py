"""Payments that are sent twice count once: live, backfilled, after crashes, behind a node and in a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.quality import check_node
from headrace.quality.results import Thresholds
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from headrace.sinks import Delivery
    from tests.conftest import Drive

pytestmark = pytest.mark.spark

PAYMENTS = hr.Topic("payments", key="customer STRING", value="id STRING, amount INT", idle_timeout=None)
ONCE = PAYMENTS.where("amount > 0").distinct("id", within="10 minutes", grace="20 minutes")
# Per id: the minute of each copy, and what becomes of it. A null id is an id like others.
SENT = (
    ("p1", 0, "used"), ("p2", 1, "used"), ("p1", 4, "duplicate"), (None, 4, "used"), ("p1", 11, "used"),
    ("p1", 3, "duplicate"), (None, 5, "duplicate"), ("p2", 12, "used"), ("p3", 30, "used"), ("p1", 10, "late"),
    ("p1", 21, "used"), ("p1", 20.5, "duplicate"),
)  # fmt: skip


class Sent:
    """A sink that keeps each row by its place, and the chain that it goes on with."""

    name = "sent"

    def __init__(self) -> None:
        self.rows: dict[tuple[int, bytes], str | None] = {}
        self.chains: list[str] = []

    def deliver(self, rows: Any, delivery: Delivery) -> None:
        raise AssertionError("few rows start no Spark")

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        for row in rows.to_pylist():
            self.rows[row["__sequence"], bytes(row["__place"])] = row["id"]
            self.chains.append(row["__chain"])


def test_the_first_record_of_an_id_counts_and_later_ones_are_duplicates(drive: Drive, tmp_path: Path) -> None:
    sent = Sent()
    once = ONCE.to(sent).named("once")
    totals = once.group_by("customer").aggregate(n=hr.count(), paid=hr.sum("amount")).named("totals")
    driver = drive(once, totals)
    for number, (id_, minute, _) in enumerate(SENT):
        driver.pipe(
            "payments",
            key="ann",
            value={"id": id_, "amount": 1 + number},
            timestamp_ms=round(minute * MINUTE),
        )
        if number in (2, 5):
            driver.crash("after outputs", "once")
        if number % 3 == 2:
            driver.cut()
    driver.pipe("payments", key="ann", value={"id": "p9", "amount": 0}, timestamp_ms=31 * MINUTE)
    driver.pipe("payments", key="ann", value=None, timestamp_ms=31 * MINUTE)
    driver.cut()
    taken = [(id_, 1 + number) for number, (id_, _, fate) in enumerate(SENT) if fate == "used"]
    rows = sorted(driver.rows("once"), key=lambda row: row["amount"])
    assert [(row["id"], row["amount"]) for row in rows] == taken
    assert [id_ for _, id_ in sorted(sent.rows.items())] == [id_ for id_, _ in taken]
    assert all('["once",0,' in chain for chain in sent.chains)
    counts = {"used": len(taken), "duplicate": 4, "late": 1, "filtered": 1, "tombstone": 1}
    assert driver.fates("once") == counts
    (row,) = driver.rows("totals")
    assert (row["n"], row["paid"]) == (len(taken), sum(amount for _, amount in taken))
    copies = driver.records("once", "duplicate")
    assert [row["offset"] for row in copies] == [
        n for n, (*_, fate) in enumerate(SENT) if fate == "duplicate"
    ]
    (late,) = driver.late("once")
    assert (late["offset"], late["late_by_ms"]) == (9, 0)
    for node in (once, totals):
        name = node.required_name
        driver.check(name)
    allowed = Thresholds(late_ratio_max=0.1)
    judged = check_node(driver.spark, driver._lake, once, str(tmp_path), thresholds=allowed)
    assert [result.sentence for result in judged if not result.passed] == []


def test_an_id_that_passed_before_the_logs_cut_is_still_known(drive: Drive) -> None:
    once = ONCE.named("once")
    driver = drive(once)
    for number, (id_, minute) in enumerate((("p1", 0), ("p2", 6), ("p1", 7), ("p2", 8), ("p3", 14))):
        driver.pipe(
            "payments", key="ann", value={"id": id_, "amount": 1 + number}, timestamp_ms=minute * MINUTE
        )
        if number == 1:
            driver.cut()
            driver.advance_wall_clock("1 hour")
            before_ms = driver.now_ms
    driver.cut()
    driver.retain("payments", before_ms)
    assert sorted(row["id"] for row in driver.rows("once")) == ["p1", "p2", "p3"]
    driver.check("once")
    assert driver.fates("once") == {"used": 3, "duplicate": 2}
