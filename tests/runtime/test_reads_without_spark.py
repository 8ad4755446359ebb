"""SQL and keyed reads refuse tables of another description, and each query sees the lake as of itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake import NewFile, kinds
from headrace.lake.paths import Lake
from headrace.nodes.descriptions.evolution import OtherDescriptionError
from headrace.nodes.node_tables import write_description
from headrace.observe.keyed_reads import KeyedReads
from headrace.observe.sql import LakeSql
from tests.changing.held import hold

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

READINGS = hr.Topic("Readings.v1", key="sensor_id STRING", value="value DOUBLE")
BEFORE: Any = READINGS.group_by("sensor_id").aggregate(n=hr.count()).named("totals")
AFTER: Any = READINGS.group_by("sensor_id").aggregate(n=hr.count(), top=hr.max("value")).named("totals")


@pytest.mark.parametrize("half_swapped", [False, True])
def test_tables_of_another_description_are_refused_and_those_that_a_swap_was_broken_off_on(
    tmp_path: Path, half_swapped: bool
) -> None:
    """The results may be the new ones, and the state the old one: no row of both together is right."""
    lake, asked = Lake(f"file:{tmp_path}"), BEFORE if half_swapped else AFTER
    hold(lake, BEFORE)
    if half_swapped:
        write_description(lake, AFTER)
    with pytest.raises(OtherDescriptionError):
        KeyedReads(lake).get(asked, "a")
    with LakeSql(lake, [asked]) as sql, pytest.raises(OtherDescriptionError):
        sql.query("SELECT * FROM totals")


@pytest.mark.parametrize("spelling", ['logs."readings.v1"', 'LOGS."Readings.v1"'])
def test_a_query_sees_the_lake_as_of_itself_however_it_spells_a_name(tmp_path: Path, spelling: str) -> None:
    lake = Lake(f"file:{tmp_path}")
    uri, rows = lake.log(READINGS.name), pa.table({"n": [1, 2]})
    log = lakes.create(uri, rows.schema, kinds.log(()))
    writer = lakes.TableWriter(log, lakes.APPENDER)
    with LakeSql(lake, [BEFORE]) as sql:
        for number, query in enumerate(('logs."Readings.v1"', spelling), 1):
            path = f"part-{number}.parquet"
            pq.write_table(rows, f"{uri.removeprefix('file:')}/{path}")
            told = json.dumps({"numRecords": rows.num_rows})
            writer.append([NewFile(path, 100, told)], {"writer": f"log/{READINGS.name}"})
            found = sql.query(f"SELECT count(*) AS n FROM {query}").to_pylist()
            assert found == [{"n": number * rows.num_rows}]
        with pytest.raises(TerminalError, match="DuckDB refuses the query"):
            sql.query("SELECT * FROM totals_of_nobody")
