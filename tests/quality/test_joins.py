"""The checks of a join: its result against its sides, and references that dangle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.quality import CheckResult, Thresholds, check_node
from tests.conftest import Drive
from tests.lake.other_hands import alter, delete

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.description import Join
    from headrace.testing import TestDriver

pytestmark = pytest.mark.spark

POSITIONS = hr.Topic("positions", key="id STRING", value="ticker STRING, amount INT").table()
TICKERS = hr.Topic("tickers", key="ticker STRING", value="name STRING").table()
ENRICHED = POSITIONS.join(TICKERS, on="ticker", how="left").named("enriched")


BIDS, ASKS = (hr.Topic(name, key="ticker STRING", value="price INT").table() for name in ("bids", "asks"))
NAMES = ("left.price AS bid", "right.price AS ask", "lower(ticker) AS ticker_name")
QUOTES = BIDS.join(ASKS, on="ticker", how="outer", select=NAMES).named("quotes")
ONE_SIDED = (
    QUOTES.with_column("price", "coalesce(bid, ask)")
    .where("bid IS NULL OR ask IS NULL")
    .select("price", "ticker_name AS of")
    .named("one_sided")
)


def check(
    driver: TestDriver, docs: Path, node: Join = ENRICHED, **thresholds: float
) -> dict[str, CheckResult]:
    limits = Thresholds(**thresholds)  # type: ignore[arg-type]
    found = check_node(driver.spark, driver._lake, node, str(docs), thresholds=limits, verdicts=())
    return {result.name: result for result in found}


def test_a_join_is_compared_with_its_sides_and_says_which_keys_differ(drive: Drive, tmp_path: Path) -> None:
    driver = drive(ENRICHED)
    for number in range(20):
        ticker = None if number == 0 else f"T{number % 4}"
        driver.pipe("positions", key=f"p{number:02}", value={"ticker": ticker, "amount": 1}, timestamp_ms=1)
    for ticker in ("T0", "T1", "T2"):
        driver.pipe("tickers", key=ticker, value={"name": "one"}, timestamp_ms=1)
    driver.cut()
    driver._runners["enriched"].maintain()
    driver.pipe("tickers", key="T0", value={"name": "two"}, timestamp_ms=2)
    driver.cut()

    found = check(driver, tmp_path)
    assert found["join_equals_recomputation"].passed
    assert found["join_equals_recomputation"].metadata["keys"] == 20
    assert not found["no_orphans_above"].passed
    assert found["no_orphans_above"].sentence == (
        "5 of 19 references are dangling, 26.32% where 5.00% may be, most of them for ticker=T3 (5); "
        "send the right rows that are missing, or raise orphan_ratio_max."
    )

    table = driver._lake.table("enriched")
    alter(table, {"amount": "7"}, "id = 'p01'")
    delete(table, "id = 'p02'")
    found = check(driver, tmp_path, orphan_ratio_max=0.5)
    assert found["no_orphans_above"].passed
    assert found["join_equals_recomputation"].sentence == (
        "2 of 20 rows of enriched differ from the join of its sides, first id=p01 (amount: 7 for 1) and "
        "id=p02 (missing); backfill enriched to put the log's own rows in their place."
    )
    sampled = check(driver, tmp_path, orphan_ratio_max=0.5, join_sample_ratio=0.5)
    assert 0 < int(sampled["join_equals_recomputation"].metadata["keys"]) < 20


def test_a_full_outer_join_is_compared_with_its_sides_and_with_the_oracle(
    drive: Drive, tmp_path: Path
) -> None:
    driver = drive(QUOTES, ONE_SIDED)
    for topic, tickers in (("bids", "ABC"), ("asks", "BCD")):
        for ticker in tickers:
            driver.pipe(topic, key=ticker, value={"price": len(topic) + ord(ticker)}, timestamp_ms=1)
    driver.cut()
    driver.pipe("bids", key="B", value=None, timestamp_ms=2)
    driver.pipe("asks", key="D", value=None, timestamp_ms=2)
    driver.cut()
    rows = [("A", 69, None, "a"), ("B", None, 70, "b"), ("C", 71, 71, "c")]
    assert [(*row.values(),) for row in driver.rows("quotes")] == rows
    found = check(driver, tmp_path, QUOTES)
    assert found["join_equals_recomputation"].passed
    assert found["join_equals_recomputation"].metadata["keys"] == 3
    assert "no_orphans_above" not in found
    assert [(*row.values(),) for row in driver.rows("one_sided")] == [("A", 69, "a"), ("B", 70, "b")]
    for node, rows_equal in ((QUOTES, 3), (ONE_SIDED, 2)):
        verdict = driver.verify(node.required_name, 10)
        assert (verdict.equal, verdict.rows_equal) == (True, rows_equal)
