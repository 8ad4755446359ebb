"""A table that Debezium captured is the table, however its topic was cut into micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.laws.kernel.debezium_records import TOPICS, recording, topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.conftest import Drive

pytestmark = pytest.mark.spark


def rows(frame: DataFrame) -> list[list[object]]:
    return sorted([*row.values()] for row in frame.toArrow().to_pylist())


def test_the_table_of_a_captured_topic_equals_its_source(drive: Drive) -> None:
    captured = recording("with_schema")
    nodes = {name: topic(name).table().named(name.rpartition(".")[2]) for name in TOPICS}
    driver = drive(*nodes.values())
    records = [record for record in captured["records"] if record["topic"] in TOPICS]
    for number, record in enumerate(records):
        key, value = record["key"].encode(), record["value"] and record["value"].encode()
        driver.pipe(record["topic"], key=key, value=value, timestamp_ms=5, partition=sum(key) % 2)
        if number in (1, 20):
            driver.cut()
    driver.cut()
    for name, node in nodes.items():
        own = [column.name for column in topic(name).value_columns if column.name not in ("op", "at", "tx")]
        table = node.required_name
        assert rows(driver.read(table).select(*own)) == captured["tables"][table]
        assert rows(driver.backfill(table).select(*own)) == captured["tables"][table]
        assert {row["op"] for row in driver.read(table).select("op").collect()} <= {"r", "c", "u"}
        assert driver.verify(table).equal
        assert not driver.dead_letters(name).collect()
