"""A log commit that was overwritten, and whose files are gone, comes back from Kafka: row by row but for its commit time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lifecycle.log_repair.repair import Repair
from headrace.local.servers.broker import Broker
from headrace.quality import check_log
from headrace.spark.kafka import KafkaSettings
from headrace.streams import topic_reader
from tests.broker.harness import delete_records, produce, running
from tests.broker.pipeline import Record, minutes, reading
from tests.lake.lost_commits import overwrite, remove_strays, versions
from tests.rows import require_backfilled
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker

NewTopic = Callable[[int], str]


def test_what_kafka_still_has_comes_back_and_what_it_lacks_is_refused(
    spark: SparkSession,
    lake: Lake,
    kafka: Broker,
    new_topic: NewTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nobody reads while records are produced, and the client waits for all of them: one log commit gets them.
    monkeypatch.setattr(topic_reader, "BEHIND_SECONDS", PATIENCE_S)
    monkeypatch.setattr(topic_reader, "READ_SECONDS", PATIENCE_S)
    topic, settings = new_topic(2), KafkaSettings(bootstrap_servers=kafka.bootstrap_servers)
    ours = [[*minutes(0, 10 * n, 10 * n + 9), *minutes(1, 10 * n, 10 * n + 9)] for n in range(3)]
    ours[1] += [reading(0, 2, sensor="late"), Record(1, b"s1", b"{", ours[1][-1].timestamp_ms)]
    ours[1].append(Record(1, b"s1", b"{}", 10**16))  # Spark cannot read it
    for records in ours:
        produce(kafka, topic, records)
        with running(spark, lake, kafka, topic) as run:
            run.catch_up()
    rows, results, fates = run.decided(), run.results(), run.fates()
    assert {"late", "dead_letter"} <= fates.keys()
    log, name = lake.log(topic), f"log/{topic}"
    whole = run.log().where("offset = 11").select("ingested_at").first()
    assert whole is not None
    (lost,) = [
        v for v in versions(log, name) if _holds(lake, topic, v, whole["ingested_at"].timestamp() * 1000)
    ]
    overwrite(log, lost)
    remove_strays(log)

    def repaired() -> list[str]:
        return [str(each) for each in Repair(spark, lake, [run.node], run.node.topics[0], settings).run()]

    docs = f"file:{tmp_path}/docs"
    assert (
        "partition 0 offsets 10 to 20 and partition 1 offsets 10 to 21"
        in check_log(spark, lake, run.node.topics[0], docs)[0].sentence
    )
    assert repaired() == [
        f"{name}: 1 commit put back (partition 0 offsets 10 to 20, partition 1 offsets 10 to 21), "
        "23 records read from Kafka.",
        "reading_counts: its tables were computed again from the log.",
    ]
    assert check_log(spark, lake, run.node.topics[0], docs)[0].passed
    assert (run.decided(), run.results(), run.fates()) == (rows, results, fates)
    with running(spark, lake, kafka, topic) as run:
        produce(kafka, topic, [*minutes(0, 30, 35), *minutes(1, 30, 35)])
        run.catch_up()
    assert run.results() == run.recomputed() != results
    require_backfilled(spark, lake, run.node)

    overwrite(log, versions(log, name)[-2])
    remove_strays(log)
    delete_records(kafka, topic, {0: 35})
    with pytest.raises(TerminalError, match="Kafka has deleted records that the log has lost"):
        repaired()


def _holds(lake: Lake, topic: str, version: int, at_ms: float) -> bool:
    from headrace.lake.commits.commit_file import read_commit

    commit = read_commit(lake.log(topic), version)
    return commit is not None and (commit.record or {}).get("ingested_at_ms") == round(at_ms)
