"""A log commit with records: one way for every type, no file that no commit names, statistics by which readers skip files."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace import lake as lakes
from headrace.log.clock import ManualClock
from headrace.log.commit_row import is_commit_row, without_commit_rows
from headrace.log.sequencer import Sequencer
from headrace.sequence import log_rows
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_columns import log_schema
from headrace.spark.lake_rows import read
from headrace.spark.one_task import arrow_schema
from headrace.testing.piped import PipedTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

READINGS = hr.Topic("readings", key="id STRING", value="id STRING, n BIGINT, note STRING")
EVERY_TYPE = hr.Topic(
    "typed",
    key="a INT, b STRING",
    value="h TINYINT, s SMALLINT, f FLOAT, x DOUBLE, d DECIMAL(9,2), wide DECIMAL(38,9), day DATE, at TIMESTAMP, "
    "raw BINARY, many ARRAY<STRUCT<t: STRING>>, one STRUCT<a: INT, b: STRUCT<c: DATE>>, named MAP<STRING, DOUBLE>, ok BOOLEAN",
    timestamp="at",
)


class World:
    """A topic of two partitions and its log."""

    def __init__(self, spark: SparkSession, folder: Path, topic: hr.Topic) -> None:
        self.spark, self.folder = spark, folder / topic.name
        self.piped = PipedTopic(topic, {})
        self.sequencer = Sequencer(spark, topic, f"file:{self.folder}", ManualClock(1_800_000_000_000))

    def commit(self, *values: bytes, tasks: int = 1, in_order: bool = True) -> None:
        """Commit values, to the partitions in turn."""
        for number, value in enumerate(values):
            self.piped.add(b'{"a": 1, "b": "k"}', value, 1_000, number % 2, {})
        raw = self.piped.take(self.spark)
        assert raw is not None
        self.sequencer.append(raw.repartition(tasks, "offset") if tasks > 1 else raw, in_order=in_order)

    def files(self) -> set[str]:
        return {file.name for file in self.folder.glob("*.parquet")}

    def named(self) -> set[str]:
        return set(lakes.open_table(f"file:{self.folder}").snapshot().files)


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    return World(spark, tmp_path, hr.Topic("readings", key="a INT, b STRING", value="n BIGINT"))


def rows(world: World) -> list[Any]:
    log = without_commit_rows(read(world.spark, f"file:{world.folder}"))
    return log.orderBy("partition", "offset").collect()


def test_a_log_has_the_columns_that_the_kernel_writes(spark: SparkSession) -> None:
    for topic in (READINGS, EVERY_TYPE, replace(READINGS, keep_raw=True)):
        kernel = log_rows.log_schema(RecordFormat.of(topic))
        assert kernel.equals(arrow_schema(log_schema(topic))), topic.name


def test_values_of_every_type_are_columns_and_the_event_time_may_be_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(spark, tmp_path, EVERY_TYPE)
    value = {
        "h": 1, "s": 2, "f": 0.5, "x": 1e300, "d": 12.25, "wide": 7, "day": "2024-05-01", "at": "2024-05-01T12:00:00Z",
        "raw": "AP8=", "many": [{"t": "x"}, None], "one": {"a": 1, "b": {"c": "1969-12-31"}}, "named": {"k": 1.5}, "ok": True,
    }  # fmt: skip
    world.commit(json.dumps(value).encode(), b"{'at': 1}")
    good, bad = rows(world)
    found = good["value"].asDict(recursive=True)
    assert found == {
        "h": 1, "s": 2, "f": 0.5, "x": 1e300, "d": Decimal("12.25"), "wide": Decimal(7), "day": dt.date(2024, 5, 1),
        "at": good["timestamp"], "raw": b"\x00\xff", "many": [{"t": "x"}, None], "one": {"a": 1, "b": {"c": dt.date(1969, 12, 31)}},
        "named": {"k": 1.5}, "ok": True,
    }  # fmt: skip
    assert (bad["kind"], bad["raw_value"]) == ("dead_letter", b"{'at': 1}")


def test_records_that_come_in_any_order_are_put_in_order(world: World) -> None:
    world.commit(*(b'{"n": %d}' % n for n in range(40)), tasks=2, in_order=False)
    assert [row["value"]["n"] for row in rows(world)] == [*range(0, 40, 2), *range(1, 40, 2)]


def test_a_commit_is_the_same_whether_a_task_sequences_it_or_this_process(
    spark: SparkSession, tmp_path: Path
) -> None:
    guarded = hr.Topic("guarded", key="id STRING", value="n INT, at TIMESTAMP", replay_guard=hr.ReplayGuard())
    task, here = (World(spark, tmp_path / name, guarded) for name in ("task", "here"))
    values = [
        b'{"n": 1}',
        None,
        b'{"n": 2, "at": "1969-12-31T23:59:59.999Z"}',
        b"{",
        b'{"n": 3}',
        b"",
        b"\xff",
    ]
    for cut in (0, 1, 1):  # the last says the same again
        for number, value in enumerate(values):
            headers: dict[str, bytes | str] = {
                "source-chain": f'[["orders", 0, {cut * 100 + number}]]',
                "odd": b"\xff",
            }
            for world in (task, here):
                key = None if number % 3 else f"k{number}".encode()
                world.piped.add(key, value, 999 + number, 1 - number % 2, headers if number % 4 else {})
        raw = task.piped.take(spark)
        assert raw is not None
        counts = task.sequencer.append(raw, in_order=True)
        assert here.sequencer.append(here.piped.take_here()) == counts
    assert counts.records == len(values) > counts.dead_letters > 0 < counts.replays
    assert rows(here) == rows(task)
    assert here.sequencer.state == task.sequencer.state


def test_a_partition_that_lies_in_several_tasks_is_refused_and_leaves_no_file(world: World) -> None:
    world.commit(b'{"n": 1}')
    with pytest.raises(ValueError, match=r"partitions \[0, 1\] came in several tasks"):
        world.commit(*(b'{"n": %d}' % n for n in range(40)), tasks=2)
    assert world.files() == world.named()
    assert [row["value"]["n"] for row in rows(world)] == [1]


def test_delta_skips_files_by_their_statistics(world: World) -> None:
    world.commit(b'{"n": 1}', b'{"n": 2}')
    world.commit(b'{"n": 3}')
    log = read(world.spark, f"file:{world.folder}")
    later, of_commits = log.where("offset >= 1 AND partition = 0"), log.where(is_commit_row())
    of_commits = of_commits.select(F.input_file_name().alias("name"))
    others = {
        unquote(row["name"]).rpartition("/")[2] for row in of_commits.collect()
    }  # rows without an offset
    read_files = {unquote(name).rpartition("/")[2] for name in later.inputFiles()}
    assert (later.count(), len(read_files - others)) == (1, 1)
    assert log.where("offset >= 0 AND ingested_at > TIMESTAMP_MILLIS(1800000000000)").count() == 1
