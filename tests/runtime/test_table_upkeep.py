"""Delta's checkpoints are written beside the commits: none is held up, and a table says what it said."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.lake import LakeTable, small_files, table
from headrace.lifecycle.backfill import Backfill
from headrace.nodes.unusable_table import unusable_uri
from headrace.observe.views import Views
from headrace.spark.kafka import KafkaSettings
from headrace.streams.stream_runtime import StreamRuntime
from headrace.writing import table_upkeep
from headrace.writing.scheduling import Turns
from headrace.writing.table_upkeep import TableUpkeep
from tests.runtime.line import Line
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
COUNTS = READINGS.group_by().window(hr.tumbling("1 hour"), grace="0 seconds").aggregate(n=hr.count())
COUNTS = COUNTS.suppress(hr.until_window_closes()).named("counts")


def feed(line: Line, minutes: range) -> None:
    for minute in minutes:
        line.pipe(f"2024-05-01 12:{minute:02}:00")
        line.commit()
        line.fold()


def checkpointed(spark: SparkSession, path: str) -> int | None:
    """The version of the table's last checkpoint."""
    last = small_files.read_json(f"{path}/_delta_log/_last_checkpoint")
    return None if last is None else int(last["version"])


@pytest.fixture
def turns() -> Turns:
    return Turns(1)


@pytest.fixture
def kept(
    spark: SparkSession, lake: Lake, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TableUpkeep]:
    """Of the log and the state of one node, at each third commit."""
    monkeypatch.setattr(table, "CHECKPOINT_EVERY", 3)
    monkeypatch.setattr(table_upkeep, "LOOK_SECONDS", 0.0)
    mine = TableUpkeep(lambda: [lake.log("readings"), lake.state("counts")], turns)
    yield mine
    mine.end()


def look(kept: TableUpkeep) -> None:
    """Until what it began is done."""
    kept.keep()
    kept._task.end()


def test_each_table_gets_one_at_a_look_when_enough_was_committed(
    spark: SparkSession, lake: Lake, kept: TableUpkeep
) -> None:
    line, log, state = Line(spark, lake, COUNTS), lake.log("readings"), lake.state("counts")
    look(kept)
    assert (checkpointed(spark, log), checkpointed(spark, state)) == (None, None)
    feed(line, range(2))
    newest, of_state = lakes.open_table(log).version, lakes.open_table(state).version
    look(kept)
    assert (checkpointed(spark, log), checkpointed(spark, state)) == (newest, of_state)
    look(kept)
    assert checkpointed(spark, log) == newest
    lakes.forget()
    feed(Line(spark, lake, COUNTS), range(4, 6))
    assert all(verdict.equal for verdict in Backfill(spark, lake, COUNTS).run())


def test_micro_batches_go_on_while_one_is_written(
    spark: SparkSession, lake: Lake, kept: TableUpkeep, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, log = Line(spark, lake, COUNTS), lake.log("readings")
    feed(line, range(3))
    writing, go_on, write = threading.Event(), threading.Event(), LakeTable.checkpoint

    def held_up(of: LakeTable) -> int:
        writing.set()
        assert go_on.wait(PATIENCE_S)
        return write(of)

    monkeypatch.setattr(LakeTable, "checkpoint", held_up)
    kept.keep()
    assert writing.wait(PATIENCE_S)
    feed(line, range(3, 5))
    kept.keep()
    assert checkpointed(spark, log) is None
    newest = lakes.open_table(log).version
    go_on.set()
    kept.end()
    assert checkpointed(spark, log) == newest


def test_it_waits_for_other_upkeep_and_gives_up_at_the_end(
    spark: SparkSession, lake: Lake, kept: TableUpkeep, turns: Turns
) -> None:
    feed(Line(spark, lake, COUNTS), range(3))
    with turns.taken(lambda: False):
        kept.keep()
        kept.end()
    assert checkpointed(spark, lake.log("readings")) is None


def test_one_that_fails_is_tried_again(
    spark: SparkSession, lake: Lake, kept: TableUpkeep, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(Line(spark, lake, COUNTS), range(3))
    failures, write = iter([OSError("the disk was away")]), LakeTable.checkpoint

    def failing_once(of: LakeTable) -> int:
        for error in failures:
            raise error
        return write(of)

    monkeypatch.setattr(LakeTable, "checkpoint", failing_once)
    look(kept)
    look(kept)
    assert checkpointed(spark, lake.log("readings")) is not None


def test_a_runtime_keeps_them_for_all_tables_that_it_writes(spark: SparkSession, lake: Lake) -> None:
    kafka = KafkaSettings(bootstrap_servers="localhost:1")
    runtime = StreamRuntime(spark, lake, [COUNTS], kafka=kafka)
    of_node = {lake.state("counts"), lake.table("counts"), unusable_uri(lake, COUNTS)}
    assert set(runtime._written()) == {lake.log("readings")} | of_node
    part = StreamRuntime(spark, lake, [COUNTS], kafka=kafka, only=["log/readings"])
    assert set(part._written()) == {lake.log("readings")}


def test_a_log_with_many_small_files_is_packed_and_nodes_read_on(spark: SparkSession, lake: Lake) -> None:
    line, table = Line(spark, lake, COUNTS), lakes.open_table(lake.log("readings"))
    for minute in range(6):
        line.pipe(f"2024-05-01 12:{minute:02}:00")
        line.commit()
        line.clock.set(line.clock.now_ms() + 20_000)
        if minute % 2:
            line.fold()
    before = len(table.snapshot().files)
    writer = lakes.TableWriter(table, lakes.MAINTAINER)
    assert table_upkeep.pack_log(table, writer) is not None
    assert len(table.snapshot().files) < before
    line.pipe("2024-05-01 13:30:00")
    line.commit()
    line.fold()
    assert [row["n"] for row in Views(spark, lake).read(COUNTS).collect()] == [6]
    assert all(verdict.equal for verdict in Backfill(spark, lake, COUNTS).run())
    again = Line(spark, lake, COUNTS)
    assert again.sequencer.state == line.sequencer.state
