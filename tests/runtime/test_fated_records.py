"""The records behind counts as Arrow reads them are those that Spark reads, of every kind of node; and no JVM starts."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest

import headrace as hr
from headrace.description import with_unnamed
from headrace.engine.slices.log_slices import LogSlice
from headrace.fold.fates import DEAD_LETTER, FATES, FILTERED, LATE, TOMBSTONE, USED
from headrace.nodes.descriptions.topics import nodes_below
from headrace.nodes.node_tables import progress_of
from headrace.nodes.rows.feed_tables import read_feeds
from headrace.observe.fates import fated_records
from headrace.observe.fates.dead_letters import by_reason
from headrace.observe.fates.fated_records import FatedRecords
from headrace.observe.fates.records_by_fate import records_behind
from headrace.observe.views import Views
from headrace.spark.on_demand import SparkOnDemand
from headrace.testing import TestDriver
from tests.matrix.kinds import EVENTS, PLACES, nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from headrace.description import Node

MINUTE = 60_000


class Odd(hr.Processor):
    """Cannot use the value 13."""

    def process(self, record: hr.Record) -> None:
        """See `hr.Processor`."""
        if record["value"] == 13:
            raise ValueError(f"13 of {record['place']}")


ODD = (
    EVENTS.where("value <> 99")
    .group_by("key")
    .process(Odd, output="key STRING", on_error="dead_letter")
    .named("odd")
)
BY_SPARK = EVENTS.where("place RLIKE '^[ns]'").group_by("place").aggregate(n=hr.count()).named("by_spark")
MERGED = (
    EVENTS.select("place", "key AS city").merge(PLACES.select("place", "city"))
    .group_by("place").window(hr.tumbling("1 minute"), grace="0 minutes").aggregate(n=hr.count()).named("merged_topics")
)  # fmt: skip


def crossed(made: Mapping[str, Node]) -> Node:
    """A node below PLACES that reads a node which is not."""
    windows = cast("Any", made["TimeWindows"]).as_stream().select("key AS place")
    return PLACES.select("place").merge(windows).group_by("place").aggregate(n=hr.count()).named("crossed")


def lived(driver: TestDriver) -> None:
    """Records of every fate."""
    for number in range(40):
        at_ms = MINUTE * (number if number % 5 else number // 3)  # each fifth is late
        value: Any = {
            "value": (13, 99, 1, None, 2)[number % 5],
            "place": ("north", "south", "west", None)[number % 4],
        }
        if number % 11 == 10:
            value = None if number % 2 else f'{{"value": "much {number}"}}'
        driver.pipe(
            "events", key=("a", "b", None)[number % 3], value=value, timestamp_ms=at_ms, partition=number % 2
        )
        if number % 3 == 0:
            city = {"city": f"c{number}"} if number % 4 else b"{broken"
            driver.pipe("places", key=("north", "south")[number % 2], value=city, timestamp_ms=at_ms)
        if number % 7 == 6:
            driver.cut()
    driver.cut()


# Nodes of one topic and of two, with and without a key, state and time; of one kind whose records are refused.
SOME = ("TimeWindows", "SessionWindows", "StreamJoin", "Join", "Lookup", "Batches", "Distinct")


@pytest.mark.spark
@pytest.mark.parametrize("kinds", [SOME, pytest.param((), marks=pytest.mark.long)], ids=["some", "every"])
def test_arrow_shows_the_records_that_spark_shows_of_each_kind_of_node(
    spark: SparkSession, kinds: tuple[str, ...]
) -> None:
    made = nodes()
    every = [*(made[kind] for kind in kinds or made), ODD, BY_SPARK, MERGED, crossed(made)]
    driver = TestDriver(every, spark)
    lived(driver)
    own, views, seen = FatedRecords(spark, driver._lake, 2), Views(spark, driver._lake), set()
    for name, node in driver._nodes.items():
        met = {fate for step in with_unnamed([node]) for fate in progress_of(driver._lake, step).totals()}
        each_fate = met & {*FATES} | ({USED} if name == "time_windows" else set())
        by_fate = {fate: own.of_node(node, fate) for fate in FATES if fate in each_fate}
        seen |= {fate for fate, shown in by_fate.items() if shown}
        together = own.of_node(node, *by_fate)
        assert together == [group for groups in by_fate.values() for group in groups], name
        assert not by_fate or together == by_reason(
            records_behind(views._spark, driver._lake, node, *by_fate), 2
        ), name
        if name in ("time_windows", "odd"):
            for fate, shown in by_fate.items():
                assert shown == by_reason(views.records(node, fate), 2), (name, fate)
    assert seen == {USED, LATE, FILTERED, TOMBSTONE, DEAD_LETTER}
    for topic in (EVENTS, PLACES):
        below = [each for each in nodes_below(topic, every) if each.name]
        groups, again = own.of_topic(topic, every)
        assert (groups, again) == (by_reason(views.dead_letters(topic, below), 2), 0)
        assert groups
    driver.close()


LIFE = """
import headrace as hr
from typer.testing import CliRunner
from pyspark import SparkContext
from headrace.cli import app, commands
from headrace.cli.console import deployment
from tests.runtime.test_fated_records import MERGED, ODD, crossed, lived
from headrace.testing import TestDriver
from tests.matrix.kinds import nodes

