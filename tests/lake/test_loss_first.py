"""A log that has lost commits: what would make the loss permanent is refused until a repair has put them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.lake import forget
from headrace.lifecycle.erasure import Erasure
from headrace.lifecycle.log_repair.repair import Repair
from headrace.lifecycle.retention import Retention
from headrace.observe.local_views import LocalViews
from headrace.spark.kafka import KafkaSettings, KafkaTopic
from tests.lake.lost_commits import overwrite, remove_strays, versions
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

NOWHERE = KafkaSettings(bootstrap_servers="localhost:1")
READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE", idle_timeout=None)
GUARDED = hr.Topic(
    "guarded", key="id STRING", value="n INT", idle_timeout=None, replay_guard=hr.ReplayGuard()
)


def test_a_cut_and_an_erasure_wait_for_the_repair(spark: SparkSession, lake: Lake) -> None:
    """The cut left no gap to be seen, and the balance lacked the record; the repair brought the erased key back."""
    node = READINGS.group_by("sensor_id").aggregate(n=hr.count()).named("totals")
    line = Line(spark, lake, node)
    for minute in range(4):
        line.pipe(f"2024-05-01 12:0{minute}:00", f"s{minute % 2}")
        line.commit()
        line.clock.set(line.clock.now_ms() + 1_000)
    line.fold()
    log = lake.log("readings")
    overwrite(log, versions(log, "log/readings")[1])
    forget()

    def cut() -> object:
        return Retention(spark, lake, [node], READINGS, clock=line.clock).run(line.clock.now_ms() + 1)

    def erase() -> object:
        return [*Erasure(spark, lake, [node], READINGS, "s1", clock=line.clock).run()]

    for act in (cut, erase):
        with pytest.raises(TerminalError, match="its log has lost 1 commit") as refused:
            act()
        assert "headrace repair readings" in str(refused.value)
    assert [*Repair(spark, lake, [node], READINGS, NOWHERE).run()]
    forget()
    assert erase()
    assert LocalViews(spark, lake).read(node)["sensor_id"].to_pylist() == ["s0"]


def test_a_guard_that_a_cut_has_made_forget_judges_no_records_of_kafka(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replays of what was cut off were taken again, and the repair said that all was well."""
    node = GUARDED.group_by("id").aggregate(n=hr.count()).named("totals")
    line = Line(spark, lake, node)
    for number in range(4):
        chain = {"source-chain": f'[["root", 0, {number}]]'}
        line._piped.add("a", '{"n": 1}', 1_714_564_800_000 + number, 0, chain)
        raw = line._piped.take(spark)
        assert raw is not None
        line.sequencer.append(raw, in_order=True)
        line.clock.set(line.clock.now_ms() + 1_000)
    line.fold()
    assert Retention(spark, lake, [node], GUARDED, clock=line.clock).run(line.clock.now_ms() - 2_500).rows
    log = lake.log("guarded")
    overwrite(log, versions(log, "log/guarded")[-2])
    remove_strays(log)
    forget()
    monkeypatch.setattr(KafkaTopic, "topic_id", lambda _: None)
    monkeypatch.setattr(KafkaTopic, "earliest", lambda _, partitions: dict.fromkeys(partitions, 0))
    with pytest.raises(TerminalError, match="nobody knows which of the lost records are replays"):
        [*Repair(spark, lake, [node], GUARDED, NOWHERE).run()]
