"""Batches after the fact: days recomputed, checked, and delivered again."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.lifecycle.backfill import Backfill
from headrace.quality import check_node
from headrace.writing.delivery.redeliver import redeliver
from tests.conftest import Drive
from tests.lake.other_hands import alter, delete
from tests.scenarios.test_batches import Visits, batches, merged

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from headrace.sinks import Delivery
    from headrace.testing import TestDriver

pytestmark = pytest.mark.spark

DAY_MS = 86_400_000


@dataclass
class Store:
    """A sink in memory that can say what it holds."""

    name: str = "store"
    rows: dict[str, int] = field(default_factory=dict)

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        self.rows |= {row["batch_id"]: row["__sequence"] for row in rows.collect()}

    def identities(self, spark: SparkSession, delivery: Delivery) -> DataFrame:
        return spark.createDataFrame([(key,) for key in self.rows], "batch_id STRING")


@pytest.mark.long
def test_days_are_recomputed_checked_and_delivered_again(drive: Drive, tmp_path: Path) -> None:
    store = Store()
    node = batches(max_records=3, max_wait="20 seconds").to(store)
    visits = Visits(drive(node))
    driver, lake = visits.driver, visits.driver._lake
    midnight = (driver.now_ms // DAY_MS + 1) * DAY_MS
    driver.advance_wall_clock(f"{midnight - driver.now_ms - 5_000} ms")
    visits.visit("a", "b", "a")  # the day before
    driver.advance_wall_clock("10 seconds")
    visits.visit("a", "a", "c")  # a's batch closes on the next day, and another begins there
    visits.wait("1 minute")
    delivered = dict(store.rows)
    assert len(delivered) == 4
    first, second = (dt.datetime.fromtimestamp(ms / 1000, dt.UTC).date() for ms in (midnight - 1, midnight))

    verdicts = Backfill(driver.spark, lake, node, [second]).run()
    assert [(v.day, v.equal, v.rows_recomputed) for v in verdicts] == [(second, True, 2)]
    assert all(v.equal for v in Backfill(driver.spark, lake, node).run())
    found = {c.name: c for c in check_node(driver.spark, lake, node, str(tmp_path / "docs"))}
    assert [name for name, check in found.items() if not check.passed] == []
    assert "store holds each of them once" in found["no_batch_lost_or_repeated"].sentence

    gone = next(key for key in store.rows if key.endswith("/c"))
    del store.rows[gone]
    assert [
        (r.rows, r.rows_in_table) for r in redeliver(driver.spark, lake, node, [first], only_missing=True)
    ] == [(0, 2)]
    broken = {c.name: c for c in check_node(driver.spark, lake, node, str(tmp_path / "docs"), verdicts=())}
    assert "1 batches missing from store" in broken["no_batch_lost_or_repeated"].sentence
    assert [(r.rows, r.rows_in_table) for r in redeliver(driver.spark, lake, node, only_missing=True)] == [
        (1, 4)
    ]
    assert store.rows == delivered
    store.rows.clear()
    redeliver(driver.spark, lake, node, [second])
    assert store.rows == {
        key: at for key, at in delivered.items() if at >= midnight and key in opened_on(driver, second)
    }

    damage(driver, lake.table("visit_batches"))
    told = {c.name: c for c in check_node(driver.spark, lake, node, str(tmp_path / "docs"), verdicts=())}
    failing = {name for name, check in told.items() if not check.passed}
    assert failing == {"batches_within_limits", "no_batch_lost_or_repeated"}, "the books alone balance"
    assert "beyond a limit" in told["batches_within_limits"].sentence
    verdicts = Backfill(driver.spark, lake, node).run()
    assert [v.swapped for v in verdicts] == [True, True]
    redeliver(driver.spark, lake, node, only_missing=True)
    assert all(c.passed for c in check_node(driver.spark, lake, node, str(tmp_path / "docs")))


def test_several_topics_are_batched_in_one_order_and_a_drain_of_one_closes_what_is_open(
    drive: Drive, tmp_path: Path
) -> None:
    store = Store()
    node = merged(max_records=3, max_wait="10 seconds").to(store)
    visits = Visits(drive(node))
    driver, lake = visits.driver, visits.driver._lake
    visits.pipe("visits", "a", "v0")
    visits.pipe("calls", "a", "c0")
    visits.pipe("calls", "b", "c1")
    driver.cut()
    visits.visit("a", visitor="v1")
    (first,) = driver.rows("visit_batches")
    assert [event["visitor"] for event in first["events"]] == ["c0", "v0", "v1"], "calls before visits"
    assert first["batch_id"] == "calls/0/0/a"
    ledger = {(row["topic"], row["fate"]): row["records"] for row in driver.ledger("visit_batches")}
    assert {at: ledger[at] for at in (("calls", "open"), ("calls", "used"), ("visits", "used"))} == {
        ("calls", "open"): 1, ("calls", "used"): 1, ("visits", "used"): 2
    }  # fmt: skip
    visits.wait("10 seconds")
    assert visits.shown() == ["a 3 by count 0-0.001", "b 1 by wait 0-10"], "visits tells the time for calls"

    driver._sequencers["calls"].drain()
    visits.visit("c", "c")  # in the other log, at the same commit time
    visits.visit("c")
    assert visits.shown()[2:] == ["c 2 by drain 10.002-10.002"]
    found = {c.name: c for c in check_node(driver.spark, lake, node, str(tmp_path / "docs"))}
    assert [name for name, check in found.items() if not check.passed] == []
    assert "store holds each of them once" in found["no_batch_lost_or_repeated"].sentence
    delivered = dict(store.rows)
    del store.rows["calls/0/1/b"]
    assert [r.rows for r in redeliver(driver.spark, lake, node, only_missing=True)] == [1]
    assert store.rows == delivered
    with pytest.raises(hr.TerminalError, match="cut one by one"):
        driver.retain("calls", driver.now_ms)


def opened_on(driver: TestDriver, day: dt.date) -> set[str]:
    rows = driver.read("visit_batches").where(F.to_date("opened_at") == F.lit(day)).collect()
    return {row["batch_id"] for row in rows}


def damage(driver: TestDriver, path: str) -> None:
    """One batch is lost, one as large stands twice, and one has lost events and is older than allowed."""
    table = driver.spark.read.format("delta").load(path)
    table.where("customer = 'b'").write.format("delta").mode("append").save(path)
    delete(path, "customer = 'c'")
    later = {"events": "array_slice(events, 1, 1)", "closed_at": "closed_at + INTERVAL '1 hour'"}
    alter(path, later, "records = 3")


def test_a_delivery_that_fails_leaves_nothing_in_memory(drive: Drive) -> None:
    class Away:
        name = "away"

        def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
            assert rows.count() == 1
            raise hr.TransientError("The store is away.")

    visits = Visits(drive(batches(max_records=3).to(Away())))
    cached = visits.driver.spark._jsparkSession.sharedState().cacheManager()
    visits.driver.spark.catalog.clearCache()
    with pytest.raises(hr.TransientError, match="away"):
        visits.visit("a", "a", "a")
    assert cached.isEmpty()


def test_only_a_sink_that_can_say_what_it_holds_is_given_what_it_lacks(drive: Drive) -> None:
    class Mute:
        name = "mute"

        def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
            raise AssertionError("nothing is to be delivered")

    node = batches(max_records=3).to(Mute())
    driver = drive(node)
    with pytest.raises(hr.TerminalError, match="cannot say what it holds"):
        redeliver(driver.spark, driver._lake, node, only_missing=True)
    with pytest.raises(hr.TerminalError, match="has no sink 'other'"):
        redeliver(driver.spark, driver._lake, node, sinks=["other"])
    with pytest.raises(hr.TerminalError, match="has no sink"):
        redeliver(driver.spark, driver._lake, batches(max_records=3))
