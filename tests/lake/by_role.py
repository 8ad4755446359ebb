"""Writes to a lake on S3 and reads it with each of its clients, in a process that has no keys, as a machine with a role.

    python tests/lake/by_role.py ROOT

It prints a line for each client that has come through.
"""

from __future__ import annotations

import io
import json
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from headrace import lake as lakes
from headrace.lake import NewFile, kinds, small_files
from headrace.lake.paths import Lake
from headrace.lake.storage import spark_uri
from headrace.observe.sql import LakeSql
from headrace.spark.jars import spark_jars
from headrace.spark.session import build_session, spark_conf

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
TOTALS = READINGS.group_by("sensor_id").aggregate(n=hr.count()).named("totals")
ROWS = pa.table({"n": [1, 2, 3]})


def main(root: str) -> None:
    """Write by obstore and delta-rs; read by DuckDB and by Spark."""
    assert "AWS_ACCESS_KEY_ID" not in os.environ
    lake = Lake(root)
    assert small_files.write_json(f"{root}/checks/first.json", {}, overwrite=False)
    assert not small_files.write_json(f"{root}/checks/first.json", {}, overwrite=False)
    print("obstore", flush=True)
    uri, content = lake.log(READINGS.name), io.BytesIO()
    pq.write_table(ROWS, content)
    small_files.write_bytes(f"{uri}/part-1.parquet", content.getvalue())
    writer = lakes.TableWriter(lakes.create(uri, ROWS.schema, kinds.log(())), lakes.APPENDER)
    told = json.dumps({"numRecords": ROWS.num_rows})
    writer.append([NewFile("part-1.parquet", len(content.getvalue()), told)], {"writer": "log/readings"})
    print("delta-rs", flush=True)
    with LakeSql(lake, [TOTALS]) as sql:
        assert sql.query("SELECT sum(n) AS n FROM logs.readings").to_pylist() == [{"n": 6}]
    print("duckdb", flush=True)
    spark = build_session(spark_conf(spark_jars(), lake=root), "by-role")
    assert spark.read.format("delta").load(spark_uri(uri)).count() == ROWS.num_rows
    print("spark", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
