"""What a log may begin with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import headrace as hr
from tests.description.refusal import refused

pytestmark = pytest.mark.fast


def topic(start: Any, **more: Any) -> hr.Topic:
    given = {"key": "sensor_id STRING", "value": "value DOUBLE, at BIGINT", "timestamp": "at"} | more
    return hr.Topic("readings", start=start, **given)


def test_a_topic_begins_with_a_table_or_with_files() -> None:
    table = hr.from_table("s3://lake/old", as_of=41, then={1: 900, 0: 1200})
    assert str(topic(table).start) == "Delta table s3://lake/old as of 41, then Kafka from {0: 1200, 1: 900}"
    files = hr.from_files("s3://lake/archive", raw=True)
    assert str(topic(files).start) == "Parquet files s3://lake/archive, then Kafka from the offset after it"
    assert topic(table).start_ms is None
    assert topic(table) == topic(hr.from_table("s3://lake/old", as_of=41, then={0: 1200, 1: 900}))
    assert topic(table) != topic(files)


def test_a_version_is_a_number_or_a_time() -> None:
    at = datetime(2026, 1, 31, tzinfo=UTC)
    assert hr.from_table("t", as_of=at, then="latest").as_of == "2026-01-31T00:00:00.000Z"
    for wrong in ("latest", -1, True, "2026-01-31"):
        with refused("'t'", "as_of" if wrong != "2026-01-31" else "time zone"):
            hr.from_table("t", as_of=wrong, then="latest")


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({}, ("give either the columns",)),
        ({"position": ("p", "o"), "then": "latest"}, ("give either the columns",)),
        ({"raw": True, "then": "latest"}, ("give either the columns",)),
        ({"raw": True, "timestamp": "at"}, ("raw=True",)),
        ({"position": ("p",)}, ("no pair of columns",)),
        ({"then": {0: -1}}, ("partitions and offsets",)),
        ({"then": {}}, ("partitions and offsets",)),
        ({"then": "soon"}, ("is not a start",)),
    ],
)
def test_a_seed_that_states_no_place_in_kafka_is_refused(
    given: dict[str, Any], parts: tuple[str, ...]
) -> None:
    with refused("'old'", *parts):
        hr.from_table("old", **given)


def test_a_topic_refuses_a_seed_whose_rows_cannot_be_its_records() -> None:
    rows = hr.from_table("old", then="latest")
    with refused("Topic 'readings': start", "no event time", "timestamp="):
        topic(rows, timestamp=None)
    with refused("Topic 'readings': start", "replay guard", "position="):
        topic(rows, replay_guard=hr.ReplayGuard())
    with refused("Topic 'readings': start", "JSON", "raw=True"):
        topic(rows, format=hr.JsonSchema())
    topic(hr.from_table("old", raw=True), replay_guard=hr.ReplayGuard(), timestamp=None)
