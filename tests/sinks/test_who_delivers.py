"""Whoever delivers, the stream's own process or Spark's tasks: the sink has the same rows, and its ledgers the same lines.

A ledger is what a delivery leaves in the lake: the table of refused rows, and how many rows a function was called for.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.rows import dict_row

import headrace as hr
from headrace.description.printed_sink import PrintedSink
from headrace.description.sink import TableSink
from headrace.lake import small_files
from headrace.local.postgres import Postgres
from headrace.local.servers.broker import Broker
from headrace.sinks import Delivery
from headrace.spark.frames import arrow_frame
from headrace.spark.on_demand import is_started
from headrace.testing import TestDriver
from tests.broker.harness import set_topic
from tests.rows import file_rows
from tests.sinks.consumer import arrived

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.postgres]

UTC = pa.timestamp("us", "UTC")
ITEM = pa.struct([("name", pa.string()), ("at", UTC), ("size", pa.float64())])
AT = dt.datetime(2026, 11, 30, 1, 2, 3, 456_789, tzinfo=dt.UTC)
TYPES = {
    "id": pa.string(),
    "n": pa.int64(),
    "flag": pa.bool_(),
    "half": pa.float32(),
    "real": pa.float64(),
    "exact": pa.decimal128(20, 9),
    "day": pa.date32(),
    "at": UTC,
    "local": pa.timestamp("us"),
    "raw": pa.binary(),
    "text": pa.string(),
    "items": pa.list_(ITEM),
    "more": pa.map_(pa.string(), pa.float32()),
}
VALUES: list[tuple[Any, ...]] = [
    (True, 0.1, 1e300, Decimal("0.000000001"), dt.date(1969, 12, 31), AT, AT.replace(tzinfo=None), b"\x00\xff", "a\tb\\\n\r\"ż🌊",
     [{"name": None, "at": AT, "size": -0.0}, None], [("k", 1e-9), ("\"", None)]),
    (None,) * 11,
    (False, -16_777_216.0, 123.25, Decimal("-12345678901.5"), dt.date(9999, 12, 31), AT.replace(microsecond=0),
     dt.datetime(1, 1, 1), b"", "", [], []),
]  # fmt: skip
AT_MS = int(AT.timestamp() * 1_000)
OF_PLACE = ("__sequence", "__place")
COLUMNS = tuple(TYPES)


def rows(bad: str = "") -> pa.Table:
    """Rows of two log commits, one of each deleted. In: bad  a text that the store refuses."""
    made = []
    for number in range(12):
        values = list(VALUES[number % 3])
        if number == 4:
            values[8] = bad
        deleted = number in (5, 9)
        made.append(
            dict(zip(COLUMNS, (f"k{number}", number, *([None] * 11 if deleted else values)), strict=True))
            | {"__deleted": deleted, "__timestamp": AT + dt.timedelta(seconds=number)}
            | {"__sequence": 1_000 + number // 6, "__place": bytes([number % 6]), "__ordinal": number % 6}
        )
    own = {"__deleted": pa.bool_(), "__timestamp": UTC, "__sequence": pa.int64(), "__place": pa.binary()}
    return pa.Table.from_pylist(made, pa.schema([*(TYPES | own | {"__ordinal": pa.int32()}).items()]))


class Deliveries:
    """Delivers the same rows: few in this process, or all by Spark."""

    def __init__(self, spark: SparkSession, folder: Path, given: pa.Table, key: tuple[str, ...]) -> None:
        self._rows, self._folder, self._key = given, folder, key
        self._frame = arrow_frame(spark, given).repartition(3)

    def of(self, who: str) -> Delivery:
        return Delivery("a_node", self._key, self._key, COLUMNS, f"file:{self._folder}/{who}")

    def by(self, who: str, sink: Any, to: str | None = None) -> None:
        """In: to  whose ledger; None: its own."""
        delivery = self.of(to or who)
        if who == "here":
            sink.deliver_table(self._rows, delivery)
        else:
            sink.deliver(self._frame, delivery)

    def refused(self, who: str, store: str = "") -> list[str]:
        """The rows that were refused. In: store  its name, which a reason may have."""
        lines = sorted(repr(row) for row in file_rows(self.of(who).refused))
        return [line.replace(store, "STORE") for line in lines] if store else lines


WHO = ("here", "spark")


@pytest.mark.parametrize("format_", ["json", "avro"])
def test_a_topic_of_kafka(
    format_: str, spark: SparkSession, kafka: Broker, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    bad = "x" * 3_000
    both = Deliveries(spark, tmp_path, rows(bad), ("id", "n", "real"))
    formats: dict[str, Any] = {}
    if format_ == "avro":
        fields = [{"name": "id", "type": "string"}, {"name": "n", "type": "long"}, {"name": "real", "type": ["null", "double"]}]  # fmt: skip
        formats["key_format"] = hr.Avro(schema={"type": "record", "name": "k", "fields": fields})
    options = {"bootstrap.servers": kafka.bootstrap_servers}
    found, refused = {}, {}
    for who in WHO:
        topic = new_topic(3)
        set_topic(kafka, topic, {"max.message.bytes": "2000"})
        both.by(who, hr.KafkaSink(topic, options=options, **formats))
        first = arrived(kafka, topic)
        found[who] = [(each.partition, each.key, each.value, each.timestamp, each.chain) for each in first]
        other = next(each for each in WHO if each != who)
        both.by(other, hr.KafkaSink(topic, options=options, **formats), to=who)
        assert arrived(kafka, topic, guarded=True) == first, "the other way repeats them at their positions"
        refused[who] = both.refused(who, topic)
    assert found["here"] == found["spark"]
    assert len(found["here"]) == 11
    assert refused["here"] == refused["spark"] != []


def test_a_table_of_postgresql(
    spark: SparkSession, postgres: Postgres, database: psycopg.Connection, tmp_path: Path
) -> None:
    both = Deliveries(spark, tmp_path, rows("\0"), ("id",))
    found = {}

    def held(table: str) -> list[dict[str, Any]]:
        with database.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()

    for who in WHO:
        table = f"by_{who}_{uuid.uuid4().hex[:6]}"
        both.by(who, hr.PostgresSink(table))
        found[who] = (held(table), held(f"{table}__deleted"))
        other = next(each for each in WHO if each != who)
        both.by(other, hr.PostgresSink(table), to=who)
        assert (held(table), held(f"{table}__deleted")) == found[who]
    assert found["here"] == found["spark"]
    assert len(found["here"][0]) == 9
    assert both.refused("here") == both.refused("spark") != []


def test_a_function_for_each_row(spark: SparkSession, tmp_path: Path) -> None:
    both = Deliveries(spark, tmp_path, rows(), OF_PLACE)
    calls: dict[str, list[Any]] = {}
    for who in WHO:
        mine = calls.setdefault(who, [])

        def send(row: hr.DeliveredRow, mine: list[Any] = mine) -> None:
            if row["n"] == 7:
                raise ValueError("no")
            mine.append((row.id, repr(dict(row)), row.deleted, row.timestamp, row.sequence, row.ordinal))

        sink = hr.each(send, name="each", attempts=1)
        both.by(who, sink)
        other = next(each for each in WHO if each != who)
        both.by(other, sink, to=who)
    assert calls["here"] == calls["spark"]
    assert len(calls["here"]) == 11
    assert both.refused("here") == both.refused("spark") != []
    sent = [small_files.read_json(f"{both.of(who).refused}.sent.json") for who in WHO]
    assert sent[0] == sent[1]


def test_a_sink_that_is_switched_off(spark: SparkSession, tmp_path: Path) -> None:
    both = Deliveries(spark, tmp_path, rows(), OF_PLACE)
    printed = {}
    for who in WHO:
        both.by(who, PrintedSink("kafka-t", f"{tmp_path}/{who}.txt"))
        printed[who] = sorted((tmp_path / f"{who}.txt").read_text().splitlines())
    assert printed["here"] == printed["spark"]
    assert json.loads(printed["here"][0].partition("<- a_node: ")[2])["id"] == "k0"


def test_few_rows_of_a_node_need_no_spark_also_where_one_is_refused(
    kafka: Broker, new_topic: Callable[[int], str], postgres: Postgres, database: psycopg.Connection
) -> None:
    topic, table, called = new_topic(2), f"few_{uuid.uuid4().hex[:6]}", list[str]()
    readings = hr.Topic("readings", key="id STRING", value="text STRING", idle_timeout=None)
    kafka_sink = hr.KafkaSink(topic, options={"bootstrap.servers": kafka.bootstrap_servers})
    node = readings.table().to(kafka_sink).to(hr.PostgresSink(table))
    node = node.to(hr.each(lambda row: called.append(row["id"]), name="each")).named("few")
    driver = TestDriver([node], reaches_servers=True)
    for key, text in (("a", "x"), ("b", "\0"), ("c", "y")):
        driver.pipe("readings", key=key, value={"text": text}, timestamp_ms=AT_MS)
    driver.cut()
    assert not is_started(driver._session)
    assert sorted(record.key or b"" for record in arrived(kafka, topic)) == [b"a", b"b", b"c"]
    assert sorted(database.execute(f"SELECT id FROM {table}").fetchall()) == [("a",), ("c",)]
    assert sorted(called) == ["a", "b", "c"]
    (refused,) = file_rows(driver._lake.refused("few", f"postgres-{table}"))
    assert refused["identity"] == '{"id":"b"}'
    driver.close()


def test_every_kind_of_sink_takes_few_rows_in_this_process() -> None:
    sinks: list[Any] = [hr.KafkaSink("t"), hr.PostgresSink("t"), hr.each(print), PrintedSink("t", "f")]
    assert all(isinstance(sink, TableSink) for sink in sinks)
