"""Records that a repair reads from Kafka get the verdicts of the guard that the log had then, also where it compares bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.errors import TerminalError
from headrace.lifecycle.log_repair.lost_commits import LostCommits
from headrace.lifecycle.log_repair.read_kafka_again import KafkaAgain
from headrace.lifecycle.log_repair.repair import Repair
from headrace.log.record_writer import columns_delivered
from headrace.observe.views import Views
from headrace.sequence.sequence_records import RECORDS
from headrace.settings.kafka import KafkaSettings
from headrace.spark.kafka import KafkaTopic
from headrace.spark.lake_rows import read
from tests.lake.lost_commits import overwrite, remove_strays, versions
from tests.runtime.line import Line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

SCREWS = hr.Topic("screws", key="sensor_id STRING", value="n INT", idle_timeout=None)
COLUMNS = ("offset", "kind", "reason", "ordinals", "replay", "stream_time")
Output = tuple[int, str]
"""The offset of an input, and the value."""

# The lost commit is the second one. Each input has several outputs, and the third of them cannot be read.
CUT_OUTPUTS: list[list[Output]] = [
    [(7, '{"n": 9}'), (8, '{"n": 0}'), (8, '{"n": 1}'), (8, "no JSON")],
    [(8, '{"n": 3}'), (8, '{"n": 4}'), (8, '{"n": 0}'), (9, '{"n": 0}')],
    [(9, '{"n": 1}'), (9, '{"n": 0}')],
]
OTHER_BYTES: list[list[Output]] = [
    [(7, '{"n": 9}'), (8, '{"n": 0}')],
    [(8, '{"n": 1}'), (8, '{"n": 0}'), (9, '{"n": 0}')],
    [(9, '{"n": 1}'), (9, '{"n": 0}')],
]


class LostCommit:
    """A log with three commits, of which the second one is gone, and a Kafka that has records of some offsets."""

    def __init__(
        self, spark: SparkSession, lake: Lake, guard: hr.ReplayGuard, commits: Sequence[Sequence[Output]]
    ) -> None:
        topic = replace(SCREWS, replay_guard=guard)
        self.node = topic.group_by().aggregate(n=hr.count()).named("totals")
        self._spark, self._lake, self._topic = spark, lake, topic
        line = Line(self._spark, lake, self.node)
        self._sent: list[DataFrame] = []
        for outputs in commits:
            for offset, value in outputs:
                chain = {"source-chain": f'[["orders", 0, {offset}]]'}
                line._piped.add("s1", value, 1_714_564_800_000 + offset, 0, chain)
            raw = line._piped.take(self._spark)
            assert raw is not None
            self._sent.append(raw)
            line.sequencer.append(raw, in_order=True)
            line.clock.set(line.clock.now_ms() + 1_000)
        line.fold()

    def rows(self) -> list[str]:
        log = read(self._spark, self._lake.log("screws")).where("offset IS NOT NULL")
        return [*map(str, log.select(*COLUMNS).orderBy("offset").collect())]

    def repair(self, monkeypatch: pytest.MonkeyPatch, *, gone: str = "false") -> None:
        """Repair it. In: gone  which records Kafka has compacted away."""

        def records(_of: object, offsets: Mapping[int, tuple[int, int]]) -> DataFrame:
            ((first, last),) = offsets.values()
            sent = self._sent[0].unionByName(self._sent[1]).unionByName(self._sent[2])
            return sent.where(F.col("offset").between(first, last) & ~F.expr(gone))

        log = self._lake.log("screws")
        overwrite(log, versions(log, "log/screws")[1])
        remove_strays(log)
        monkeypatch.setattr(KafkaTopic, "topic_id", lambda _: None)
        monkeypatch.setattr(KafkaTopic, "earliest", lambda _, partitions: dict.fromkeys(partitions, 0))
        monkeypatch.setattr(LostCommits, "_records", records)
        monkeypatch.setattr(KafkaAgain, "stretches", lambda of, offsets: delivered(records(of, offsets)))
        settings = KafkaSettings(bootstrap_servers="localhost:1")
        list(Repair(self._spark, self._lake, [self.node], self._topic, settings).run())


@pytest.mark.parametrize(
    ("guard", "commits"),
    [
        (hr.ReplayGuard(ordinals="order"), CUT_OUTPUTS),
        pytest.param(hr.ReplayGuard(), OTHER_BYTES, marks=pytest.mark.long),
        (hr.ReplayGuard(mode="exact"), OTHER_BYTES),
    ],
    ids=["outputs numbered by their order", "monotone", "exact"],
)
def test_the_rows_that_come_back_are_those_of_before(
    spark: SparkSession,
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    guard: hr.ReplayGuard,
    commits: list[list[Output]],
) -> None:
    lost = LostCommit(spark, lake, guard, commits)
    before = lost.rows()
    lost.repair(monkeypatch)
    assert lost.rows() == before


def test_outputs_of_which_kafka_has_only_a_part_are_not_numbered(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = LostCommit(spark, lake, hr.ReplayGuard(ordinals="order"), CUT_OUTPUTS)
    with pytest.raises(TerminalError, match="no longer has all outputs of the last input"):
        lost.repair(monkeypatch, gone="offset = 1")


def delivered(rows: DataFrame) -> pa.Table:
    """Records as Kafka's client gives them."""
    return rows.select(*columns_delivered()).toArrow().cast(RECORDS)


