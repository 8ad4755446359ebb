"""A processor waits until a global table is complete: what stood in its topic when the log was begun comes first."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.nodes.standing.waits import COMPLETE
from headrace.quality import check_node
from headrace.testing import TestDriver
from tests.scenarios.test_global_tables import RATES, SALES, SECOND, Converts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Drive


class Sums(Converts):
    """Each sale at the rate of its place, and the shop's total so far; how many rates there are, at a timer."""

    def init(self, context: hr.Context) -> None:
        super().init(context)
        self.total = context.store("total")

    def process(self, record: hr.Record) -> None:
        rate = self.rates.get(record["currency"])
        if rate is None:
            raise ValueError(f"no rate of {record['currency']}")
        self.total.put((self.total.get() or 0) + record["amount"] * rate)
        self.context.forward(shop=record["shop"], value=self.total.get())
        self.context.schedule("5 seconds", self.count, once=True)

    def count(self, moment: dt.datetime) -> None:
        self.context.forward(shop=self.context.key["shop"], value=-len([*self.rates.all()]))


SUMMED = (
    SALES.group_by("shop")
    .process(
        Sums,
        output="shop STRING, value BIGINT",
        stores=[hr.value_store("total", "n BIGINT"), hr.global_table("rates", RATES.table())],
        stream_wait="5 seconds",
        on_error="dead_letter",
    )
    .named("summed")
)
BY_SHOP = SUMMED.where("value > 0").group_by("shop").window(hr.tumbling("10 seconds"), grace=0)
WINDOWS = (
    BY_SHOP.aggregate(n=hr.count(), highest=hr.max("value"))
    .suppress(hr.until_window_closes())
    .named("windows")
)


@pytest.fixture
def awaiting(request: pytest.FixtureRequest) -> Iterator[TestDriver]:
    """A driver whose rates are not complete yet."""
    session = request.getfixturevalue("spark") if request.node.get_closest_marker("spark") else None
    driver = TestDriver([SUMMED, WINDOWS], session, incomplete=["rates"])
    yield driver
    driver.close()


@pytest.mark.fast
def test_sales_wait_until_the_rates_are_read_that_stood_in_their_topic(awaiting: TestDriver) -> None:
    driver = awaiting

    def rates(**of: int) -> None:
        for currency, rate in of.items():
            driver.pipe("rates", key=currency, value={"rate": rate}, timestamp_ms=SECOND)
        driver.cut()

    def sell(second: int, shop: str, currency: str, amount: int) -> None:
        value = {"currency": currency, "amount": amount}
        driver.pipe("sales", key=shop, value=value, timestamp_ms=second * SECOND)

    def rows() -> list[tuple[str, int]]:
        return [(row["shop"], row["value"]) for row in driver.rows("summed")]

    sell(1, "a", "eur", 10)
    sell(2, "b", "usd", 10)
    driver.cut()
    rates(eur=2)
    sell(3, "a", "eur", 1)
    sell(9, "b", "chf", 1)  # a's timer of second 6 is due before; b's of 7 before this sale
    driver.cut()
    assert rows() == []
    assert driver.fates("summed") == {"open": 4, "used": 1}
    (wait,) = [each for each in driver.waits_for("summed") if each.of == COMPLETE]
    assert wait.topic == "rates"
    assert wait.in_words.startswith(
        "Records wait until topic rates is read to where it ended at the first start."
    )
    assert driver.verify("summed").equal

    rates(eur=3, usd=4)
    driver.crash("after outputs", "summed")
    driver.complete("rates")
    driver.cut()
    # All find the table as it is with the commit that completes it: eur 3, usd 4, and no chf.
    assert sorted(rows()) == [("a", -2), ("a", 30), ("a", 33), ("b", -2), ("b", 40)]
    assert [row["reason"] for row in driver.dead_letters("sales")] == [
        "Sums.process raises ValueError: no rate of chf"
    ]
    assert driver.fates("summed") == {"used": 6, "dead_letter": 1}

    rates(eur=5, chf=1)  # from here on a record finds what stands before it
    sell(10, "a", "eur", 1)
    driver.cut()
    rates(eur=7)
    sell(21, "c", "eur", 1)
    driver.cut()
    assert sorted(rows())[-1:] == [("c", 7)]
    assert ("a", 38) in rows()
    closed = [(row["shop"], row["n"], row["highest"]) for row in driver.rows("windows")]
    assert sorted(closed) == [("a", 1, 38), ("a", 2, 33), ("b", 1, 40)], "none was late"
    for node in ("summed", "windows"):
        driver.check(node)
        assert driver.verify(node).equal


@pytest.mark.fast
def test_an_empty_table_keeps_no_sale_waiting(drive: Drive) -> None:
    driver = drive(SUMMED)
    driver.pipe("sales", key="a", value={"currency": "eur", "amount": 1}, timestamp_ms=SECOND)
    driver.cut()
    assert driver.waits_for("summed") == [each for each in driver.waits_for("summed") if each.of != COMPLETE]
    assert driver.fates("summed") == {"dead_letter": 1}


@pytest.mark.spark
@pytest.mark.long
def test_an_erasure_computes_what_has_waited_anew_and_the_books_balance(
    awaiting: TestDriver, tmp_path: Path
) -> None:
    driver = awaiting
    for number, (shop, currency) in enumerate([("a", "eur"), ("b", "usd"), ("b", "chf"), ("a", "usd")]):
        value = {"currency": currency, "amount": 10}
        driver.pipe("sales", key=shop, value=value, timestamp_ms=number * SECOND)
        driver.cut()
    driver.pipe("rates", key="eur", value={"rate": 3}, timestamp_ms=SECOND)
    driver.pipe("rates", key="usd", value={"rate": 4}, timestamp_ms=SECOND)
    judged = check_node(driver.spark, driver._lake, SUMMED, str(tmp_path))
    assert [result.sentence for result in judged if not result.passed] == []
    driver.complete("rates")
    driver.cut()
    assert sorted(row["value"] for row in driver.rows("summed")) == [30, 40, 70]
    judged = check_node(driver.spark, driver._lake, SUMMED, str(tmp_path))
    assert [result.sentence for result in judged if not result.passed] == []
    driver.erase("rates", "usd")
    assert [row["value"] for row in driver.rows("summed")] == [30]
    assert driver.fates("summed") == {"used": 2, "dead_letter": 3, "erased": 1}
    driver.check("summed")
    assert driver.verify("summed").equal
