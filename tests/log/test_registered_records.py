"""Records that name their schemas, through the sequencer: the same rows in Spark's tasks and in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.description.formats.registry import RegistryAwayError
from headrace.log import schema_store
from headrace.log.clock import ManualClock
from headrace.log.commit_row import without_commit_rows
from headrace.log.sequencer import Sequencer
from headrace.spark.lake_rows import read
from headrace.testing.piped import PipedTopic
from tests.laws.kernel.avro_values import encoded
from tests.log.registry_server import RegistryServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OLD = {"type": "record", "name": "order", "fields": [{"name": "n", "type": "int"}]}
NEW = {**OLD, "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "long"}]}
READER = {**OLD, "fields": [{"name": "n", "type": "long"}, {"name": "id", "type": "string", "default": "?"}]}


def old(n: int) -> bytes:
    return b"\0\0\0\0\x07" + encoded(OLD, {"n": n})


def new(n: int) -> bytes:
    return b"\0\0\0\0\x08" + encoded(NEW, {"n": n, "id": "a"})


class World:
    """A topic of two partitions, whose log is written by tasks of Spark or by this process."""

    def __init__(self, spark: SparkSession, folder: Path, topic: hr.Topic, *, by_tasks: bool) -> None:
        self.spark, self.path, self.by_tasks = spark, f"file:{folder}", by_tasks
        self.piped, self.clock = PipedTopic(topic, {}), ManualClock(1_800_000_000_000)
        self.open()

    def open(self) -> None:
        self.sequencer = Sequencer(self.spark, self.piped.topic, self.path, self.clock)

    def commit(self, *values: bytes | None) -> None:
        for number, value in enumerate(values):
            self.piped.add(b"k", value, 1_000, number % 2, {})
        if self.by_tasks:
            raw = self.piped.take(self.spark)
            assert raw is not None
            self.sequencer.append(raw.repartition(2, "offset"))
        else:
            self.sequencer.append(iter(self.piped.take_here()))

    def rows(self) -> list[Any]:
        log = without_commit_rows(read(self.spark, self.path)).orderBy("partition", "offset")
        return log.select("partition", "offset", "kind", "value.*", "tombstone", "reason").collect()

    def unnamed_files(self) -> set[str]:
        files = {file.name for file in Path(self.path.removeprefix("file:")).glob("*.parquet")}
        return files - set(lakes.open_table(self.path).snapshot().files)


def test_a_log_of_registered_records_is_the_same_by_tasks_and_by_this_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_store, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setenv("HEADRACE_REGISTRY_RETRIES", "0")
    with RegistryServer() as registry:
        registry.schemas = {7: OLD}
        topic = hr.Topic("orders", key="k STRING", format=hr.Avro(schema=READER, registry=registry.url))
        task, here = (World(spark, tmp_path / str(by), topic, by_tasks=by) for by in (True, False))
        for world in (task, here):
            world.commit(old(1), b'{"n": 1}', None, old(2), old(3)[:4])
            registry.schemas[8] = (
                NEW  # a producer was deployed: its schema is asked for in the middle of a stream
            )
            world.commit(old(4), new(5), new(6), b"\0\0\0\0\x09")
            del registry.schemas[8]
            registry.fails = 500
            world.commit(new(7), old(8))  # what is known needs no registry
            with pytest.raises(RegistryAwayError):
                world.commit(b"\0\0\0\0\x0a\x02")
            world.open()
            world.commit(new(9))
            registry.fails = None
        found = [(row["n"], row["id"], row["kind"]) for row in here.rows()]
        assert [row for row in found if row[2] == "record"] == [
            (1, "?", "record"), (None, None, "record"), (4, "?", "record"), (6, "a", "record"), (7, "a", "record"),
            (9, "a", "record"), (2, "?", "record"), (5, "a", "record"), (8, "?", "record"),
        ]  # fmt: skip
        reasons = {row["reason"] for row in here.rows()} - {None}
        assert reasons == {
            "malformed value: its first byte is 123, not the magic byte 0",
            "malformed value: it is too short for a magic byte and the id of a schema",
            "malformed value: schema 9 is not in the registry",
        }
        assert task.rows() == here.rows()
        assert not task.unnamed_files() | here.unnamed_files()
