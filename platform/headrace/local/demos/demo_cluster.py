"""A deployment in small, beside the demo: a Spark cluster, a lake on S3, Dagster's records in PostgreSQL."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import psycopg

from headrace.local.object_store import ObjectStore
from headrace.local.spark_cluster import SparkCluster
from headrace.preflight.databases import DAGSTER
from headrace.spark.jars import project_root

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from rich.console import Console

DATABASE = "dagster"
# Of a run: the stream has half of the cluster, and a backfill or a check the other half.
OF_A_RUN = {
    "HEADRACE_SPARK_CORES_MAX": "2",
    "HEADRACE_SPARK_EXECUTOR_CORES": "1",
    "HEADRACE_SPARK_EXECUTOR_MEMORY": "700m",
    "HEADRACE_SPARK_DRIVER_MEMORY": "1g",
}


def beyond_one_machine(console: Console, stack: ExitStack, home: Path, dsn: str) -> dict[str, str]:
    """Start the servers; they stop with the stack.

    In:  dsn  of the PostgreSQL server that runs already
    Out: the variables by which runs reach them; set in this process, too
    """
    console.print("starting an S3 server, and a Spark master with two workers")
    store = stack.enter_context(ObjectStore(home / "s3"))
    cluster = stack.enter_context(SparkCluster(home / "spark", workers=2, cores=2, memory="1500m"))
    console.print(f"Spark's master shows its workers at {cluster.ui}", soft_wrap=True)
    shutil.copyfile(project_root() / "deploy" / "dagster.yaml", home / "dagster" / "dagster.yaml")
    ours = {
        **store.environment,
        **cluster.environment,
        **OF_A_RUN,
        "HEADRACE_LAKE": f"{store.root}/demo",
        DAGSTER: _database(dsn),
    }
    os.environ.update(ours)
    return ours


def _database(dsn: str) -> str:
    """Dagster's own database on the server of the demo's sinks, made the first time."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if there is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")
    address, _, _ = dsn.rpartition("/")
    return f"{address}/{DATABASE}"
