"""A log that begins with rows of a table, and goes on with Kafka's: one log, one table."""

from __future__ import annotations

import datetime as dt
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import headrace as hr
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lifecycle.log_repair.gaps import accept_gap
from headrace.log.clock import SystemClock
from headrace.log.decisions.seeding import Seeding, SeedUnderWayError
from headrace.log.sequencer import Sequencer
from headrace.spark.kafka import KafkaSettings, KafkaTopic, LostOffsetsError
from headrace.streams.begin_log import begin_log
from headrace.testing import TestDriver
from tests.rows import columns

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
OLD: list[tuple[str, float | None, int]] = [
    ("a", 1.5, 0),
    ("b", 2.0, 1),
    ("a", 4.0, 2),
    ("c", None, 3),
    ("a", 0.25, 3),
]
NEW: list[tuple[str, float | None, int]] = [("a", 8.0, 3), ("b", 1.0, 5), ("c", 2.0, 9)]


def readings(start: Any) -> hr.Topic:
    return hr.Topic(
        "readings",
        key="sensor_id STRING",
        value="sensor_id STRING, value DOUBLE",
        start=start,
        idle_timeout=None,
    )


def counts(topic: hr.Topic) -> Any:
    windows = topic.group_by("sensor_id").window(hr.tumbling("2 minutes"), grace="0 seconds")
    return windows.aggregate(n=hr.count(), total=hr.sum("value")).named("counts")


def minute(number: int) -> dt.datetime:
    return START + dt.timedelta(minutes=number)


def piped(driver: TestDriver, records: list[tuple[str, float | None, int]], partition: int = 0) -> None:
    for sensor, value, at in records:
        driver.pipe(
            "readings",
            key=sensor,
            value={"sensor_id": sensor, "value": value},
            timestamp_ms=int(minute(at).timestamp() * 1000),
            partition=partition,
        )


def tables(driver: TestDriver) -> tuple[Any, ...]:
    driver.cut()
    return driver.rows("counts"), driver.ledger("counts")


def log_of(rows: list[dict[str, Any]]) -> list[Any]:
    names = ("kind", "partition", "offset", "timestamp", "stream_time", "key", "value")
    return sorted(map(str, columns([row for row in rows if row["kind"] == "record"], *names)))


