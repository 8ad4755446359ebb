"""Nodes whose tables are mirrored, catalogs, and the clients that read mirrors."""

from __future__ import annotations

import secrets
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pytest

import headrace as hr
from headrace.lake.paths import Lake
from headrace.lake.storage import is_local
from headrace.mirror.mirrored_table import MirroredTable
from headrace.mirror.mirrors import Mirrors
from headrace.observe.duckdb_readers import _extension, load_readers
from headrace.testing import TestDriver

readings = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE, place STRUCT<hall: STRING>")
counts = (
    readings.group_by("sensor_id")
    .window(hr.tumbling("1 minute"), grace="0 seconds")
    .aggregate(n=hr.count(), total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("counts")
)
totals = readings.group_by("sensor_id").aggregate(n=hr.count(), total=hr.sum("value")).named("totals")
kept = readings.with_column("twice", "value * 2").named("kept")


@pytest.fixture(autouse=True)
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A catalog in a file; the environment names it."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    monkeypatch.setenv("HEADRACE_ICEBERG_URI", uri)
    return uri


def pipe(driver: TestDriver, first: int, last: int) -> None:
    """Pipe some records, one each ten seconds."""
    for number in range(first, last):
        value = {"value": number / 4, "place": {"hall": f"h{number % 2}"}}
        driver.pipe(
            "readings", key=f"s{number % 3}", value=value, timestamp_ms=1_700_000_000_000 + number * 10_000
        )
    driver.cut()


def mirror_of(driver: TestDriver, node: str = "kept") -> MirroredTable:
    """A mirror as a process has it that has read nothing yet."""
    found = Mirrors(Lake(driver.lake.root)).of(node)
    assert found is not None
    return found


def rows_of(table: Any) -> Counter[str]:
    """The rows of an Arrow table."""
    return Counter(map(repr, table.select(sorted(table.column_names)).to_pylist()))


def by_pyiceberg(mirror: MirroredTable) -> Counter[str]:
    """The rows of a mirror as pyiceberg reads them."""
    found = mirror.mirrored()
    assert found is not None
    return rows_of(found[0].scan().to_arrow())


@cache
def _local_readers() -> duckdb.DuckDBPyConnection:
    return _connected("file:")


def readers(root: str) -> duckdb.DuckDBPyConnection:
    """DuckDB with its readers: one for all local lakes, since it takes a tenth of a second to load each reader."""
    return _local_readers() if is_local(root) else _connected(root)


def _connected(root: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    load_readers(connection, root)
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        connection.load_extension(_extension(package))
    return connection


def by_duckdb(mirror: MirroredTable, root: str) -> Counter[str]:
    """The rows of a mirror as DuckDB reads them, from the file of metadata that the catalog names."""
    found = mirror.mirrored()
    assert found is not None
    with readers(root).cursor() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        query = f"SELECT * FROM iceberg_scan('{found[0].metadata_location}')"
        return rows_of(connection.execute(query).to_arrow_table())


def by_delta(driver: TestDriver, node: str) -> Counter[str]:
    """The rows of a node's table, by DuckDB's reader of Delta, without Headrace's own columns."""
    with readers(driver.lake.root).cursor() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        path = driver.lake.table(node).removeprefix("file:")
        found = connection.execute(f"SELECT * FROM delta_scan('{path}')").to_arrow_table()
    return rows_of(found.select([name for name in found.column_names if not name.startswith("__")]))


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch) -> str:
    """A namespace of this test alone, for a catalog that several use."""
    name = f"n{secrets.token_hex(4)}"
    monkeypatch.setenv("HEADRACE_ICEBERG_NAMESPACE", name)
    return name
