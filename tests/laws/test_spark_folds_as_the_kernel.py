"""The law through Spark: the driver, one task and two buckets fold a log to the same rows, and these are the oracle's.

One node for each way in which rows come to a kernel: one topic or several, steps that SQL computes, sides of joins, SQL
between two steps, stateless streams, lookups, logs of nodes, processors. The kernel's own laws try thousands of logs of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.engine.folding import spark_fold
from headrace.lifecycle import oracle_check
from headrace.testing.driver import STEPS
from tests.laws.driving import SideBySide
from tests.laws.kernel.global_table_subjects import Finds
from tests.laws.kernel.processor_subjects import Count
from tests.laws.recorder import BEGIN_MS, Recorder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.testing import TestDriver

pytestmark = pytest.mark.spark

SECOND, CUTS, RECORDS = 1_000, 3, 20
ALL_KEYS = 1_000  # more than there are
KEYS = ["a", "b", "ü"]
T = hr.Topic("t", key="key STRING", value="value BIGINT, ref STRING", idle_timeout="5 seconds")
U = hr.Topic("u", key="key STRING", value="value BIGINT, ref STRING", idle_timeout="5 seconds")
TOTALS: dict[str, Any] = {"n": hr.count(), "total": hr.sum("value")}
RENAMED = U.select("key", "value AS other")
KNOWN = RENAMED.table()
COUNTED = T.group_by("key").window(hr.tumbling("10 seconds"), grace="3 seconds").aggregate(**TOTALS)
WINDOWS = COUNTED.suppress(hr.until_window_closes())
BY_KEY = T.group_by("key").aggregate(**TOTALS)
ROWS = "key STRING, n BIGINT, value BIGINT"
SINKS = {name: Recorder() for name in ("totals", "table", "join")}

NODES: dict[str, Any] = {
    "windows": WINDOWS,
    "windows of two topics": T.merge(U)
    .group_by("key")
    .window(hr.hopping("10 s", "5 s"), grace=0)
    .aggregate(**TOTALS),
    "windows of steps": T.where("value % 2 = 0")
    .with_column("twice", "value * 2")
    .group_by("ref")
    .window(hr.sliding("5 seconds"), grace="3 seconds")
    .aggregate(n=hr.count(), total=hr.sum("twice")),
    "sessions": T.group_by().window(hr.session("3 seconds"), grace="1 second").aggregate(**TOTALS),
    "totals": T.merge(U)
    .group_by("ref")
    .aggregate(**TOTALS, newest=hr.last("key"), some=hr.collect("value", 4))
    .to(SINKS["totals"]),
    "time limit": BY_KEY.suppress(hr.until_time_limit("4 seconds")),
    "time limit of windows": COUNTED.suppress(hr.until_time_limit("4 seconds")),
    "batches": T.group_by("ref").batch(max_records=3, max_wait="10 seconds", collect=["key", "value"]),
    "batches of two topics": T.merge(U).group_by("key").batch(max_records=3, collect=["value"]),
    "table": T.merge(U).table().where("value > 0").to(SINKS["table"]),
    "table by timestamp": T.table("timestamp"),
    "table of steps": T.table().with_column("text", "concat(ref, '-', value)"),
    "join": T.table().join(KNOWN, on="ref", how="left").to(SINKS["join"]),
    "join of sql": T.table().join(KNOWN, on="ref", select=("left.value + right.other AS sum",)),
    "join of two keys": T.select("key", "value").table().join(KNOWN, on="key", how="outer"),
    "join of totals": BY_KEY.join(KNOWN, on="key", how="left"),
    "groups": T.table().join(KNOWN, on="ref").group_by("other").aggregate(**TOTALS),
    "changes": BY_KEY.changes(),
    "lookup": T.lookup(KNOWN, on="ref", complete_first=False),
    "lookup in time": T.lookup(KNOWN, on="ref", as_of="event", how="inner", complete_first=False),
    "earlier record": T.select("key", "value").join_prior(RENAMED, on="key", grace="2 seconds"),
    "join of streams": T.select("key", "value").join(
        RENAMED, on="key", within="4 seconds", grace="2 seconds", how="outer"
    ),
    "stream": T.where("value > 1").with_column("twice", "value * 2"),
    "flat map": T.flat_map("sequence(1, value) AS number", ordinal="place"),
    "processor": T.group_by("key").process(Count, output=ROWS, stores=[hr.value_store("count", "n BIGINT")]),
    "processor with a table": T.group_by("key").process(
        Finds,
        output="key STRING, n BIGINT, found BIGINT",
        stores=[hr.global_table("others", U.select("key", "value").table(), complete_first=False)],
        stream_wait="3 seconds",
        wall_wait="2 seconds",
    ),
    "chain": WINDOWS.named("windows").as_stream().group_by("n").batch(max_records=2, collect=["key"]),
}


# Nodes whose rows come to their kernels in a way in which those of another node come, too.
ALIKE = {
    *("windows of two topics", "time limit", "time limit of windows", "batches of two topics"),
    *("table by timestamp", "join of two keys", "join of totals", "lookup in time", "processor with a table"),
}


def named() -> list[Node]:
    return [node.named(name.replace(" ", "_")) for name, node in NODES.items()]


@pytest.fixture(scope="module")
def driver(spark: SparkSession) -> Iterator[TestDriver]:
    """One random log that each node reads in cuts of its own, dying now and then; all of it is folded by the driver."""
    driver, random = SideBySide(named(), spark), Random(5)
    names = [*driver._nodes]
    for name in random.sample(names, len(names) // 3):
        driver.crash(random.choice(STEPS), name)
    with pytest.MonkeyPatch.context() as patch:
        spread(patch, buckets=0)
        patch.setattr("headrace.testing.driver.is_sequenced_here", lambda records: records % 2 > 0)
        for cut in range(CUTS):
            for _ in range(RECORDS):
                pipe(driver, random, cut)
            last = cut == CUTS - 1
            for topic, key in product("tu", KEYS if last else ()):  # so that inner joins have rows at the end
                value = {"value": 2, "ref": key}
                driver.pipe(topic, key=key, value=value, timestamp_ms=BEGIN_MS + (9 * cut + 4) * SECOND)
            driver.advance_wall_clock("3 seconds")
            driver.cut(names if last else [name for name in names if random.random() < 0.7])
    yield driver
    driver.close()


def pipe(driver: TestDriver, random: Random, cut: int) -> None:
    """Send a random record: of a few keys, some out of order, some tombstones, some malformed."""
    value: Any = {"value": random.choice([None, *range(5)]), "ref": random.choice([*KEYS, "nobody", None])}
    driver.pipe(
        random.choice("ttu"),
        key=random.choice([*KEYS, *KEYS, None]),
        value=random.choice([value] * 8 + [None, b"{"]),
        timestamp_ms=BEGIN_MS + (9 * cut + random.randrange(-3, 4)) * SECOND,
        partition=random.randrange(2),
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(node.required_name, marks=pytest.mark.long if name in ALIKE else ())
        for name, node in zip(NODES, named(), strict=True)
    ],
)
def test_each_way_of_folding_leads_to_the_rows_of_the_oracle(
    driver: TestDriver, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streamed = driver.rows(name)
    assert streamed, "a node without rows proves nothing"
    for buckets in (1, 2):
        spread(monkeypatch, buckets)
        assert driver.backfill(name) == streamed, f"{buckets} buckets"
    monkeypatch.setattr(oracle_check, "LOCAL_BYTES", -1)  # Spark reads the evidence
    verdict = driver.verify(name, ALL_KEYS)
    assert verdict.equal, verdict.first_differences
    monkeypatch.undo()
    again = driver.verify(name, ALL_KEYS)
    assert (again.rows_equal, again.rows_differing) == (verdict.rows_equal, 0), again.first_differences
    if name in SINKS:
        node = driver._nodes[name]
        columns = [column for column in node.columns if column not in node.key]
        read = {row[node.key[0]]: {c: row[c] for c in columns} for row in driver.read(name).collect()}
        assert SINKS[name].table() == read


def spread(patch: pytest.MonkeyPatch, buckets: int) -> None:
    """Fold each increment by so many tasks; 0: by the driver."""
    patch.setattr(spark_fold, "is_for_driver", lambda *_: not buckets)
    patch.setattr(spark_fold, "buckets_for", lambda *_: max(1, buckets))