made = nodes()
every = [*(made[kind] for kind in ("TimeWindows", "SessionWindows", "Lookup", "Table", "Suppressed")), ODD, MERGED]
every.append(crossed(made))
driver = TestDriver(every)
lived(driver)
deployment.load_pipeline = lambda module: every
def asked(*words):
    done = CliRunner().invoke(app, [*words, "--pipeline", "x", "--lake", driver._lake.root])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output
assert "13 of " in asked("dead-letters", "odd")
assert "13 of " in asked("dead-letters", "events", "--nodes")
assert "not a JSON object" in asked("dead-letters", "places", "--nodes")  # before: crossed reads a node that is not among them
assert "late by " in asked("records", "time_windows", "late")
assert "late by " in asked("records", "time_windows")
assert "by the description" in asked("records", "odd", "filtered")
assert "No sink of node" in asked("refused", "odd")
assert SparkContext._gateway is None, "a JVM was started"
driver.close()
"""


@pytest.mark.fast
@pytest.mark.slow
def test_the_commands_start_no_jvm() -> None:
    done = subprocess.run([sys.executable, "-c", LIFE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]  # before: a JVM was started


@pytest.mark.fast
def test_the_logs_are_read_once_whatever_the_fates(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, reads = TestDriver([nodes()["TimeWindows"]], topics=[PLACES]), list[str]()
    lived(driver)

    def counted(*of: Any) -> Any:
        reads.append("feeds")
        return read_feeds(*of)

    def slice_read(part: LogSlice, columns: Mapping[str, Any]) -> Any:
        reads.extend(["log"] if "reason" in columns and "key" not in columns else [])
        return read(part, columns)

    read = LogSlice.read
    monkeypatch.setattr(fated_records, "read_feeds", counted)
    monkeypatch.setattr(LogSlice, "read", slice_read)
    shown = FatedRecords(driver._session, driver._lake, 2).of_node(driver._nodes["time_windows"], *FATES)
    assert {DEAD_LETTER, LATE, FILTERED, TOMBSTONE} <= {*driver.fates("time_windows")}
    assert len(shown) >= 4
    assert sorted(reads) == ["feeds", "log"]  # before: both once for each fate
    driver.close()


@pytest.mark.spark
def test_large_logs_are_left_to_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fated_records, "HERE_BYTES", 0)
    driver = TestDriver([MERGED], spark)
    driver.pipe("events", key="a", value=b"{broken", timestamp_ms=0)
    driver.cut()
    started = SparkOnDemand.session(lambda: spark)
    (group,) = FatedRecords(started, driver._lake, 1).of_node(MERGED, "dead_letter")
    assert (group.records, group.node) == (1, None)
    driver.close()
