"""Rows of the state that can be merged are, beside micro-batches: fewer rows that say the same."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable

import headrace as hr
from headrace import lake as lakes
from headrace.engine.state_groups import GROUPS
from headrace.observe.local_views import LocalViews
from headrace.observe.views import Views
from headrace.writing import state_upkeep
from tests.no_spark import no_session
from tests.rows import file_rows, require_backfilled, windows_shown
from tests.runtime.line import Line
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node, WindowedAggregate
    from headrace.lake.paths import Lake

READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
BY_SENSOR = READINGS.group_by("sensor_id")
WINDOWS = BY_SENSOR.window(hr.hopping("10 minutes", "5 minutes"), grace="1 minute").aggregate(
    n=hr.count(), total=hr.sum("value"), mean=hr.avg("value")
)
FINAL = WINDOWS.suppress(hr.until_window_closes()).named("final")
COUNTED = BY_SENSOR.window(hr.tumbling("3 minutes"), grace="0 seconds").aggregate(n=hr.count())
VISITS = READINGS.group_by().window(hr.session("2 minutes"), grace="0 seconds").aggregate(n=hr.count())
SLIDING = BY_SENSOR.window(hr.sliding("2 minutes"), grace="0 seconds").aggregate(n=hr.count())
WAITS = BY_SENSOR.aggregate(n=hr.count()).suppress(hr.until_time_limit("2 minutes"))
NEWEST = READINGS.select("sensor_id", "value AS newest").table()
FOUND = READINGS.select("sensor_id", "value")
# Of most a row of the state stands for older ones, and may itself be read no more.
KEEPING = [
    BY_SENSOR.batch(max_records=3, collect=["value"]).named("batches"),
    VISITS.suppress(hr.until_window_closes()).named("sessions"),
    SLIDING.suppress(hr.until_window_closes()).named("sliding"),
    WAITS.named("waits"),
    COUNTED.named("growing"),
    READINGS.select("sensor_id AS `the sensor`", "value")
    .group_by("the sensor")
    .batch(max_records=3, collect=["value"])
    .named("mapped"),  # by Delta, which allows a blank in a name
    FOUND.lookup(NEWEST, on="sensor_id", complete_first=False).named("found"),
    FOUND.lookup(NEWEST, on="sensor_id", as_of="event", history="2 minutes", complete_first=False).named(
        "valid"
    ),
]


def feed(line: Line, minutes: range) -> None:
    """A micro-batch for each minute: a reading of either sensor, each in its partition."""
    for minute in minutes:
        for partition, sensor in enumerate(("s1", "s2")):
            line.pipe(f"2024-05-01 12:{minute:02}:00", sensor, minute + 0.1, partition)
        line.commit()
        line.fold()


def state(line: Line) -> list[dict[str, Any]]:
    return file_rows(line.lake.state(line.node.required_name))


def seen(line: Line, node: WindowedAggregate) -> list[list[tuple[Any, ...]]]:
    return windows_shown(line.spark, line.lake, node)


def seen_by_spark(line: Line, node: WindowedAggregate) -> list[list[tuple[Any, ...]]]:
    """The same, closed windows, open ones and the ledger, in frames of Spark."""
    views = Views(line.spark, line.lake)
    frames = (views.read(node), views.open_windows(node), views.ledger(node))
    return [sorted(map(tuple, frame.collect())) for frame in frames]


@pytest.mark.fast
def test_a_micro_batch_tells_how_much_of_the_state_it_read(lake: Lake) -> None:
    line = Line(no_session(), lake, BY_SENSOR.aggregate(n=hr.count()).named("counts"))

    def fold(*sensors: str) -> None:
        for sensor in sensors:
            line.pipe("2024-05-01 12:00:00", sensor)
        line.commit()
        line.fold()

    assert line.runner.reads.last_bytes is None
    fold(*(f"s{number}" for number in range(5_000)))
    assert line.runner.reads.last_bytes == 0  # there was none
    fold("s7")
    assert line.runner.reads.last_bytes == 0  # this process remembers what it has written
    line.runner.maintain()
    GROUPS.clear()
    fold("s8")
    assert 0 < (line.runner.reads.last_bytes or 0) < line.runner.state_bytes() / 2


@pytest.mark.fast
def test_merged_rows_show_and_lead_to_the_same(lake: Lake) -> None:
    line = Line(no_session(), lake, FINAL)
    feed(line, range(4))
    before = seen(line, FINAL)
    assert len(state(line)) == 8
    line.runner.pack(whole=True)
    assert sorted(row["__batch"] for row in state(line)) == [4, 4]
    assert seen(line, FINAL) == before
    feed(line, range(4, 12))  # closes windows of merged rows and of others
    assert LocalViews(line.spark, lake).read(FINAL).num_rows == 4
    line.runner.maintain()
    feed(line, range(12, 17))
    assert LocalViews(line.spark, lake).read(FINAL).num_rows == 6
    require_backfilled(line.spark, lake, FINAL)


@pytest.mark.fast
@pytest.mark.parametrize("node", KEEPING, ids=lambda node: str(node.required_name))
def test_what_is_not_read_again_is_left_out_and_nothing_older_is_read_in_its_place(
    lake: Lake, node: Node
) -> None:
    line = Line(no_session(), lake, node)
    for number in range(8):  # one file, which outweighs those after it
        line.pipe("2024-05-01 12:00:00", f"s{number}")
    line.commit()
    line.fold()
    for minute in range(1, 11):
        line.pipe(f"2024-05-01 12:{minute:02}:00", f"s{minute % 2}")
        line.commit()
        line.fold()
        if minute in (2, 4, 7):
            line.runner.pack(whole=minute == 7)
    before = len(state(line))
    line.runner.maintain()
    assert len(state(line)) < before
    for minute in range(11, 20):
        line.pipe(f"2024-05-01 12:{minute:02}:00", f"s{minute % 2}")
    line.commit()
    line.fold()
    require_backfilled(line.spark, lake, node)


@pytest.mark.fast
def test_micro_batches_go_on_while_rows_are_merged(lake: Lake) -> None:
    line = Line(no_session(), lake, FINAL)
    feed(line, range(2))
    packed, twice = 0, threading.Event()

    def go_on() -> None:
        feed(line, range(2, 7))
        assert twice.wait(PATIENCE_S)
        feed(line, range(7, 8))

    feeding = threading.Thread(target=go_on)
    feeding.start()
    while feeding.is_alive():
        with ThreadPoolExecutor(1) as upkeep:  # a new thread each time, as beside a stream
            upkeep.submit(line.runner.pack, whole=True).result()
        packed += 1
        if packed == 2:
            twice.set()
    feeding.join()
    assert line.runner.progress.batch == 8
    require_backfilled(line.spark, lake, FINAL)


@pytest.mark.spark
@pytest.mark.parametrize("begun", [False, True], ids=["before it begins", "before it commits"])
def test_files_that_another_packs_meanwhile_are_left_to_it(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    line = Line(spark, lake, FINAL)
    feed(line, range(3))
    before = seen(line, FINAL)
    owner, name = (lakes.TableWriter, "replace") if begun else (state_upkeep, "compact_state")
    mine = getattr(owner, name)

    def another(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, name, mine)
        DeltaTable.forPath(spark, lake.state("final")).optimize().executeCompaction()
        return mine(*arguments, **named)

    monkeypatch.setattr(owner, name, another)
    line.runner.pack(whole=True)
    assert len(state(line)) == (6 if begun else 2)
    assert seen(line, FINAL) == before
    line.runner.pack(whole=True)
    assert len(state(line)) == 2
    feed(line, range(3, 8))
    require_backfilled(line.spark, lake, FINAL)


@pytest.mark.spark
def test_who_began_to_read_before_sees_what_stood_there_then(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, path = Line(spark, lake, FINAL), lake.state("final")
    feed(line, range(3))
    then, version = seen_by_spark(line, FINAL), lakes.open_table(path).version
    feed(line, range(3, 5))
    line.runner.pack(whole=True)
    table = lakes.open_table(path)
    monkeypatch.setattr(
        type(table), "version", property(lambda of: version if of is table else of.snapshot().version)
    )
    assert seen_by_spark(line, FINAL) == then


@pytest.mark.fast
def test_windows_that_are_shown_as_they_grow_keep_each_step(lake: Lake) -> None:
    growing = WINDOWS.named("growing")
    line = Line(no_session(), lake, growing)
    feed(line, range(3))
    updates = sorted(LocalViews(line.spark, lake).updates(growing).to_pylist(), key=str)
    line.runner.pack(whole=True)
    assert len(state(line)) == 6
    assert sorted(LocalViews(line.spark, lake).updates(growing).to_pylist(), key=str) == updates
