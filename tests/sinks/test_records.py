"""What the Kafka sink makes of rows: partition, key, value, chain, order. No broker."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.description import quote
from headrace.sequence.decode import Decoder
from headrace.sequence.formats import RecordFormat
from headrace.sinks import Delivery
from headrace.spark.brokers.partitioner import positive_murmur2
from headrace.spark.frames import local_frame
from headrace.spark.one_task import arrow_schema
from headrace.spark.rows.json_rows import as_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

OWN = "__deleted BOOLEAN, __timestamp TIMESTAMP, __sequence BIGINT, __place BINARY, __ordinal INT"
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def records(frame: DataFrame, identity: tuple[str, ...], partitions: int = 3, **sink: Any) -> DataFrame:
    columns = tuple(name for name in frame.columns if not name.startswith("__"))
    delivery = Delivery("a_node", identity, identity, columns, "file:/nowhere")
    return made(hr.KafkaSink("t", **sink), frame, delivery, partitions)


def made(sink: hr.KafkaSink, frame: DataFrame, delivery: Delivery, partitions: int) -> DataFrame:
    return sink._maker(arrow_schema(frame.schema), delivery, partitions).of_frame(frame)


def test_the_partition_is_the_one_that_kafkas_own_client_chooses(spark: SparkSession) -> None:
    """Against `Utils.murmur2` of the JVM client; lengths 0 to 40 and bytes with the high bit."""
    utils = spark._jvm.org.apache.kafka.common.utils.Utils  # type: ignore[union-attr]
    rng = random.Random(7)
    keys = [rng.randbytes(length) for length in range(41) for _ in range(5)]
    keys += ["ż水🌊".encode(), b"\xff" * 7, b"\x00" * 4]
    expected = [utils.toPositive(utils.murmur2(key)) for key in keys]
    rng.shuffle(order := list(range(len(keys))))
    array = pa.array([None, *(keys[n] for n in order)], type=pa.binary())
    assert positive_murmur2(array).to_pylist() == [None, *(expected[n] for n in order)]
    assert positive_murmur2(array[3:9]).to_pylist() == [expected[n] for n in order[2:8]]
    assert positive_murmur2(pa.array([], type=pa.binary())).to_pylist() == []


def test_columns_may_have_odd_names(spark: SparkSession) -> None:
    odd, other = "a`'\"b.c %s{};(x)\\$:SELECT", "ü.`"
    frame = local_frame(
        spark, [("s", 1, False, NOON, 1, b"", 0)], f"{quote(odd)} STRING, {quote(other)} INT, {OWN}"
    )
    (one,), (both,) = (records(frame, identity).collect() for identity in ((odd,), (odd, other)))
    assert one["key"] == b"s"
    assert json.loads(both["key"]) == json.loads(both["value"]) == {odd: "s", other: 1}


def test_each_record_has_its_place_and_what_is_gone_is_a_tombstone(spark: SparkSession) -> None:
    rows = [
        (f"s{n % 4}", None if n == 5 else n, n == 5, NOON, 1_000 + n // 3, b"", 100 - n if n < 3 else n)
        for n in range(12)
    ]
    random.Random(1).shuffle(rows)
    frame = local_frame(spark, rows, f"sensor STRING, n INT, {OWN}").repartition(5)
    sent = records(frame, ("sensor",), partitions=2)
    tasks = sent.select("*", F.spark_partition_id().alias("task")).collect()
    assert sent.rdd.getNumPartitions() == 2
    by_task: dict[int, list[Any]] = {}
    for row in tasks:
        by_task.setdefault(row["task"], []).append(row)
    for of_task in by_task.values():
        assert len({row["partition"] for row in of_task}) == 1
        places = [(row["sequence"], row["ordinal"]) for row in of_task]
        assert places == sorted(places)
    assert len({row["partition"] for row in tasks}) == 2
    by_key = {(row["key"], row["sequence"], row["ordinal"]): row for row in tasks}
    gone = by_key[b"s1", 1001, 5]
    assert gone["value"] is None
    row = by_key[b"s3", 1001, 3]
    assert bytes(row["value"]) == b'{"sensor":"s3","n":3}'
    assert row["chain"] == f'[["a_node",{row["partition"]},1001,3]]'
    assert row["timestamp_ms"] == NOON.timestamp() * 1000


def test_keys_are_as_topics_read_them(spark: SparkSession) -> None:
    rows = [("ż", 7, NOON, 1, False, NOON, 1, b"", 0)]
    frame = local_frame(spark, rows, f"customer STRING, n BIGINT, window_start TIMESTAMP, x INT, {OWN}")
    key = records(frame, ("customer", "n", "window_start")).first()["key"]  # type: ignore[index]
    assert bytes(key).decode() == '{"customer":"ż","n":7,"window_start":"2024-05-01T12:00:00.000000Z"}'
    assert bytes(records(frame, ("customer", "n"), key=["customer"]).first()["key"]) == "ż".encode()  # type: ignore[index]
    assert bytes(records(frame, ("n",)).first()["key"]) == b'{"n":7}'  # type: ignore[index]


VALUE = (
    "flag BOOLEAN, tiny TINYINT, whole INT, long BIGINT, real FLOAT, double DOUBLE, exact DECIMAL(38,9), "
    "at TIMESTAMP, day DATE, bytes BINARY, text STRING, one STRUCT<a: STRING, at: TIMESTAMP, d: DECIMAL(20,2)>, "
    "many ARRAY<STRUCT<a: STRING, n: BIGINT, at: TIMESTAMP>>, map MAP<STRING, DOUBLE>, none ARRAY<INT>"
)
AT = datetime(2024, 5, 1, 12, 0, 0, 123_456, tzinfo=UTC)
FULL: tuple[Any, ...] = (
    True, -128, -(2**31), 2**63 - 1, 0.1, 0.1 + 0.2, Decimal("-12345678901234567890123456789.123456789"),
    AT, date(1969, 12, 31), b"\x00\xff", "tab\t\"quote' \\ \n\r ż水🌊 \x00 </x>", {"a": None, "at": AT, "d": Decimal("0.10")},
    [{"a": "x", "n": 2**53 + 1, "at": AT}, {"a": None, "n": None, "at": None}], [("k", 1e300), ("z", None)], [],
)  # fmt: skip
CASES = {
    "everything": FULL,
    "nulls": (None,) * 15,
    "small numbers": (False, 0, 0, 0, 1e-40, 5e-324, Decimal("0.000000001"), AT.replace(year=9999), *(None,) * 7),
    "no numbers": (None, None, None, None, math.inf, -math.inf, Decimal("-0.000000001"), AT.replace(year=1970), *(None,) * 7),
}  # fmt: skip


@pytest.mark.parametrize("case", list(CASES))
def test_a_value_is_the_text_that_spark_makes(case: str, spark: SparkSession) -> None:
    frame = local_frame(spark, [("k", *CASES[case], False, NOON, 1, b"", 0)], f"id STRING, {VALUE}, {OWN}")
    names = [name for name in frame.columns if not name.startswith("__")]
    wanted = frame.select(as_json(names).alias("text")).collect()[0]["text"]
    sent = records(frame, ("id",)).collect()[0]["value"]
    assert bytes(sent).decode() == wanted.replace("4.9E-324", "5.0E-324")  # so Java writes it


@pytest.mark.parametrize("case", list(CASES))
def test_a_value_is_read_back_exactly_by_a_topic_of_these_columns(case: str, spark: SparkSession) -> None:
    written = local_frame(spark, [("k", *CASES[case], False, NOON, 1, b"", 0)], f"id STRING, {VALUE}, {OWN}")
    topic = hr.Topic("t", key="id STRING", value=f"id STRING, {VALUE}")
    sent = records(written, ("id",)).toArrow().combine_chunks()
    raw_key, raw_value, timestamp_ms = (sent[name].chunk(0) for name in ("key", "value", "timestamp_ms"))
    read = Decoder(RecordFormat.of(topic)).decode(
        raw_key, raw_value, timestamp_ms, int(NOON.timestamp() * 1000)
    )
    assert not read.reasons.dead.any()
    names = [name for name in written.columns if not name.startswith("__")]
    expected = written.select(*names).toArrow().combine_chunks()
    for name in names:
        found = read.values.field(name)
        assert found.to_pylist() == expected[name].chunk(0).cast(found.type).to_pylist(), name


def test_a_row_that_has_a_source_chain_keeps_it_and_others_begin_one(spark: SparkSession) -> None:
    row, chain = ("s", False, NOON, 7, b"", 0), '[["orders",0,12],["kept",0,7]]'
    (kept,) = records(
        local_frame(spark, [(*row, chain)], f"id STRING, {OWN}, __chain STRING"), ("id",), 1
    ).collect()
    (own,) = records(local_frame(spark, [row], f"id STRING, {OWN}"), ("id",), 1).collect()
    assert kept["chain"] == chain
    assert json.loads(kept["value"]) == {"id": "s"}
    assert own["chain"] == '[["a_node",0,7,0]]'


def test_records_in_other_formats_are_read_back_and_a_row_that_does_not_fit_is_refused_alone(
    spark: SparkSession,
) -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "s", "type": "string"}, {"name": "n", "type": "int"}],
    }
    rows = [
        ("a", 1, False, NOON, 1, b"", 0),
        ("b", None, False, NOON, 1, b"", 1),
        ("c", None, True, NOON, 1, b"", 2),
    ]
    frame = local_frame(spark, rows, f"s STRING, n INT, {OWN}")
    avro, text = hr.Avro(schema=schema), hr.Avro(schema="string")
    with pytest.raises(hr.TerminalError, match="its Avro schema is string"):
        records(frame, ("s",), key_format=text)
    key_schema = {"type": "record", "name": "k", "fields": [{"name": "s", "type": "string"}]}
    sent = (
        records(frame, ("s",), format=avro, key_format=hr.Avro(schema=key_schema))
        .orderBy("ordinal")
        .collect()
    )
    topic = hr.Topic("t", format=avro, key_format=hr.Avro(schema=key_schema))
    keys, values = (pa.array([row[part] for row in sent], pa.binary()) for part in ("key", "value"))
    decoded = Decoder(RecordFormat.of(topic)).decode(keys, values, pa.array([1] * 3, pa.int64()), 2)
    assert decoded.values.to_pylist() == [{"s": "a", "n": 1}, None, None]
    assert decoded.keys is not None
    assert decoded.keys.to_pylist() == [{"s": "a"}, {"s": "b"}, {"s": "c"}]
    assert [row["problem"] is None for row in sent] == [True, False, True]
