"""Other hands on each kind of table, as the guide tells it: what changes no row is passed, the rest is refused and mended."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lake.commits.undo import FilesGoneError
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import Backfill
from headrace.lifecycle.log_repair.repair import Repair
from headrace.observe.local_views import LocalViews
from headrace.observe.views import Views
from headrace.spark.kafka import KafkaSettings
from tests.lake.other_hands import bring_back, pack
from tests.rows import require_backfilled
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
BY_SENSOR = READINGS.group_by("sensor_id")
COUNTS = (
    BY_SENSOR.window(hr.tumbling("2 minutes"), grace="0 seconds")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("counts")
)
TOTALS = BY_SENSOR.aggregate(n=hr.count()).named("totals")
KINDS = ("log", "appended results", "current results", "state")


@dataclass
class Place:
    """A lake of a log and two nodes, and the table of it that somebody else touches."""

    spark: SparkSession
    lake: Lake
    kind: str
    counts: Line
    totals: Line

    @property
    def path(self) -> str:
        of = {"log": self.lake.log("readings"), "state": self.lake.state("counts")}
        of |= {"state of current results": self.lake.state("totals")}
        results = {
            "appended results": self.lake.table("counts"),
            "current results": self.lake.table("totals"),
        }
        return (of | results)[self.kind]

    def sql(self, text: str) -> None:
        """A statement of theirs; `{table}` is the table."""
        self.spark.sql(text.format(table=f"delta.`{self.path}`"))

    def sql_of_a_stranger(self, text: str) -> None:
        """The same by Spark as it is without settings: it writes times in another way."""
        stranger = self.spark.newSession()
        stranger.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
        stranger.sql(text.format(table=f"delta.`{self.path}`"))

    def restore(self, version: int, *, by_spark: bool = True) -> None:
        """They put an older version in the place of today's: in a log by Spark, else by delta-rs, which is quicker."""
        if self.kind == "log" and by_spark:
            self.sql(f"RESTORE {{table}} TO VERSION AS OF {version}")
        else:
            bring_back(self.path, version)

    def double(self) -> None:
        """They append the rows that are there."""
        self.spark.read.format("delta").load(self.path).write.format("delta").mode("append").save(self.path)

    def goes_on(self, minute: int) -> None:
        """Another record passes the log, both nodes, and the fold of current results."""
        self.counts.pipe(f"2024-05-01 12:{minute:02}:00")
        self.counts.commit()
        for line in (self.counts, self.totals):
            line.fold()
            line.runner.maintain()

    def older(self) -> int:
        """The version before the newest change of rows."""
        table = lakes.open_table(self.path)
        versions = range(table.version, 0, -1)
        commits = ((version, table.commit_at(version)) for version in versions)
        return next(version for version, c in commits if c is not None and c.added and c.changes_data) - 1

    def repaired(self) -> list[str]:
        """What `headrace repair readings` says."""
        lakes.forget()
        kafka = KafkaSettings(bootstrap_servers="localhost:1")
        return [str(e) for e in Repair(self.spark, self.lake, [COUNTS, TOTALS], READINGS, kafka).run()]

    def opened_anew(self) -> None:
        """Another process takes over."""
        lakes.forget()
        self.counts, self.totals = (Line(self.spark, self.lake, node) for node in (COUNTS, TOTALS))
        assert self.counts.sequencer.state.batch

    def goes_on_anew(self, minute: int) -> None:
        """The same by another process."""
        self.opened_anew()
        self.goes_on(minute)

    def records(self) -> int:
        """How many the log has."""
        offsets = LocalViews(self.spark, self.lake).log(READINGS)["offset"]
        return len(offsets) - int(offsets.null_count)

    def is_right(self, records: int) -> None:
        """The totals count so many records, and both tables are those that the log leads to."""
        assert sum(LocalViews(self.spark, self.lake).read(TOTALS)["n"].to_pylist()) == records
        require_backfilled(self.spark, self.lake, COUNTS, TOTALS)


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three commits, folded by both nodes."""
    root = tmp_path_factory.mktemp("built")
    lake = Lake(f"file:{root}")
    place = Place(spark, lake, "log", Line(spark, lake, COUNTS), Line(spark, lake, TOTALS))
    for minute in (0, 2, 4):
        place.goes_on(minute)
    return root


@pytest.fixture(params=KINDS)
def place(spark: SparkSession, built: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    shutil.copytree(built, tmp_path / "lake")
    lake = Lake(f"file:{tmp_path}/lake")
    found = Place(spark, lake, request.param, Line(spark, lake, COUNTS), Line(spark, lake, TOTALS))
    found.goes_on(6)
    return found


def test_optimize_and_vacuum_are_passed_by_who_writes_and_by_who_opens(place: Place) -> None:
    if place.kind == "log":
        place.sql_of_a_stranger("OPTIMIZE {table}")  # the records of the log were not found any more
        place.sql("VACUUM {table} RETAIN 168 HOURS")
    else:
        pack(place.path)
    place.goes_on(8)
    place.goes_on_anew(10)
    place.is_right(6)


def test_rows_that_were_added_are_refused_until_a_backfill_or_a_restore(place: Place) -> None:
    before = lakes.open_table(place.path).version
    place.double()
    with pytest.raises(lakes.ForeignCommitError, match="changes rows"):
        place.goes_on(8)
    with pytest.raises(lakes.ForeignCommitError, match="changes rows"):
        place.goes_on_anew(8)
    if place.kind.endswith("results"):
        Backfill(place.spark, place.lake, COUNTS if place.kind.startswith("appended") else TOTALS).run()
    else:
        place.restore(before, by_spark=False)
    place.goes_on_anew(10)
    place.is_right(place.records())


@pytest.mark.parametrize(
    "place",
    # How a repair undoes it, long too, shows the refusal of each kind.
    [
        pytest.param(kind, marks=pytest.mark.long if kind in ("appended results", "state") else ())
        for kind in KINDS
    ],
    indirect=True,
)
def test_a_restore_to_an_older_version_is_refused_until_it_is_undone(place: Place) -> None:
    table = lakes.open_table(place.path)
    newest = table.version
    files = table.snapshot().files
    place.restore(place.older())
    lakes.forget()
    assert lakes.open_table(place.path).snapshot().files != files
    with pytest.raises(lakes.ForeignCommitError):
        place.goes_on_anew(8)
    place.restore(newest)
    place.opened_anew()
    assert lakes.open_table(place.path).version >= newest + 2
    place.goes_on(10)
    place.is_right(place.records())


@pytest.mark.long
@pytest.mark.parametrize("place", [*KINDS, "state of current results"], indirect=True)
def test_a_restore_is_undone_by_a_repair_and_where_files_are_gone_tables_are_computed_anew(
    place: Place,
) -> None:
    """Rows went back, and what the commits say of progress did not."""
    table = lakes.open_table(place.path)
    files = table.snapshot().files
    place.sql(f"RESTORE {{table}} TO VERSION AS OF {place.older()}")
    with pytest.raises(lakes.ForeignCommitError, match="headrace repair"):
        place.goes_on_anew(8)
    if place.kind == "log":  # a backfill would take good rows out of the results
        with pytest.raises(lakes.ForeignCommitError, match="RESTORE"):
            Backfill(place.spark, place.lake, COUNTS).run()
    told = place.repaired()
    assert "has the rows of before again, RESTORE (version " in told[0]
    assert len(told) == (3 if place.kind == "log" else 1)  # both nodes may have read the log meanwhile
    assert lakes.open_table(place.path).snapshot().files.keys() == files.keys()
    assert place.repaired() == []
    place.goes_on_anew(10)
    place.is_right(place.records())

    now = lakes.open_table(place.path).snapshot().files
    place.sql(f"RESTORE {{table}} TO VERSION AS OF {place.older()}")
    lakes.forget()
    for name in now.keys() - lakes.open_table(place.path).snapshot().files.keys():
        small_files.delete(f"{place.path}/{name}")
    if place.kind == "log":
        with pytest.raises(FilesGoneError, match="somebody took out of it are deleted"):
            place.repaired()
        return
    with (
        patch("headrace.lifecycle.log_repair.repair.rewrite_state", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        place.repaired()
    (said,) = place.repaired()
    assert said.endswith("its tables were computed again from the log.")
    assert not any(small_files.exists(place.lake.repairing(name)) for name in ("counts", "totals"))
    place.goes_on_anew(12)
    place.is_right(place.records())


@pytest.mark.parametrize("place", ["appended results"], indirect=True)
def test_results_that_were_rewritten_as_they_were_are_accepted_by_a_repair(place: Place) -> None:
    """The files of before are gone, and no row differs."""
    before = lakes.open_table(place.path).snapshot().files
    rows = place.spark.read.format("delta").load(place.path)
    rows.write.format("delta").mode("overwrite").save(place.path)
    for name in before:
        small_files.delete(f"{place.path}/{name}")
    (said,) = place.repaired()
    assert said.endswith("its tables were computed again from the log.")
    assert place.repaired() == []
    place.goes_on_anew(8)
    place.is_right(place.records())


def test_a_state_that_was_put_back_without_its_results_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As from a backup: no commit tells of it."""
    lake = Lake(f"file:{tmp_path}/lake")
    line = Line(spark, lake, COUNTS)
    state, backup = lake.state("counts").removeprefix("file:"), tmp_path / "backup"
    for minute in (0, 2, 4, 6):
        if minute == 2:
            shutil.copytree(state, backup)
        line.pipe(f"2024-05-01 12:{minute:02}:00")
        line.commit()
        line.fold()
    shutil.rmtree(state)
    shutil.copytree(backup, state)
    lakes.forget()
    with pytest.raises(TerminalError, match="its results go further than its state") as refused:
        Line(spark, lake, COUNTS)
    assert "hold micro-batch 4, and the state ends with 1" in str(refused.value)


