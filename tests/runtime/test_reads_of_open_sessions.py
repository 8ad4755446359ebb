"""Keyed reads of sessions, rows that left at a time limit, streams of windows, and keys that are bytes; without Spark."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.cli.console.telling import json_line
from headrace.fold.contract import KEY
from headrace.fold.hashing import xxh64
from headrace.observe.keyed_reads import KeyedReads
from headrace.observe.rows_by_hash import HashesOfFile
from headrace.testing import TestDriver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.description import Node

pytestmark = pytest.mark.fast

READINGS = hr.Topic(
    "readings", key="sensor BINARY", key_format=hr.Bytes(), value="n INT NOT NULL", idle_timeout=None
)
SENSORS = b"\x00\xff", b"", None  # each in partitions 0 and 1
COUNTS: dict[str, Any] = {"count": hr.count()}
SESSIONS = (
    READINGS.group_by("sensor").window(hr.session("20 seconds"), grace="10 seconds").aggregate(**COUNTS)
)
MINUTES = READINGS.group_by("sensor").window(hr.tumbling("1 minute"), grace="10 seconds").aggregate(**COUNTS)
FINAL = hr.until_window_closes()
NODES: dict[str, Node] = {
    node.required_name: node
    for node in (
        SESSIONS.named("sessions"),
        SESSIONS.suppress(FINAL).named("final_sessions"),
        MINUTES.suppress(FINAL).named("minutes"),
        MINUTES.suppress(hr.until_time_limit("30 seconds")).named("limited"),
        MINUTES.suppress(FINAL).where("`count` > 1").named("busy"),
        MINUTES.changes().named("changes"),
    )
}


@pytest.fixture(scope="module")
def driver() -> Iterator[TestDriver]:
    driver = TestDriver([*NODES.values()])
    for number, second in enumerate((5, 6, 50, 61, 65, 130, 140)):
        for sensor in SENSORS:
            for partition in (0, 1):
                key: Any = sensor
                driver.pipe(
                    "readings", key=key, value={"n": number}, timestamp_ms=second * 1000, partition=partition
                )
        driver.cut()
    yield driver
    driver.close()


def spans(rows: list[dict[str, Any]]) -> list[tuple[float, float, int, bool]]:
    return [
        (row["window_start"].timestamp(), row["window_end"].timestamp(), row["count"], row["__final"])
        for row in rows
    ]


@pytest.mark.parametrize("node", ["sessions", "final_sessions"])
@pytest.mark.parametrize("sensor", SENSORS)
def test_the_open_session_of_a_key_is_read_in_each_partition(
    driver: TestDriver, node: str, sensor: bytes
) -> None:
    """The state keeps sessions by group and partition."""
    rows = spans(KeyedReads(driver.lake).fetch(NODES[node], sensor))
    assert rows == sorted([(5, 6, 2, True), (50, 65, 3, True), (130, 140, 2, False)] * 2)


@pytest.mark.parametrize("node", ["limited", "busy", "changes"])
def test_rows_of_a_node_without_open_windows_are_those_of_its_table(driver: TestDriver, node: str) -> None:
    reads = KeyedReads(driver.lake)
    rows = [row for sensor in SENSORS for row in reads.fetch(NODES[node], sensor)]
    assert rows
    assert sorted(map(repr, rows)) == sorted(map(repr, driver.rows(node)))
    with pytest.raises(hr.DescriptionError, match="several may have one key"):
        reads.get(NODES[node], (b"", "1970-01-01T00:00:00Z"))


def test_bytes_are_base64_as_a_text_and_in_json(driver: TestDriver) -> None:
    row = KeyedReads(driver.lake).get(NODES["minutes"], ("AP8=", "1970-01-01T00:00:00"))
    assert row is not None
    assert (row["sensor"], row["count"]) == (b"\x00\xff", 6)
    assert '"sensor": "AP8="' in json_line(row)
    with pytest.raises(hr.DescriptionError, match="as Base64"):
        KeyedReads(driver.lake).get(NODES["minutes"], ("s17", "1970-01-01T00:00:00Z"))


@pytest.mark.parametrize("start", [None, dt.datetime.max, "9999-12-31T23:59:59.999999Z"])
def test_a_start_that_no_window_has_gives_nothing(driver: TestDriver, start: object) -> None:
    assert KeyedReads(driver.lake).get(NODES["minutes"], (b"", start)) is None


@pytest.mark.parametrize("time", [5, "yesterday", dt.date(1970, 1, 1)])
def test_a_bound_that_is_no_time_is_refused(driver: TestDriver, time: Any) -> None:
    with pytest.raises(hr.DescriptionError, match="is no time"):
        KeyedReads(driver.lake).fetch(NODES["minutes"], b"", time)


def test_rows_of_a_file_with_views_of_texts_and_bytes_are_read_by_their_hash(tmp_path: Path) -> None:
    """Merges of delta-rs write such files, and Arrow takes no rows of views by their place."""
    keys = [b"a", b"b", b"a", b"a", b""]
    rows = pa.table(
        {KEY: pa.array(keys, pa.binary_view()), "name": pa.array(["1", None, "3", "4", ""], pa.string_view())}
    )
    path = tmp_path / "part.parquet"
    pq.write_table(rows, path, row_group_size=3)
    uri, size = f"file:{path}", path.stat().st_size
    hashes = HashesOfFile.read(uri, size, None)
    for key, names in ((b"a", ["1", "3", "4"]), (b"b", [None]), (b"", [""])):
        part = hashes.rows(uri, size, int(xxh64(pa.array([key]))[0]))
        assert part is not None
        assert part["name"].to_pylist() == names
