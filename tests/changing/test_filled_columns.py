"""Which commits have the values of columns that a log has gained since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.engine.state_parquet import open_parquet
from headrace.lake import NewFile
from headrace.lake.care.alter import rewritable
from headrace.lake.care.swap import replace_table
from headrace.lake.paths import Lake
from headrace.lifecycle.log_repair.fill_columns import fill_commits
from headrace.log.history.filled_columns import added_of, added_with, noting
from tests.changing.held import hold_records

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.log.history.filled_columns import Added

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE, place STRING")
COMMIT_MS = 1_700_000_000_000  # of the commit that a lake holds


def noted(tmp_path: Path, through_ms: int) -> tuple[str, Added]:
    """A log that has gained `place` with a value through a commit; and what its table says of that."""
    lake = Lake(f"file:{tmp_path}")
    hold_records(lake, READINGS, {0: range(3)})
    uri = lake.log("readings")
    entry: Added = {"place": {"value": "hall", "through_ms": through_ms}}
    log, record = lakes.open_table(uri), {"writer": "rewrite/log/readings"}
    writer = lakes.TableWriter(log, lakes.MAINTAINER)
    with rewritable(writer, record):
        replace_table(writer, log, record, remarks=noting(entry))
    assert added_of(log) == entry
    return uri, entry


@pytest.mark.fast
def test_a_new_column_leaves_what_is_noted(tmp_path: Path) -> None:
    uri, entry = noted(tmp_path, COMMIT_MS)
    schema = lakes.open_table(uri).schema
    wider = pa.field("value", pa.struct([*schema.field("value").type, pa.field("n", pa.int32())]))
    lakes.create(uri, schema.set(schema.get_field_index("value"), wider), grows="value")
    lakes.forget(uri)
    assert added_of(lakes.open_table(uri)) == entry


@pytest.mark.fast
def test_a_column_that_goes_may_come_again_without_values(tmp_path: Path) -> None:
    uri, entry = noted(tmp_path, COMMIT_MS)
    log = lakes.open_table(uri)
    assert added_with(log, {}, {}, COMMIT_MS, ["value", "place"]) == entry
    assert added_with(log, {"spot": "place"}, {}, COMMIT_MS, ["value", "spot"]) == {"spot": entry["place"]}
    assert added_with(log, {}, {}, COMMIT_MS, ["value"]) == {}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("through_ms", "after_ms", "stray", "place"),
    [
        (COMMIT_MS, COMMIT_MS - 5, True, "hall"),  # the last commit before the log was written again
        (COMMIT_MS - 1, COMMIT_MS - 5, True, None),  # an earlier commit is lost, too, and is in another file
        (COMMIT_MS - 1, COMMIT_MS - 5, False, "hall"),  # the first lost commit came before
        (COMMIT_MS, COMMIT_MS, False, None),
        (COMMIT_MS, COMMIT_MS, True, None),
    ],
)
def test_a_lost_commit_has_the_values_if_it_came_before_the_log_gained_them(
    spark: SparkSession,
    tmp_path: Path,
    through_ms: int,
    after_ms: int,
    stray: bool,
    place: str | None,
) -> None:
    uri, _ = noted(tmp_path, through_ms)
    files = lakes.open_table(uri).snapshot().files.items()
    ((name, held),) = ((name, file) for name, file in files if file.may_have("kind", "record", "record"))
    file = NewFile(name, held.size, "{}")
    (found,) = fill_commits(spark, uri, READINGS, [file], after_ms, stray=stray)
    with open_parquet(f"{uri}/{found.path}", found.size, None) as parquet:
        rows = parquet.read(columns=["kind", "value"]).to_pylist()
    values = [row["value"] for row in rows if row["kind"] == "record"]
    assert [value["place"] for value in values] == [place] * 3