@pytest.mark.parametrize("place", ["appended results"], indirect=True)
def test_what_a_platform_switches_on_is_refused_by_every_reader_until_the_named_commands_ran(
    place: Place,
) -> None:
    def refused_with(feature: str) -> str:
        lakes.forget()
        for act in (place.opened_anew, lambda: Views(place.spark, place.lake).read(COUNTS)):
            with pytest.raises(
                TerminalError, match=f"uses {feature}, which Headrace does not write"
            ) as error:
                act()
        return str(error.value)

    def run_what_it_says(text: str) -> None:
        for command in text.partition("Let Spark run: ")[2].partition(". Do not drop")[0].split("; "):
            place.spark.sql(command)

    place.sql("OPTIMIZE {table}")  # a file of several rows: some of them can be deleted by a vector
    known = lakes.open_table(place.path)
    known.snapshot()
    place.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    place.sql("DELETE FROM {table} WHERE window_start < '2024-05-01 12:02:00'")
    with pytest.raises(TerminalError, match="uses deletionVectors"):
        known.snapshot()
    run_what_it_says(refused_with("deletionVectors"))
    assert known.snapshot().files, "who has met the vectors reads on after they were purged"
    with pytest.raises(lakes.ForeignCommitError, match="DELETE"):
        place.opened_anew()
    assert "DELETE (version" in place.repaired()[0]

    mapped = "'delta.feature.columnMapping' = 'supported', 'delta.columnMapping.mode' = 'name'"
    place.sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES ({mapped})")
    run_what_it_says(refused_with("columnMapping"))
    place.goes_on_anew(10)
    place.is_right(place.records())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("ALTER TABLE {table} ADD COLUMN extra INT", "other columns"),
        ("ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", "deletionVectors"),
    ],
    ids=["a column", "deletion vectors"],
)
def test_a_changed_schema_or_protocol_is_refused_by_who_writes_and_by_who_opens(
    place: Place, change: str, says: str
) -> None:
    place.sql(change)
    with pytest.raises(lakes.ForeignCommitError, match="changes columns, properties or the protocol"):
        place.goes_on(8)
    with pytest.raises(TerminalError, match=says):
        place.opened_anew()


def test_a_changed_property_ends_the_writer_that_runs_and_the_next_one_keeps_it(place: Place) -> None:
    place.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 30 days')")
    with pytest.raises(lakes.ForeignCommitError, match="changes columns, properties or the protocol"):
        place.goes_on(8)
    place.goes_on_anew(10)
    kept = lakes.open_table(place.path).metadata.configuration
    assert kept["delta.logRetentionDuration"] == "interval 30 days"
