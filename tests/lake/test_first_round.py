"""A lake that the first round wrote, with delta-spark's transactions: its log is kept, its nodes are rebuilt."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import Backfill
from headrace.lifecycle.rebuild import rebuild_due
from headrace.log.clock import SystemClock
from headrace.log.sequencer import Sequencer
from headrace.nodes.evolution import OtherDescriptionError
from headrace.observe.views import Views
from headrace.spark.session import pipeline_session
from headrace.writing.lease import take_lease
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIXTURE = Path(__file__).parents[1] / "fixtures" / "first_round_lake.tar.gz"
READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
BY_SENSOR = READINGS.group_by("sensor_id")
COUNTS = (
    BY_SENSOR.window(hr.tumbling("2 minutes"), grace="0 seconds")
    .aggregate(n=hr.count(), total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("counts")
)
TOTALS = BY_SENSOR.aggregate(n=hr.count(), total=hr.sum("value")).named("totals")
ODD = hr.Topic("odd", key="sensor_id STRING", value="`the value` DOUBLE", idle_timeout=None)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Twelve readings in three log commits, folded by both nodes; and a log whose columns are mapped."""
    with tarfile.open(FIXTURE) as packed:
        packed.extractall(tmp_path / "lake", filter="data")
    return Lake(f"file:{tmp_path}/lake")


def test_its_log_goes_on_and_its_nodes_are_rebuilt_from_it(spark: SparkSession, lake: Lake) -> None:
    session = pipeline_session(spark, interpreted=True)
    for node, before, records in ((COUNTS, 10, 12), (TOTALS, 2, 13)):  # the log goes on in between
        version = lakes.open_table(lake.state(node.required_name)).version
        with pytest.raises(OtherDescriptionError, match="an older version of Headrace"):
            Line(session, lake, node)
        assert lakes.open_table(lake.state(node.required_name)).version == version
        rebuild = rebuild_due(session, node, lake, SystemClock())
        assert rebuild is not None
        assert rebuild.records_before is None, "tables of another layout do not tell it"
        while rebuild.advance():
            pass
        assert rebuild.records == records
        lease = take_lease(session, lake.lease(f"node/{node.required_name}"), "A node", SystemClock())
        rebuild.swap(lease)
        lease.release()
        rebuild.close()
        assert Views(session, lake).read(node).count() == before
        line = Line(session, lake, node)
        assert line.runner.progress.batch >= 1
        line.pipe("2024-05-01 12:30:00")
        line.commit()
        line.fold()
        assert all(verdict.equal for verdict in Backfill(session, lake, node).run())
    rows = {row["sensor_id"]: row["n"] for row in Views(session, lake).read(TOTALS).collect()}
    assert rows == {"s0": 6, "s1": 8}


def test_a_table_whose_columns_are_mapped_is_refused_before_any_write(
    spark: SparkSession, lake: Lake
) -> None:
    session, path = pipeline_session(spark, interpreted=True), lake.log("odd")
    version = lakes.open_table(path).with_handle(lambda handle: handle.version())
    with pytest.raises(TerminalError, match="uses columnMapping, which Headrace does not write"):
        Sequencer(session, ODD, path, SystemClock())
    assert lakes.open_table(path).with_handle(lambda handle: handle.version()) == version
