"""Sample traffic: whatever the schemas of a project's topics are, its records can be read, and they are of now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr
from headrace.cli.new_project import make_project
from headrace.local.development.dev_traffic import record_key, without_samples
from headrace.local.samples import topic_traffic
from headrace.observe.sql import LakeSql
from headrace.testing import TestDriver
from tests.laws.kernel.protobuf_values import Field, compiled, field, message

pytestmark = pytest.mark.fast
NOW_MS = 1_795_800_022_626
NESTED = (
    "user STRUCT<id: STRING NOT NULL, born: DATE, at: STRUCT<ts: BIGINT>>, tags ARRAY<STRUCT<name: STRING>>"
)
KEY = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "long"}]}
READING = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "celsius", "type": ["null", "double"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "place",
            "type": {"type": "record", "name": "P", "fields": [{"name": "floor", "type": "int"}]},
        },
    ],
}
SUM = compiled(
    message(
        "Sum",
        field("id", 1, Field.TYPE_STRING),
        field("seconds", 2, Field.TYPE_INT64),
        field("ok", 3, Field.TYPE_BOOL),
    )
)["p.Sum"]
OBJECT = {
    "type": "object",
    "properties": {"at": {"type": "string", "format": "date-time"}, "n": {"type": "integer"}},
}
TOPICS = {
    "nested": hr.Topic("nested", key="account_id BIGINT, shop STRING", value=NESTED, timestamp="user.at.ts"),
    "types": hr.Topic("types", value="a DECIMAL(9,2), b BINARY, c TIMESTAMP_NTZ, d MAP<STRING, INT>, e TINYINT, f FLOAT"),
    "seconds": hr.Topic("seconds", value="s BIGINT, t STRING", timestamp="coalesce(timestamp_seconds(s), to_timestamp(t))"),
    "lines": hr.Topic("lines", key="host STRING", key_format=hr.Text(), value="line STRING", format=hr.Text()),
    "numbers": hr.Topic(
        "numbers", key="id INT", key_format=hr.Number("int32"), value="at BIGINT", format=hr.Number("int64"), timestamp="at"
    ),
    "doubles": hr.Topic(
        "doubles", key="f FLOAT", key_format=hr.Number("float32"), value="d DOUBLE", format=hr.Number("float64")
    ),
    "bytes": hr.Topic("bytes", key="k BINARY", key_format=hr.Bytes(), value="v BINARY", format=hr.Bytes()),
    "csv": hr.Topic("csv", value="id STRING, ok BOOLEAN, at TIMESTAMP", format=hr.Csv(separator=";"), timestamp="at"),
    "wrapped": hr.Topic("wrapped", value="id STRING", format=hr.Json(value_path="data.order", unknown="rest")),
    "items": hr.Topic("items", value="items ARRAY<STRUCT<id: STRING>>", format=hr.Json(lines=True)),
    "avro": hr.Topic("avro", key_format=hr.Avro(KEY), format=hr.Avro(READING), timestamp="at"),
    "messages": hr.Topic("messages", format=hr.Protobuf(SUM), timestamp="seconds * 1000"),
    "framed": hr.Topic("framed", key="id STRING", format=hr.Protobuf(SUM, registered=True)),
    "objects": hr.Topic(
        "objects", key="id BIGINT", format=hr.JsonSchema(schema=OBJECT), timestamp="at", key_format=hr.Number("int64")
    ),
    "rows": hr.Topic(
        "rows", key="id INT", value="id INT, name STRING", format=hr.Debezium(operation="op", changed_at="at"), timestamp="at"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOPICS)
def test_sample_records_of_any_schema_can_be_read_and_are_of_now(name: str) -> None:
    """Before: none for other formats than JSON; nested event times and BINARY made dead letters, TIMESTAMP was in January."""
    topic = TOPICS[name]
    driver = TestDriver([topic.where("true").named("all_records")])
    sent = [*topic_traffic(topic, NOW_MS)]
    for of, key, value, at_ms in sent:
        driver.pipe(of, key=record_key(topic, value, key), value=value, timestamp_ms=at_ms)
    driver.cut()
    with LakeSql(driver._lake, [*driver._nodes.values()]) as sql:
        rows = sql.query(
            f"SELECT kind, reason, timestamp FROM logs.{name} WHERE kind IN ('record', 'dead_letter')"
        ).to_pylist()
    assert [(row["kind"], row["reason"]) for row in rows] == [("record", None)] * len(sent)
    assert all(0 <= NOW_MS - row["timestamp"].timestamp() * 1_000 < 1_001 for row in rows)
    driver.close()


def test_a_topic_without_samples_is_named() -> None:
    unreachable = hr.Avro(READING, registry="http://127.0.0.1:9")
    sent = "CAST(CAST(record_header('sent') AS STRING) AS BIGINT)"
    topics = [hr.Topic("orders", format=unreachable), hr.Topic("dated", value="n INT", timestamp=sent)]
    sentences = without_samples([*TOPICS.values(), *topics])
    assert [each.split(" gets ")[0] for each in sentences] == ["Topic 'orders'", "Topic 'dated'"]


@pytest.mark.slow
def test_the_traffic_of_a_project_follows_its_topics_when_they_are_edited(tmp_path: Path) -> None:
    project = make_project("my_streams", tmp_path)
    payments = project / "my_streams" / "payments.py"
    code = payments.read_text(encoding="utf-8")
    described = 'hr.Topic("payments", key="shop STRING", value="amount DOUBLE, declined BOOLEAN NOT NULL")'
    assert described in code
    other = 'hr.Topic("sales", key="shop STRING", value="amount DOUBLE, declined BOOLEAN, buyer STRUCT<id: STRING>")'
    payments.write_text(code.replace(described, other), encoding="utf-8")
    show = "from my_streams.traffic import records; print(*next(iter(records(1000))))"
    done = subprocess.run(
        [sys.executable, "-c", show], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sales ")  # before: payments, with the columns of the template
    assert "'buyer': {'id': " in done.stdout