GUARDED = hr.Topic(
    "guarded",
    key="sensor_id STRING",
    value="sensor_id STRING, value DOUBLE",
    idle_timeout=None,
    replay_guard=hr.ReplayGuard(),
)


def test_records_from_kafka_are_judged_by_the_guard_of_that_moment(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lost commit held a new position and a replay; a later commit replays both."""
    node = GUARDED.group_by().aggregate(n=hr.count()).named("guarded_totals")
    line = Line(spark, lake, node)
    chains = [[3, 4], [5, 4], [4, 5, 6]]
    sent = []
    for positions in chains:
        for position in positions:
            chain = {"source-chain": f'[["root", 0, {position}], ["mid", 0, {position}]]'}
            line._piped.add("s1", '{"sensor_id": "s1", "value": 1.0}', 1_714_564_800_000 + position, 0, chain)
        raw = line._piped.take(spark)
        assert raw is not None
        sent.append(raw)
        line.sequencer.append(raw, in_order=True)
        line.clock.set(line.clock.now_ms() + 1_000)
    line.fold()
    log = lake.log("guarded")
    columns = ("offset", "timestamp", "stream_time", "root_offset", "replay", "ingested_at")
    rows = sorted(map(str, read(spark, log).where("offset IS NOT NULL").select(*columns).collect()))
    overwrite(log, versions(log, "log/guarded")[1])
    remove_strays(log)
    monkeypatch.setattr(KafkaTopic, "topic_id", lambda _: None)
    monkeypatch.setattr(KafkaTopic, "earliest", lambda _, partitions: dict.fromkeys(partitions, 0))
    monkeypatch.setattr(LostCommits, "_records", lambda *_: sent[1])
    monkeypatch.setattr(KafkaAgain, "stretches", lambda *_: delivered(sent[1]))
    work = Repair(spark, lake, [node], GUARDED, KafkaSettings(bootstrap_servers="localhost:1"))
    assert "2 records read from Kafka" in str(next(iter([*work.run()])))
    found = read(spark, log).where("offset IS NOT NULL").select(*columns[:-1]).collect()
    assert sorted(map(str, found)) == sorted(text.rpartition(", ingested_at")[0] + ")" for text in rows)
    assert [
        row["replay"] for row in read(spark, log).where("offset IN (2, 3)").orderBy("offset").collect()
    ] == [False, True]
    assert [row["n"] for row in Views(spark, lake).read(node).collect()] == [4]
