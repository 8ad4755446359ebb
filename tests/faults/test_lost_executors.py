"""Executors that are killed with what a micro-batch had computed: the process lives on, and the tables are the oracle's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.lake.paths import Lake
from headrace.lifecycle.oracle_check import verify_keys
from headrace.local.servers.broker import Broker
from tests.broker.harness import produce, running
from tests.broker.pipeline import Record, minutes, reading
from tests.faults.process import victim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.long]


def traffic() -> list[Record]:
    """Two partitions, both from the first commit on; late, filtered, dead and deleted among them."""
    ours = [minutes(p, 0, 39) for p in (0, 1)]
    records = [record for pair in zip(*ours, strict=True) for record in pair]
    extra = {
        20: [reading(0, 1, sensor="late"), reading(1, 9.5, sensor="on time")],
        30: [reading(0, 15, value=-1.0), Record(1, b"s1", None, records[30].timestamp_ms)],
        40: [Record(0, b"s0", b"{", records[40].timestamp_ms), reading(1, 40_000_000, sensor="2100")],
        60: [reading(1, 4, sensor="late")],
    }
    return [r for number, record in enumerate(records) for r in [*extra.get(number, []), record]]


def test_executors_lost_with_what_a_micro_batch_had_computed_change_nothing(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, traffic())
    cluster = ["--master", "local-cluster[2,1,1024]"]
    with victim(kafka, lake, topic, tmp_path / "victim.log", at="before outputs", more=cluster) as process:
        process.wait_for("killed at")
        process.wait_for("caught up")
        assert process.said().index("killed at") < process.said().index("caught up")
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
    assert run.offsets() == {0: list(range(43)), 1: list(range(44))}
    assert set(run.fates()) == {"used", "open", "late", "filtered", "tombstone", "dead_letter"}
    assert sum(run.fates().values()) == 87
    assert run.results() == run.recomputed()
    found = verify_keys(spark, lake, run.node, 100)
    assert found.equal, found.first_differences
