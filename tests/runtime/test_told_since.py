"""A node with `since` tells others the rows from that day on, whenever its log is begun. No Spark."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.lake import NewFile, kinds
from headrace.lake.paths import Lake
from headrace.operators.registry import operator_for
from headrace.writing.node_logs.node_log import NodeLog

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
COUNTS = (
    READINGS.group_by("sensor_id")
    .window(hr.tumbling("1 hour"), grace="0 seconds")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
)
MOMENT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("sensor_id", pa.string()),
        ("window_start", MOMENT),
        ("window_end", MOMENT),
        ("n", pa.int64()),
        ("__sequence", pa.int64()),
        ("__timestamp", pa.int64()),
    ]
)


@pytest.mark.parametrize(("since", "told"), [(None, ["old", "new"]), ("2026-01-02", ["new"])])
def test_rows_from_before_the_day_are_not_told(tmp_path: Path, since: str | None, told: list[str]) -> None:
    """They are in the table, at the log commits that closed them."""
    lake, node = Lake(f"file:{tmp_path}"), COUNTS.named("counts", since=since)
    table = lakes.create(lake.table("counts"), SCHEMA, kinds.RESULTS)
    days = {"old": dt.datetime(2026, 1, 1, 23, tzinfo=dt.UTC), "new": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)}
    rows = [
        {"sensor_id": name, "window_start": at, "window_end": at, "n": 1, "__sequence": 5, "__timestamp": 0}
        for name, at in days.items()
    ]
    path = tmp_path / "tables" / "counts" / "part-0.parquet"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    file = NewFile(path.name, path.stat().st_size, json.dumps({"numRecords": len(rows)}))
    lakes.TableWriter(table, lakes.APPENDER).append([file], {"writer": "node/counts"})
    log: Any = NodeLog.__new__(NodeLog)
    log._lake, log._node, log._operator = lake, node, operator_for(node)
    assert log._rows(0, 9)["sensor_id"].to_pylist() == told
