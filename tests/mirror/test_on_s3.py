"""The mirror of a lake on a real S3 server: in a database, and in a catalog that speaks Iceberg's REST protocol."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.lake.paths import Lake
from headrace.lake.storage import delta_uri, hadoop_settings, storage_options
from headrace.local.object_store import KEY, SECRET
from headrace.mirror.equality import iceberg_equals_delta
from headrace.mirror.mirrored_table import MirroredTable
from headrace.mirror.mirrors import Mirrors
from headrace.spark.jars import iceberg_jar, spark_jars
from tests.mirror.conftest import by_duckdb, by_pyiceberg, rows_of
from tests.watched_store import WatchedStore

pytestmark = pytest.mark.s3
READ = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
print(json.dumps(sorted(spark.table(sys.argv[2]).toJSON().collect())))
"""


def rows(first: int, last: int) -> pa.Table:
    numbers = range(first, last)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int32()),
            "at": pa.array([number * 1_000_000 for number in numbers], pa.timestamp("us", "UTC")),
            "price": pa.array([f"{number}.25" for number in numbers]).cast(pa.decimal128(10, 2)),
            "tags": [["a", None]] * len(numbers),
            "place": [{"hall": None if number % 2 else "h"} for number in numbers],
            "__sequence": pa.array(numbers, pa.int64()),
        }
    )


def changed(root: str) -> tuple[str, dict[str, str]]:
    """A Delta table to which rows came, of which files were packed, and from which rows went."""
    uri, options = f"{root}/tables/kept", storage_options(root)
    for first in (0, 10, 20):
        write_deltalake(delta_uri(uri), rows(first, first + 10), mode="append", storage_options=options)
    return uri, options


def follow_through_changes(root: str, *, by_python: bool = True) -> tuple[MirroredTable, pa.Table]:
    uri, options = changed(root)
    mirror = Mirrors(Lake(root)).of_node("kept")
    assert mirror is not None
    assert mirror.follow(24).added == 3
    delta = DeltaTable(delta_uri(uri), storage_options=options)
    delta.optimize.compact()
    delta.delete("k < 7")
    assert mirror.follow(24).removed == 3
    stored = DeltaTable(delta_uri(uri), storage_options=options).to_pyarrow_table()
    visible = stored.select([name for name in stored.column_names if not name.startswith("__")])
    assert visible.num_rows == 23
    assert by_duckdb(mirror, root) == rows_of(visible)
    assert not by_python or by_pyiceberg(mirror) == rows_of(visible)
    assert iceberg_equals_delta(mirror).equal
    return mirror, visible


@pytest.mark.long
def test_in_a_database_the_mirror_follows(s3_root: str) -> None:
    mirror, _ = follow_through_changes(s3_root)
    assert mirror.mirrored()[0].metadata_location.startswith(f"{s3_root}/iceberg/headrace/kept/")  # type: ignore[index]
    assert mirror.remove_unused() == 0


@pytest.mark.slow
def test_in_a_rest_catalog_the_mirror_follows_and_spark_reads_it(
    s3_root: str, object_store: WatchedStore, monkeypatch: pytest.MonkeyPatch, namespace: str
) -> None:
    warehouse, known = f"w{secrets.token_hex(4)}", object_store.environment
    object_store.create_warehouse(warehouse)
    monkeypatch.setenv("HEADRACE_ICEBERG_URI", object_store.catalog)
    monkeypatch.setenv("HEADRACE_ICEBERG_CREDENTIAL", f"{known[KEY]}:{known[SECRET]}")
    monkeypatch.setenv("HEADRACE_ICEBERG_OAUTH2_URI", f"{object_store.catalog}/v1/oauth/tokens")
    monkeypatch.setenv("HEADRACE_ICEBERG_WAREHOUSE", warehouse)
    # This catalog writes a mapping of names of its own, and pyiceberg reads no file with a column beyond it.
    _, stored = follow_through_changes(s3_root, by_python=False)
    assert by_spark(object_store, warehouse, f"rest.{namespace}.kept") == as_spark_shows(stored)


def by_spark(store: WatchedStore, warehouse: str, table: str) -> list[Any]:
    catalog = "spark.sql.catalog.rest"
    conf = (
        hadoop_settings(store.root)
        | hadoop_settings(f"s3://{warehouse}")
        | {
            "spark.jars": ",".join([*spark_jars(), iceberg_jar()]),
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "rest",
            f"{catalog}.uri": store.catalog,
            f"{catalog}.credential": ":".join(store.environment[name] for name in (KEY, SECRET)),
            f"{catalog}.oauth2-server-uri": f"{store.catalog}/v1/oauth/tokens",
            f"{catalog}.warehouse": warehouse,
            f"{catalog}.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        }
    )
    command = [sys.executable, "-c", READ, json.dumps(conf), table]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(row) for row in json.loads(done.stdout)]


def as_spark_shows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows in the order and the form in which Spark writes them as JSON."""
    shown = []
    for row in table.to_pylist():
        place = {name: value for name, value in row["place"].items() if value is not None}
        at = row["at"].strftime("%Y-%m-%dT%H:%M:%S.000Z")
        shown.append({**row, "at": at, "price": float(row["price"]), "place": place})
    return sorted(shown, key=lambda row: json.dumps(row, separators=(",", ":")))
