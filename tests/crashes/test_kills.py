"""A process killed at each numbered commit step and restarted: the tables equal those of an undisturbed run."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import Backfill
from headrace.local.broker import Broker, create_topics
from headrace.observe.views import Views
from tests.broker.harness import Running, produce, rows_of, running
from tests.broker.pipeline import Record, minutes, reading
from tests.crashes.process import victim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker

Tables = dict[str, list[tuple[object, ...]]]

TOPIC = "killed"
STEPS = [
    pytest.param("before log commit", 1, id="before the log's start is recorded"),
    pytest.param("after log commit", 1, id="after the log's start is recorded"),
    pytest.param("before log commit", 3, id="before a log commit"),
    pytest.param("after log commit", 3, id="after a log commit"),
    pytest.param("before outputs", 2, id="before outputs"),
    pytest.param("after outputs", 2, id="after outputs"),
    pytest.param("after state", 2, id="after state"),
]


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


@pytest.fixture(scope="module")
def undisturbed(kafka: Broker, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """What one process that nothing happens to writes, which reads the same topic in one go."""
    create_topics(kafka.bootstrap_servers, {TOPIC: 2})
    produce(kafka, TOPIC, traffic())
    with running(spark, Lake(f"file:{tmp_path_factory.mktemp('lake')}"), kafka, TOPIC) as run:
        run.catch_up()
    assert set(run.fates()) == {"used", "open", "late", "filtered", "tombstone", "dead_letter"}
    assert run.offsets() == {0: list(range(43)), 1: list(range(44))}
    return tables(run)


def tables(run: Running) -> Tables:
    """What must be equal: the log by position, results, late records, ledger."""
    views = Views(run.spark, run.lake)
    return {
        "log": run.decided(),
        "results": rows_of(views.read(run.node)),
        "late": rows_of(views.late(run.node)),
        "ledger": rows_of(views.ledger(run.node)),
    }


def restart_and_compare(spark: SparkSession, lake: Lake, kafka: Broker, undisturbed: Tables) -> None:
    with running(spark, lake, kafka, TOPIC) as run:
        run.catch_up()
    found = tables(run)
    for name, rows in undisturbed.items():
        assert found[name] == rows, name
    assert run.recomputed() == found["results"]
    assert all(verdict.equal for verdict in Backfill(spark, lake, run.node).run())


@pytest.mark.parametrize(("step", "time"), STEPS)
def test_a_killed_process_leaves_the_tables_of_an_undisturbed_run(
    step: str, time: int, undisturbed: Tables, spark: SparkSession, lake: Lake, kafka: Broker, tmp_path: Path
) -> None:
    with victim(kafka, lake, TOPIC, tmp_path / "victim.log", at=step, time=time) as process:
        assert process.wait_killed() == -signal.SIGKILL, process.said()
    restart_and_compare(spark, lake, kafka, undisturbed)


@pytest.mark.s3
@pytest.mark.parametrize(("step", "time"), [("after log commit", 3), ("after outputs", 2)])
def test_with_its_lake_on_s3_a_killed_process_leaves_the_same_tables(
    step: str,
    time: int,
    undisturbed: Tables,
    spark: SparkSession,
    s3_root: str,
    kafka: Broker,
    tmp_path: Path,
) -> None:
    lake = Lake(s3_root)
    with victim(kafka, lake, TOPIC, tmp_path / "victim.log", at=step, time=time) as process:
        assert process.wait_killed() == -signal.SIGKILL, process.said()
    restart_and_compare(spark, lake, kafka, undisturbed)


def test_a_process_killed_again_while_it_repeats_a_micro_batch_changes_nothing(
    undisturbed: Tables, spark: SparkSession, lake: Lake, kafka: Broker, tmp_path: Path
) -> None:
    for step in ("after outputs", "after outputs"):
        with victim(kafka, lake, TOPIC, tmp_path / "victim.log", at=step) as process:
            assert process.wait_killed() == -signal.SIGKILL, process.said()
    restart_and_compare(spark, lake, kafka, undisturbed)


def test_executors_lost_with_what_a_micro_batch_had_computed_change_nothing(
    undisturbed: Tables, spark: SparkSession, lake: Lake, kafka: Broker, tmp_path: Path
) -> None:
    cluster = ["--master", "local-cluster[2,1,1024]"]
    with victim(kafka, lake, TOPIC, tmp_path / "victim.log", at="before outputs", more=cluster) as process:
        process.wait_for("killed at")
        process.wait_for("caught up")
        assert process.said().index("killed at") < process.said().index("caught up")
    restart_and_compare(spark, lake, kafka, undisturbed)
