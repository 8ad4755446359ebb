"""Plain micro-batches and odd ones in one log: who writes which, and what an odd one leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace import lake as lakes
from headrace.log.clock import ManualClock
from headrace.log.commit_row import is_commit_row, without_commit_rows
from headrace.log.plain.appender import is_plain
from headrace.log.sequencer import Sequencer
from headrace.spark.lake_rows import read
from headrace.testing.piped import PipedTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

READINGS = hr.Topic("readings", key="id STRING", value="id STRING, n BIGINT, note STRING")


class World:
    """A topic of two partitions and its log."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder / "readings"
        self.piped = PipedTopic(READINGS, {})
        self.sequencer = Sequencer(spark, READINGS, f"file:{self.folder}", ManualClock(1_800_000_000_000))

    def commit(self, *values: bytes, tasks: int = 1) -> None:
        """Commit values, to the partitions in turn."""
        for number, value in enumerate(values):
            self.piped.add("k", value, 1_000, number % 2, {})
        raw = self.piped.take(self.spark)
        assert raw is not None
        self.sequencer.append(raw.repartition(tasks, "offset") if tasks > 1 else raw)

    def files(self) -> set[str]:
        return {file.name for file in self.folder.glob("*.parquet")}

    def named(self) -> set[str]:
        return set(lakes.open_table(f"file:{self.folder}").snapshot().files)


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    return World(spark, tmp_path)


def values(world: World) -> list[tuple[int, int, int]]:
    log = read(world.spark, f"file:{world.folder}")
    log = without_commit_rows(log)
    rows = log.select("partition", "offset", "value.n").orderBy("partition", "offset").collect()
    return [(row["partition"], row["offset"], row["n"]) for row in rows]


def test_an_odd_micro_batch_is_left_to_spark_and_so_are_twice_as_many_each_time(world: World) -> None:
    plain, odd = b'{"n": 1}', b'{"n": 2, "note": 5}'  # Spark reads the number as the text "5"
    appender = world.sequencer._plain
    assert appender is not None
    seen = []
    for value in (plain, odd, plain, odd, plain, plain, odd, plain):
        world.commit(value)
        seen.append((appender.odd, appender._rest))
    assert seen == [(0, 0), (1, 1), (1, 0), (2, 2), (2, 1), (2, 0), (3, 4), (3, 3)]
    for _ in range(4):
        world.commit(plain)
    assert (appender.odd, appender._rest) == (0, 0)
    assert [n for _, _, n in values(world)] == [1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1]


def test_what_other_tasks_wrote_of_an_odd_micro_batch_is_removed(world: World) -> None:
    world.commit(b'{"n": 1}', b'{"n": 2}', b'{"n": 3}', b"{'n': 4}")
    assert world.files() == world.named()
    assert [n for _, _, n in values(world)] == [1, 3, 2, 4]


def test_a_partition_that_lies_in_several_tasks_is_left_to_spark(world: World) -> None:
    world.commit(*(b'{"n": %d}' % n for n in range(40)), tasks=2)
    appender = world.sequencer._plain
    assert appender is not None
    assert appender.odd == 1
    assert sorted(n for _, _, n in values(world)) == list(range(40))


def test_delta_skips_files_of_plain_micro_batches_by_their_statistics(world: World) -> None:
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


OTHER_TYPES = (
    "TINYINT",
    "FLOAT",
    "DECIMAL(9,2)",
    "DATE",
    "TIMESTAMP",
    "BINARY",
    "ARRAY<INT>",
    "STRUCT<a: INT>",
)
ODD_TOPICS = [
    *(hr.Topic("t", value=f"n {type}") for type in OTHER_TYPES),
    hr.Topic("t", value="n INT, at TIMESTAMP", timestamp="at"),
    hr.Topic("t", value="n INT", replay_guard=hr.ReplayGuard(mode="exact")),
]


@pytest.mark.parametrize("topic", ODD_TOPICS, ids=lambda topic: topic.value_columns[0].type)
def test_topics_that_spark_alone_can_read(spark: SparkSession, topic: hr.Topic) -> None:
    assert is_plain(READINGS)
    assert not is_plain(topic)
