"""A processor that reads a global table, as a node: over cuts, a crash, buckets, a backfill, an erasure and maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.engine.folding import spark_fold
from headrace.quality import check_node

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Drive

pytestmark = pytest.mark.spark

SECOND = 1_000
SALES = hr.Topic("sales", key="shop STRING", value="currency STRING, amount BIGINT", idle_timeout=None)
RATES = hr.Topic("rates", key="currency STRING", value="rate BIGINT", idle_timeout=None)


class Converts(hr.Processor):
    """A sale at the rate of its place; one without a rate raises."""

    def init(self, context: hr.Context) -> None:
        self.context, self.rates = context, context.global_table("rates")

    def process(self, record: hr.Record) -> None:
        rate = self.rates.get(record["currency"])
        if rate is None:
            raise ValueError(f"no rate of {record['currency']} among {[key for key, _ in self.rates.all()]}")
        self.context.forward(shop=record["shop"], value=record["amount"] * rate)


NODE = (
    SALES.where("amount > 0")
    .group_by("shop")
    .process(
        Converts,
        output="shop STRING, value BIGINT",
        stores=[hr.global_table("rates", RATES.table().where("rate > 0"))],
        on_error="dead_letter",
    )
    .named("converted")
)


def test_a_sale_counts_at_the_rate_of_its_place_in_any_buckets_over_a_crash_and_an_erasure(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drive(NODE)

    def rates(**of: int) -> None:
        for currency, rate in of.items():
            driver.pipe("rates", key=currency, value={"rate": rate}, timestamp_ms=SECOND)

    def sell(*sales: tuple[str, str, int]) -> None:
        for number, (shop, currency, amount) in enumerate(sales):
            value = {"currency": currency, "amount": amount}
            driver.pipe("sales", key=shop, value=value, timestamp_ms=SECOND, partition=number % 2)

    rates(eur=2, usd=3)
    driver.cut()
    sell(("a", "eur", 10), ("b", "usd", 10), ("a", "chf", 10), ("c", "eur", -1))
    driver.crash("after outputs")
    driver.cut()
    rates(eur=5, usd=0)
    driver.cut()
    with monkeypatch.context() as several:
        several.setattr(spark_fold, "BUCKET_BYTES", 1)
        several.setattr(spark_fold, "HERE_BYTES", 0)
        several.setattr(spark_fold, "HERE_STATE_BYTES", 0)
        sell(*[(shop, "eur", 1) for shop in "abcdefgh"], ("a", "usd", 1))
        driver.cut()
    driver._runners["converted"].maintain()
    wanted = sorted([("a", 20), ("b", 30), *((shop, 5) for shop in "abcdefgh")])
    assert sorted((row["shop"], row["value"]) for row in driver.rows("converted")) == wanted
    reasons = [row["reason"] for row in driver.dead_letters("sales")]
    assert sorted(reasons) == [
        "Converts.process raises ValueError: no rate of chf among ['eur', 'usd']",
        "Converts.process raises ValueError: no rate of usd among ['eur']",
    ]
    assert driver.fates("converted") == {"used": 14, "dead_letter": 2, "filtered": 1}
    driver.check("converted")
    judged = check_node(driver.spark, driver._lake, NODE, str(tmp_path))
    assert [result.sentence for result in judged if not result.passed] == []
    driver.erase("sales", "a")
    driver.erase("rates", "usd")  # b's sale finds no rate any more
    left = [each for each in wanted if each[0] != "a" and each != ("b", 30)]
    assert sorted((row["shop"], row["value"]) for row in driver.rows("converted")) == left
    sell(("z", "eur", 2))
    driver.cut()
    assert sorted((row["shop"], row["value"]) for row in driver.rows("converted")) == [*left, ("z", 10)]
