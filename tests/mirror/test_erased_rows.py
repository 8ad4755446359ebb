"""Erased rows leave the mirror: with the next round the newest snapshot, and, as snapshots expire, every file."""

from __future__ import annotations

import time

import pyarrow.parquet as pq
import pytest

from tests.conftest import Drive
from tests.mirror.conftest import by_delta, by_duckdb, by_pyiceberg, counts, kept, mirror_of, pipe, totals

pytestmark = pytest.mark.spark
HOURS = 24.0


def test_erased_rows_leave_the_files_that_the_mirror_names(drive: Drive) -> None:
    driver = drive(kept, counts, totals)
    for first in range(0, 60, 15):
        pipe(driver, first, first + 15)
    mirrors = {node: mirror_of(driver, node) for node in ("kept", "counts", "totals")}
    for node, mirror in mirrors.items():
        mirror.follow(HOURS)
        assert any("'s1'" in row for row in by_pyiceberg(mirror)), node
    driver.erase("readings", "s1")
    for node, mirror in mirrors.items():
        mirror.follow(HOURS)
        rows = by_pyiceberg(mirror)
        assert rows == by_delta(driver, node) == by_duckdb(mirror, driver.lake.root)
        assert not any("'s1'" in row for row in rows)
        time.sleep(0.01)
        mirror.follow(1e-6)
        folder = driver.lake.table(node).removeprefix("file:")
        named = [pq.read_table(f"{folder}/{name}", columns=["sensor_id"]) for name in mirror.names()]
        assert named
        assert not any("s1" in table["sensor_id"].to_pylist() for table in named)
