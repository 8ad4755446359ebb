"""A table on a real S3 server: delta-rs commits, Spark and DuckDB read, tasks write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import duckdb_extension_delta
import duckdb_extension_httpfs
import pyarrow as pa
import pytest

from headrace.lake import small_files
from headrace.lake.storage import delta_uri, spark_uri, storage_options

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.s3
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "ü"]})
FOUND = [(1, "a"), (2, "b"), (3, "ü")]


@pytest.fixture
def table(s3_root: str) -> str:
    """A table with one file, which lay there before a commit named it."""
    return committed(f"{s3_root}/ta ble")


def committed(uri: str) -> str:
    import pyarrow.parquet as pq
    from deltalake import CommitProperties, DeltaTable, Schema
    from deltalake.transaction import AddAction

    given = DeltaTable.create(
        delta_uri(uri), Schema.from_arrow(ROWS.schema), storage_options=storage_options(uri)
    )
    written = pa.BufferOutputStream()
    pq.write_table(ROWS, written)
    content = written.getvalue().to_pybytes()
    assert small_files.write_bytes(f"{uri}/part.parquet", content, overwrite=False)
    added = AddAction("part.parquet", len(content), {}, 0, True, '{"numRecords": 3}')
    properties = CommitProperties(custom_metadata={"userMetadata": "ours"}, max_commit_retries=0)
    given.create_write_transaction([added], "append", given.schema(), commit_properties=properties)
    return uri


@pytest.mark.spark
def test_spark_reads_what_delta_rs_commits(spark: SparkSession, table: str) -> None:
    for uri in (table, spark_uri(table)):
        assert sorted(map(tuple, spark.read.format("delta").load(uri).collect())) == FOUND
    history = spark.sql(f"DESCRIBE HISTORY delta.`{spark_uri(table)}`").collect()
    assert [row.userMetadata for row in history] == ["ours", None]


@pytest.mark.spark
def test_spark_reads_and_writes_files(spark: SparkSession, s3_root: str) -> None:
    folder = f"{spark_uri(s3_root)}/plain"
    spark.range(1000).write.parquet(folder)
    spark.range(10).write.mode("append").parquet(folder)
    assert spark.read.parquet(folder).count() == 1010


@pytest.mark.spark
def test_a_task_opens_tables_and_writes_small_files_without_a_secret_in_its_plan(
    spark: SparkSession, table: str
) -> None:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from deltalake import DeltaTable

        for batch in batches:
            small_files.write_json(f"{table}/_written.json", {"rows": batch.num_rows}, overwrite=False)
            version = DeltaTable(delta_uri(table), storage_options=storage_options(table)).version()
            yield pa.RecordBatch.from_pydict({"version": [version]})

    result = spark.range(3).coalesce(1).mapInArrow(task, "version LONG")
    assert [row.version for row in result.collect()] == [1]
    assert small_files.read_json(f"{table}/_written.json") == {"rows": 3}
    plan = result._jdf.queryExecution().toString()
    settings = str(spark.sparkContext.getConf().getAll()) + str(spark.sql("SET").collect())
    assert "endpoint" in settings
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert os.environ[name] not in plan + settings


def test_duckdb_reads_what_delta_rs_commits(table: str) -> None:
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as reader:
        for package in (duckdb_extension_httpfs, duckdb_extension_delta):
            reader.load_extension(extension(package))
        reader.execute(
            "CREATE SECRET (TYPE s3, KEY_ID $key, SECRET $secret, REGION $region, ENDPOINT $endpoint,"
            " URL_STYLE path, USE_SSL false)".replace("$key", quoted("AWS_ACCESS_KEY_ID"))
            .replace("$secret", quoted("AWS_SECRET_ACCESS_KEY"))
            .replace("$region", quoted("AWS_REGION"))
            .replace("$endpoint", quoted("AWS_ENDPOINT_URL").replace("http://", ""))
        )
        assert reader.execute(f"SELECT * FROM delta_scan('{table}') ORDER BY id").fetchall() == FOUND


def quoted(variable: str) -> str:
    return f"'{os.environ[variable]}'"


def extension(package: ModuleType) -> str:
    """The file of a DuckDB extension that a package brings."""
    assert package.__file__
    (found,) = Path(package.__file__).parent.glob("extensions/*/*.duckdb_extension")
    return str(found)
