"""Records for which a step raises, where a node reads several streams: each of them decides by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.engine.steps.apart import UnusableRecordsError
from headrace.nodes.unusable_table import UnusableTable
from tests.laws import tables

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.spark

MINUTE = 60_000


def test_the_row_before_stays_in_a_table_and_a_tombstone_may_be_unusable(drive: Drive) -> None:
    customers = hr.Topic("customers", key="id STRING", value="name STRING")
    orders = hr.Topic("orders", key="order_id STRING", value="tags STRING, cents INT")
    referring = orders.with_column("customer", "str_to_map(tags)['c']").transform(
        # A tombstone has no cents, and this cannot take a null.
        lambda rows: rows.withColumn("euros", F.udf(lambda cents: cents // 100, "int")("cents")),
        columns="order_id STRING, tags STRING, cents INT, customer STRING, euros INT",
    )
    owned = (
        referring.table().where("NOT 'x' RLIKE tags").join(customers.table(), on="customer").named("owned")
    )
    driver = drive(owned)
    for number in (1, 2):
        driver.pipe("customers", key=f"c{number}", value={"name": f"n{number}"}, timestamp_ms=MINUTE)
        tags = f"c:c{number}"
        driver.pipe("orders", key=f"o{number}", value={"tags": tags, "cents": 500}, timestamp_ms=MINUTE)
    driver.pipe("orders", key="o1", value={"tags": "c:c2,c:c2", "cents": 900}, timestamp_ms=MINUTE)
    driver.pipe("orders", key="o2", value=None, timestamp_ms=MINUTE)
    driver.pipe("orders", key="o3", value={"tags": "c:c1,z:[", "cents": 100}, timestamp_ms=MINUTE)
    driver.cut()
    found = {row["order_id"]: (row["name"], row["euros"]) for row in driver.rows("owned")}
    assert found == {"o1": ("n1", 5), "o2": ("n2", 5)}
    driver.check("owned")
    reasons = {row["offset"]: row["reason"] for row in driver.dead_letters("orders")}
    assert reasons[2].startswith("with_column('customer', ")
    assert reasons[3].startswith("transform(<lambda>): TypeError")
    assert reasons[4].startswith("where(")
    assert set(reasons) == {2, 3, 4}
    ledger = [row for row in driver.ledger("owned") if row["topic"] == "orders"]
    assert tables.ledger(ledger) == {(0, "used"): 2, (0, "dead_letter"): 3}


@pytest.mark.long
def test_what_one_feed_cannot_use_another_may(drive: Drive) -> None:
    events = hr.Topic("events", key="id STRING", value="kind STRING, tags STRING")
    parents = events.where("kind = 'parent'").with_column("tag", "str_to_map(tags)['t']")
    children = events.where("kind = 'child'").with_column("parent", "tags")
    family = (
        children.table()
        .join(parents.select("id", "tag").table(), on="parent", select=("id", "tag"))
        .named("family")
    )
    driver = drive(family)
    driver.pipe("events", key="p", value={"kind": "parent", "tags": "t:1"}, timestamp_ms=MINUTE)
    driver.pipe("events", key="q", value={"kind": "parent", "tags": "t:1,t:2"}, timestamp_ms=MINUTE)
    driver.pipe("events", key="c", value={"kind": "child", "tags": "p"}, timestamp_ms=MINUTE)
    driver.pipe("events", key="d", value={"kind": "child", "tags": "p,p"}, timestamp_ms=MINUTE)
    driver.cut()
    assert [(row["id"], row["tag"]) for row in driver.rows("family")] == [("c", "1")]
    driver.check("family")
    ledger = tables.ledger(driver.ledger("family"))
    assert ledger == {(0, "used"): 3, (0, "dead_letter"): 1}
    assert [row["offset"] for row in driver.dead_letters("events")] == [1]


def test_a_select_of_a_join_that_raises_stops_the_node_with_its_sql(drive: Drive) -> None:
    left = hr.Topic("left", key="id STRING", value="ref STRING, text STRING").table()
    right = hr.Topic("right", key="k STRING", value="pattern STRING").table()
    select = ("id", "text RLIKE pattern AS found")
    driver = drive(left.join(right, on="ref", select=select).named("matched"))
    driver.pipe("right", key="k", value={"pattern": "["}, timestamp_ms=MINUTE)
    driver.pipe("left", key="a", value={"ref": "k", "text": "x"}, timestamp_ms=MINUTE)
    with pytest.raises(UnusableRecordsError) as stopped:
        driver.cut()
    assert "'matched'" in stopped.value.message
    assert "text RLIKE pattern" in str(stopped.value.detail)


def test_an_erased_key_takes_its_reasons_with_it(drive: Drive) -> None:
    topic = hr.Topic("readings", key="sensor STRING", value="m STRING")
    grouped = topic.with_column("entry", "str_to_map(m)['a']").group_by("sensor")
    windowed = grouped.window(hr.tumbling("2 minutes"), grace="0 ms").aggregate(
        n=hr.count(), top=hr.max("entry")
    )
    node = windowed.suppress(hr.until_window_closes()).named("counts")
    driver = drive(node)
    for commit in range(2):
        for sensor in ("ann", "bob"):
            for m in (f"a:1,a:{sensor}", "a:1"):
                driver.pipe("readings", key=sensor, value={"m": m}, timestamp_ms=(4 * commit + 1) * MINUTE)
        driver.cut()
    table = UnusableTable(driver.spark, driver._lake, node)
    assert [each.offset for each in table.read()] == [0, 2, 4, 6]
    done = driver.erase("readings", "ann")
    assert ("unusable records", 2) in [(each.what, each.rows) for each in done]
    assert [each.offset for each in table.read()] == [2, 6]
    assert sorted(row["offset"] for row in driver.dead_letters("readings")) == [2, 6]
    assert tables.ledger(driver.ledger("counts")) == {
        (0, "used"): 1, (0, "open"): 1, (0, "dead_letter"): 2, (0, "erased"): 4,
    }  # fmt: skip


@pytest.mark.long
def test_what_is_cut_off_a_log_is_forgotten(drive: Drive) -> None:
    topic = hr.Topic("readings", key="sensor STRING", value="m STRING")
    grouped = topic.with_column("entry", "str_to_map(m)['a']").group_by("sensor")
    node = grouped.aggregate(n=hr.count(), top=hr.max("entry")).named("counts")
    driver = drive(node)
    for _ in range(2):
        for m in ("a:1,a:1", "a:1"):
            driver.pipe("readings", key="s", value={"m": m}, timestamp_ms=MINUTE)
        driver.cut()
        driver.advance_wall_clock("10 minutes")
    driver.retain("readings", driver.now_ms - 5 * MINUTE)
    assert [each.offset for each in UnusableTable(driver.spark, driver._lake, node).read()] == [2]
    (row,) = driver.rows("counts")
    assert row["n"] == 2
    assert driver.backfill("counts") == [row]
    assert tables.ledger(driver.ledger("counts")) == {(0, "used"): 2, (0, "dead_letter"): 2}
