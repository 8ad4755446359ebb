"""Law: the number of buckets over which Spark spreads an increment shows in no table."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.engine.folding import spark_fold

if TYPE_CHECKING:
    from headrace.description import Node
    from tests.conftest import Drive

pytestmark = pytest.mark.spark

ONE = hr.Topic("one", key="id STRING", value="ref STRING, n BIGINT", idle_timeout=None)
TWO = hr.Topic("two", key="ref STRING", value="name STRING, m BIGINT", idle_timeout=None)
GROUPED = ONE.group_by("id")
TUMBLING = GROUPED.window(hr.tumbling("2 minutes"), grace="1 minute").aggregate(
    n=hr.count(), total=hr.sum("n")
)
JOINED = ONE.table().join(TWO.table(), on="ref", how="left")
COMPUTED = ("id", "left.n * 2 AS twice", "concat(right.name, '!') AS told")
# Each node is folded by buckets in `tests/laws/test_spark_folds_as_the_kernel.py`, too, there by a backfill.
SOME: list[Node] = [
    TUMBLING.suppress(hr.until_window_closes()).named("final"),
    GROUPED.window(hr.session("1 minute"), grace=0).aggregate(n=hr.count()).named("sessions"),
    JOINED.named("joined"),
    ONE.lookup(TWO.table(), on="ref", complete_first=False).named("looked_up"),
]
OTHERS: list[Node] = [
    ONE.where("n > 2").group_by("ref").aggregate(n=hr.sum("n")).named("steps"),
    TUMBLING.suppress(hr.until_time_limit("1 minute")).named("limited"),
    GROUPED.batch(collect=["n"], max_records=3).named("batches"),
    ONE.table().join(TWO.table(), on="ref", how="left", select=COMPUTED).named("computed"),
    ONE.table().group_by("ref").aggregate(n=hr.count(), total=hr.sum("n")).named("regrouped"),
    JOINED.with_column("sum", "n + m").where("sum > 3").select("sum", "ref AS of").named("refined"),
    JOINED.where("m IS NULL")
    .group_by("ref")
    .aggregate(most=hr.max("n"), ids=hr.collect("id", 9))
    .named("picked"),
    ONE.lookup(TWO.table(), on="ref", as_of="event", complete_first=False).named("in_time"),
]


@pytest.mark.parametrize(
    "nodes", [SOME, pytest.param(OTHERS, marks=pytest.mark.long)], ids=["some", "others"]
)
def test_a_stream_over_three_buckets_and_a_backfill_by_the_driver_give_the_same_tables(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, nodes: list[Node]
) -> None:
    driver, random, minute = drive(*nodes), Random(5), 60_000
    monkeypatch.setattr(spark_fold, "is_for_driver", lambda told, buckets, master: False)
    monkeypatch.setattr(spark_fold, "buckets_for", lambda slices, tasks: 3)
    for cut in range(3):
        for number in range(40):
            at_ms = (cut * 40 + number) * minute // 8 - random.randrange(3) * minute + 5 * minute
            value = {"ref": f"r{random.randrange(6)}", "n": random.randrange(9)}
            key = f"k{random.randrange(7)}"
            driver.pipe("one", key=key, value=value, timestamp_ms=at_ms, partition=random.randrange(2))
            if number % 4 == 0:
                named = {"name": f"n{random.randrange(9)}", "m": cut} if number % 8 else None
                driver.pipe("two", key=f"r{random.randrange(6)}", value=named, timestamp_ms=at_ms)
        driver.cut()
    streamed = {node.required_name: driver.rows(node.required_name) for node in nodes}
    monkeypatch.undo()
    for name, found in streamed.items():
        assert found, name
        assert driver.backfill(name) == found, name