def test_a_log_that_begins_with_a_table_is_the_one_that_kafka_alone_would_have_given(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = f"file:{tmp_path}/old"
    columns = {
        "sensor_id": [r[0] for r in OLD],
        "value": [r[1] for r in OLD],
        "at": [minute(r[2]) for r in OLD],
    }
    write_deltalake(table, pa.table(columns))
    write_deltalake(table, pa.table({**columns, "value": [99.0] * len(OLD)}), mode="append")  # not as of 0
    alone = TestDriver([counts(readings("earliest"))], spark)
    piped(alone, sorted(OLD, key=lambda r: (r[2], str(r[1]))))
    piped(alone, NEW)
    wanted, log = tables(alone), log_of(alone.log("readings"))
    alone.close()
    start = hr.from_table(table, as_of=0, timestamp="at", then={0: len(OLD)})
    seeded = TestDriver([counts(readings(start))], spark)
    assert len(log_of(seeded.log("readings"))) == len(OLD)
    piped(seeded, NEW)
    assert (tables(seeded), log_of(seeded.log("readings"))) == (wanted, log)
    seeded.check("counts")
    seeded.close()


@pytest.mark.parametrize(
    "kind",
    ["int64", "text", "bytes"]
    + [pytest.param(kind, marks=pytest.mark.long) for kind in ("int32", "float32", "float64")],
)
def test_rows_of_plain_values_are_the_records_that_kafkas_serializers_write(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    of: dict[str, Any] = {"text": hr.Text(), "bytes": hr.Bytes()}
    form = of.get(kind) or hr.Number(kind)  # type: ignore[arg-type]
    some: dict[str, list[Any]] = {"text": ["x", "ü", ""], "bytes": [b"\x00", b"\xff", b""]}
    values = some.get(kind, [-2, 0, 7])
    keys = [1 << 40, -3, 1 << 40]
    types = {"int32": pa.int32(), "float32": pa.float32(), "float64": pa.float64(), "bytes": pa.binary()}

    def levels(start: Any) -> hr.Topic:
        return hr.Topic(
            "levels",
            key="id BIGINT",
            key_format=hr.Number("int64"),
            value=f"level {form.column_type}",
            format=form,
            start=start,
            idle_timeout=None,
        )

    held = pa.array([*values, None], types.get(kind))
    rows = pa.table({"id": [*keys, -3], "level": held, "at": [minute(n) for n in range(4)]})
    write_deltalake(f"file:{tmp_path}/old", rows)
    alone = TestDriver([levels("earliest").table().named("latest")], spark)
    for number, (key, value) in enumerate(zip(keys, values, strict=True)):
        alone.pipe("levels", key=key, value=value, timestamp_ms=int(minute(number).timestamp() * 1000))
    alone.pipe("levels", key=-3, value=None, timestamp_ms=int(minute(3).timestamp() * 1000))
    start = hr.from_table(f"file:{tmp_path}/old", timestamp="at", then={0: 4})
    seeded = TestDriver([levels(start).table().named("latest")], spark)
    for driver in (alone, seeded):
        driver.cut()
        driver.check("latest")
    assert log_of(seeded.log("levels")) == log_of(alone.log("levels"))
    assert seeded.rows("latest") == alone.rows("latest")
    assert [row["level"] for row in seeded.rows("latest")] == [values[2]], "the null is a tombstone"
    seeded.close()
    alone.close()


def test_an_archive_of_records_is_read_to_its_end_after_a_stop_and_no_offset_comes_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = [
        (b"a", b'{"sensor_id": "a", "value": 1}', partition, offset, minute(offset))
        for partition in (0, 2)
        for offset in (7, 8, 8, 11, 12, 20)
    ]
    records.append((b"a", b"?", 2, 21, minute(21)))
    names = ("key", "value", "partition", "offset", "timestamp")
    archive = pa.table(dict(zip(names, zip(*records, strict=True), strict=True)))
    (tmp_path / "archive").mkdir()
    pq.write_table(archive.slice(0, 5), tmp_path / "archive" / "one.parquet")
    pq.write_table(archive.slice(5), tmp_path / "archive" / "two.parquet")
    topic = readings(hr.from_files(f"file:{tmp_path}/archive", raw=True))
    uri = f"file:{tmp_path}/log"

    def opened() -> Sequencer:
        return Sequencer(spark, topic, uri, SystemClock())

    sequencer = opened()
    asked: list[Any] = []
    seeding = Seeding(spark, sequencer, topic.start)  # type: ignore[arg-type]
    seeding.begin(3, lambda then: {0: 3, 1: 4, 2: 5}, asked.append, rows_max=4)
    assert asked == [{0: 21, 1: 4, 2: 22}]
    stops = iter([False, True])
    with pytest.raises(SeedUnderWayError, match="not read to the end"):
        seeding.run(3, ends=lambda: next(stops))
    sequencer = opened()
    assert sequencer.state.seed is not None
    Seeding(spark, sequencer, topic.start).run(3)  # type: ignore[arg-type]
    assert sequencer.state.next_offsets == {0: 21, 1: 4, 2: 22}
    assert sequencer.state.seed is None
    log = spark.read.format("delta").load(uri).where("offset IS NOT NULL")
    found = sorted((row["partition"], row["offset"], row["kind"]) for row in log.collect())
    wanted = {(p, o, "dead_letter" if v == b"?" else "record") for _, v, p, o, _ in records}
    assert found == sorted(wanted)
    begun = opened().state
    assert begun.seed is None
    assert begun.next_offsets == {0: 21, 1: 4, 2: 22}
    sequencer = opened()
    sequencer.read_first_to({0: 21, 1: 4, 2: 23})  # Kafka has one record more
    assert not sequencer.state.complete
    sequencer.append([], ends={2: 23})
    assert sequencer.state.complete
    lakes.forget()


def test_rows_stay_in_their_partitions_where_the_topic_gains_one_before_all_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = [f"s{number}" for number in range(12)]
    pq.write_table(
        pa.table({"sensor_id": names, "value": [1.0] * 12, "at": [minute(0)] * 12}), tmp_path / "some.parquet"
    )
    topic = readings(hr.from_files(f"file:{tmp_path}/some.parquet", timestamp="at", then={0: 12, 1: 12}))
    uri = f"file:{tmp_path}/log"
    sequencer = Sequencer(spark, topic, uri, SystemClock())
    seeding = Seeding(spark, sequencer, topic.start)  # type: ignore[arg-type]
    seeding.begin(2, lambda then: {0: 12, 1: 12}, rows_max=4)
    stops = iter([False, True])
    with pytest.raises(SeedUnderWayError):
        seeding.run(2, ends=lambda: next(stops))
    seeding.run(3)
    assert sequencer.state.next_offsets == {0: 12, 1: 12}
    log = spark.read.format("delta").load(uri).where("kind = 'record'")
    assert sorted(row["sensor_id"] for row in log.select("value.sensor_id").collect()) == sorted(names)
    lakes.forget()


def test_a_table_whose_rows_cannot_be_the_topics_is_refused_before_anything_is_recorded(
    spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"sensor_id": ["a"], "at": [minute(0)]}), tmp_path / "some.parquet")
    topic = readings(hr.from_files(f"file:{tmp_path}/some.parquet", timestamp="at", then="latest"))
    sequencer = Sequencer(spark, topic, f"file:{tmp_path}/log", SystemClock())
    with pytest.raises(TerminalError, match="it has no column value"):
        Seeding(spark, sequencer, topic.start).begin(1, lambda then: {0: 0})  # type: ignore[arg-type]
    assert sequencer.state.batch == 0
    lakes.forget()


