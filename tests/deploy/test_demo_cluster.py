"""What `make demo-cluster` starts beside the demo is as the settings check wants it: S3, a cluster, Dagster's PostgreSQL."""

from __future__ import annotations

import io
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from dagster import DagsterInstance
from rich.console import Console

from headrace.lake import clocks, storage
from headrace.local.demos.demo_cluster import beyond_one_machine
from headrace.local.postgres import Postgres
from headrace.preflight.databases import check_databases
from headrace.preflight.lake import check_lake
from headrace.preflight.spark import check_spark
from headrace.settings import SparkSettings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.dagster, pytest.mark.s3]


def test_the_demos_cluster_is_there_and_dagster_keeps_its_runs_in_postgresql(tmp_path: Path) -> None:
    clients = (storage._store, clocks._measured)  # made once in a process, with the variables of that moment
    (tmp_path / "dagster").mkdir()
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ))
        for made in clients:
            made.cache_clear()
            stack.callback(made.cache_clear)
        server = stack.enter_context(Postgres(tmp_path / "postgres"))
        console = Console(file=io.StringIO())
        given = beyond_one_machine(console, stack, tmp_path, server.dsn)
        findings = [*check_lake(given["HEADRACE_LAKE"]), *check_spark(SparkSettings()), *check_databases([])]
        assert [str(finding) for finding in findings if not finding.ok] == []
        assert SparkSettings().master.startswith("spark://")
        with DagsterInstance.from_config(str(tmp_path / "dagster")) as instance:
            assert instance.get_runs_count() == 0
            assert "Postgres" in type(instance.run_storage).__name__
