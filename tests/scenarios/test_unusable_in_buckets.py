"""Records for which a step raises, in every kind of node: neither buckets nor cuts show in what becomes of them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.engine.folding import spark_fold

if TYPE_CHECKING:
    from headrace.description import Node, Stream
    from headrace.testing import TestDriver
    from tests.conftest import Drive

pytestmark = [pytest.mark.spark, pytest.mark.long]

MINUTE = 60_000
ONE = hr.Topic("one", key="id STRING", value="ref STRING, n BIGINT", idle_timeout=None)
TWO = hr.Topic("two", key="ref STRING", value="name STRING, m BIGINT", idle_timeout=None)


def first_of(topic: hr.Topic, column: str) -> Stream:
    """Steps, one of which raises where the column says `a:1,a:2`."""
    checked = topic.with_column("first", f"coalesce(str_to_map({column})['a'], {column})")
    return checked.where("first <> 'none'")


LEFT, RIGHT = first_of(ONE, "ref"), first_of(TWO, "name")
GROUPED = LEFT.group_by("id")
TUMBLING = GROUPED.window(hr.tumbling("2 minutes"), grace="1 minute").aggregate(
    n=hr.count(), top=hr.max("first")
)
COMPUTED = ("id", "left.n * 2 AS twice", "concat(right.name, '!') AS told")
NODES: list[Node] = [
    TUMBLING.suppress(hr.until_window_closes()).named("final"),
    GROUPED.aggregate(n=hr.count(), top=hr.max("first")).named("totals"),
    GROUPED.batch(collect=["first"], max_records=3).named("batches"),
    LEFT.table()
    .join(RIGHT.select("ref", "first AS name").table(), on="ref", how="left", select=COMPUTED)
    .named("computed"),
    LEFT.table().group_by("first").aggregate(n=hr.count(), total=hr.sum("n")).named("regrouped"),
    LEFT.lookup(TWO.table(), on="ref", complete_first=False).named("looked_up"),
    ONE.lookup(RIGHT.table(), on="ref", as_of="event", complete_first=False).named("in_time"),
]


def fates(driver: TestDriver, name: str) -> dict[tuple[str, int, str], int]:
    found = driver.ledger(name)
    return {(row["topic"], row["partition"], row["fate"]): row["records"] for row in found if row["records"]}


def pipe(driver: TestDriver, random: Random, cut: int) -> None:
    for number in range(14):
        at_ms = (cut * 24 + number + 30) * MINUTE // 6 - random.randrange(3) * MINUTE
        said = "a:1,a:2" if number % 9 == 4 else random.choice([f"r{random.randrange(4)}", "a:r1", "none"])
        value = {"ref": said, "n": random.randrange(9)}
        key, partition = f"k{random.randrange(7)}", random.randrange(2)
        driver.pipe("one", key=key, value=value, timestamp_ms=at_ms, partition=partition)
        if number % 3 == 0:
            text = "a:1,a:2" if number == 6 else f"a:n{random.randrange(9)}"
            named = {"name": text, "m": cut} if number % 4 else None
            driver.pipe("two", key=f"r{random.randrange(4)}", value=named, timestamp_ms=at_ms)


def test_a_stream_over_three_buckets_and_a_backfill_over_one_set_the_same_apart(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, random = drive(*NODES), Random(5)
    monkeypatch.setattr(spark_fold, "is_for_driver", lambda told, buckets, master: False)
    monkeypatch.setattr(spark_fold, "buckets_for", lambda slices, tasks: 3)
    for cut in range(2):
        pipe(driver, random, cut)
        driver.cut()
    names = [node.required_name for node in NODES]
    streamed = {name: driver.rows(name) for name in names}
    monkeypatch.undo()
    delivered = {topic: sum(row["kind"] == "record" for row in driver.log(topic)) for topic in ("one", "two")}
    unusable = [row for topic in delivered for row in driver.dead_letters(topic)]
    for name, found in streamed.items():
        assert found, name
        assert driver.backfill(name) == found, name
        told = fates(driver, name)
        assert any(fate == "dead_letter" for _, _, fate in told), name
        for topic in {topic for topic, _, _ in told}:
            counted = sum(records for (of, _, _), records in told.items() if of == topic)
            assert counted == delivered[topic], (name, topic)
        dead = [row["reason"] for row in unusable if row["node"] == name]
        assert len(dead) == sum(n for (_, _, fate), n in told.items() if fate == "dead_letter"), name
        assert all("Duplicate map key" in reason for reason in dead), name