def test_a_loss_is_accepted_only_in_a_log_that_has_begun_and_has_read_its_seed(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, `headrace accept-gap` let a log begin after the loss: without its seed, or in the face of its `start`."""
    kafka = SimpleNamespace(
        topic_id=lambda: None,
        partitions=lambda: [0],
        earliest=lambda of: dict.fromkeys(of, 6),
        ends=lambda _: {0: 9},
    )
    monkeypatch.setattr(KafkaTopic, "of", lambda *_: kafka)
    rows = {"sensor_id": ["a", "b"], "value": [1.0, 2.0], "at": [minute(0), minute(1)]}
    pq.write_table(pa.table(rows), tmp_path / "some.parquet")
    topic = readings(hr.from_files(f"file:{tmp_path}/some.parquet", timestamp="at", then={0: 4}))
    accept = partial(accept_gap, spark, lake, topic, KafkaSettings())
    with pytest.raises(TerminalError, match="its log has not begun"):
        accept()
    sequencer = Sequencer(spark, topic, lake.log("readings"), SystemClock())
    with pytest.raises(LostOffsetsError) as lost:
        begin_log(spark, sequencer, cast("KafkaTopic", kafka), [0], ends=lambda: False)
    assert sequencer.state.batch == 0
    assert "partition 0: offsets 4 to 5" in str(lost.value)
    assert "accept-gap" not in str(lost.value)
    assert "Let its `start` name newer rows, or give another `then`" in str(lost.value)
    Seeding(spark, sequencer, topic.start).begin(1, lambda then: {0: 4})  # type: ignore[arg-type]
    with pytest.raises(TerminalError, match="its log has not read its seed to the end"):
        accept()
    sequencer = Sequencer(spark, topic, lake.log("readings"), SystemClock())
    Seeding(spark, sequencer, topic.start).run(1)  # type: ignore[arg-type]
    assert accept() == {0: (4, 6)}
    lakes.forget()
