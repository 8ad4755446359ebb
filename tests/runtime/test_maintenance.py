"""Maintenance: smaller on disk, the same rows, and whoever looks for the last commit still finds it."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

import headrace as hr
from headrace import lake as lakes
from headrace.errors import DescriptionError
from headrace.lake.care.vacuum import UNUSED
from headrace.lake.paths import Lake
from headrace.lake.storage import delta_uri
from headrace.lifecycle.maintenance import Maintenance, Upkept
from headrace.log.clock import SystemClock
from headrace.log.site import Site
from headrace.observe.local_views import LocalViews
from headrace.observe.views import Views
from headrace.sinks import Delivery
from headrace.sinks.refusals import record_refusals
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import read
from headrace.streams.loops.node_stream import NodeStream, Shared
from headrace.writing.leases.lease import take_lease
from headrace.writing.scheduling import Turns
from tests.rows import in_order, require_backfilled
from tests.runtime.line import Line
from tests.runtime.supervising import kept_running
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node

pytestmark = pytest.mark.spark

WEEK_AND_A_DAY = 8 * 86_400
READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
COUNTS = (
    READINGS.group_by("sensor_id")
    .window(hr.tumbling("2 minutes"), grace="0 seconds")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("counts")
)
TOTALS = READINGS.group_by().aggregate(n=hr.count()).named("totals")


@dataclass
class Kept:
    """A log of some commits, read by a node of appended and one of current results."""

    line: Line
    totals: Line

    def feed(self, *minutes: int) -> None:
        for minute in minutes:
            self.line.pipe(f"2024-05-01 12:{minute:02}:00")
            self.line.commit()
            self.line.fold()
            self.totals.fold()

    def maintain(
        self, *nodes: Node, patience_seconds: float = PATIENCE_S, **asked: bool
    ) -> dict[str, Upkept]:
        spark, lake = self.line.spark, self.line.lake
        work = Maintenance(spark, lake, nodes or (COUNTS, TOTALS), patience_seconds=patience_seconds)
        return {f"{done.of} {done.what}": done for done in work.run(**asked)}

    def seen(self) -> list[object]:
        views = LocalViews(self.line.spark, self.line.lake)
        return [*map(in_order, [*map(views.read, (COUNTS, TOTALS)), views.ledger(COUNTS)])]

    def paths(self) -> list[str]:
        lake = self.line.lake
        names = ("counts", "totals")
        return [lake.log("readings"), *map(lake.table, names), *map(lake.state, names)]


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four commits, folded by both nodes."""
    root = tmp_path_factory.mktemp("built")
    lake = Lake(f"file:{root}")
    kept = Kept(Line(spark, lake, COUNTS), Line(spark, lake, TOTALS))
    kept.feed(0, 2)
    kept.totals.runner.maintain()
    kept.feed(3, 5)
    return root


@pytest.fixture
def kept(spark: SparkSession, built: Path, tmp_path: Path) -> Kept:
    """The same in a folder of the test's own."""
    shutil.copytree(built, tmp_path / "lake")
    lake = Lake(f"file:{tmp_path}/lake")
    return Kept(Line(spark, lake, COUNTS), Line(spark, lake, TOTALS))


def days_pass(spark: SparkSession, path: str) -> None:
    """All that lies there is eight days older: files, when Delta says that they were removed, and looks of vacuum."""
    folder = Path(path.removeprefix("file:"))
    for look in (folder / UNUSED).glob("*.json"):
        look.rename(look.with_stem(str(int(look.stem) - WEEK_AND_A_DAY * 1000)))
    for commit in (folder / "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for line in lines:
            if "remove" in line:
                line["remove"]["deletionTimestamp"] -= WEEK_AND_A_DAY * 1000
        commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "_delta_log" / f".{commit.name}.crc").unlink(missing_ok=True)
    then = time.time() - WEEK_AND_A_DAY
    for file in folder.rglob("*"):
        os.utime(file, (then, then))
    lakes.forget()


def history_is_cleaned(spark: SparkSession, path: str) -> None:
    """What Delta does at a checkpoint: commit files before it go, once they are older than the log retention."""
    newest = lakes.open_table(path).version
    lakes.open_table(path).checkpoint()
    for version in range(newest):
        for name in (f"{version:020d}.json", f".{version:020d}.json.crc"):
            (Path(path.removeprefix("file:")) / "_delta_log" / name).unlink(missing_ok=True)
    lakes.forget()


def test_files_become_fewer_the_old_ones_go_after_a_week_and_nothing_that_is_read_changes(
    spark: SparkSession, kept: Kept
) -> None:
    before = kept.seen()
    done = kept.maintain()
    assert done.keys() == {
        "log/readings log",
        *(f"{n} {w}" for n in ("counts", "totals") for w in ("results", "state")),
    }
    log = done["log/readings log"]
    assert (log.before.files > log.after.files, log.after.files, log.skipped) == (True, 1, None)
    assert log.stored_after.files > log.stored_before.files, "what left the table a moment ago is kept"
    assert kept.seen() == before
    for path in kept.paths():
        days_pass(spark, path)
    seen = kept.maintain(compact=False)["log/readings log"]
    assert seen.stored_after.files == seen.stored_before.files + 1, "what it found unused is noted, and kept"
    for path in kept.paths():
        days_pass(spark, path)
    later = kept.maintain(compact=False)
    assert later["log/readings log"].stored_after.files < log.stored_after.files
    assert later["log/readings log"].stored_after.bytes < log.stored_before.bytes
    assert kept.seen() == before


def test_the_last_commits_are_found_when_delta_has_cleaned_the_history_behind_maintenance(
    spark: SparkSession, kept: Kept
) -> None:
    lake = kept.line.lake
    before, batch = kept.seen(), kept.line.runner.progress.batch
    state = kept.line.sequencer.state
    kept.maintain(COUNTS, vacuum=False)
    cleaned = [path for path in kept.paths() if _signed_by_maintenance(spark, path)]
    assert lake.log("readings") in cleaned
    assert lake.state("counts") in cleaned
    for path in cleaned:
        history_is_cleaned(spark, path)
    assert kept.seen() == before
    again = Kept(Line(spark, lake, COUNTS), Line(spark, lake, TOTALS))
    assert again.line.runner.progress.batch == batch
    assert again.line.sequencer.state == state
    again.feed(7)
    assert again.line.runner.progress.batch == batch + 1
    require_backfilled(spark, lake, COUNTS)


def test_commits_go_after_a_week_with_a_checkpoint_and_the_stream_goes_on(
    spark: SparkSession, kept: Kept
) -> None:
    lake = kept.line.lake
    for path in kept.paths():
        lakes.open_table(path).checkpoint()
        days_pass(spark, path)
    kept.feed(7)
    for path in kept.paths():
        lakes.open_table(path).checkpoint()
        DeltaTable(delta_uri(path)).cleanup_metadata()
    for path in (lake.log("readings"), lake.state("counts")):
        left = commits_of(path)
        assert min(left) > 0, f"{path}: nothing was cleaned"
        assert max(left) == lakes.open_table(path).version
    lakes.forget()
    before, batch = kept.seen(), kept.line.runner.progress.batch
    again = Kept(Line(spark, lake, COUNTS), Line(spark, lake, TOTALS))
    assert again.line.runner.progress.batch == batch
    assert again.line.sequencer.state == kept.line.sequencer.state
    again.feed(9)
    assert again.seen() != before
    require_backfilled(spark, lake, COUNTS, TOTALS)


def data_files(path: str) -> set[str]:
    """The Parquet files that lie in a table's folder."""
    return {file.name for file in Path(path.removeprefix("file:")).glob("*.parquet")}


def commits_of(path: str) -> list[int]:
    """The versions whose commits are kept."""
    return sorted(int(file.stem) for file in Path(path.removeprefix("file:"), "_delta_log").glob("*.json"))


def test_a_record_committed_while_maintenance_packed_is_not_hidden_by_what_it_carries(
    spark: SparkSession, kept: Kept
) -> None:
    log, writer = kept.line.lake.log("readings"), "log/readings"
    carried = lakes.carried(lakes.open_table(log), [writer])
    kept.feed(7)
    newest = lakes.last_commit(lakes.open_table(log), writer)
    maintainer = lakes.TableWriter(lakes.open_table(log), lakes.MAINTAINER)
    maintainer.append([], {"writer": "maintenance/log/readings", **carried})
    assert lakes.last_commit(lakes.open_table(log), writer) == newest


def test_a_stream_over_a_maintained_log_starts_although_nothing_new_comes(
    spark: SparkSession, kept: Kept
) -> None:
    """The files of the log's last data commit are gone; a new node reads the log from its beginning all the same."""
    lake = kept.line.lake
    new = READINGS.group_by().aggregate(total=hr.sum("value")).named("sums")
    kept.maintain(new, vacuum=False)
    files = lakes.open_table(lake.log("readings")).snapshot().files
    for _ in range(2):
        days_pass(spark, lake.log("readings"))
        kept.maintain(new, compact=False)
    assert data_files(lake.log("readings")) == set(files)
    stream = NodeStream(Site(spark, lake, SystemClock()), new, Shared(Turns(1), Turns(1)), trigger_ms=100)
    try:
        kept_running(stream, lambda: stream.records == 4)
        assert not any(done.skipped for done in kept.maintain(new).values()), "beside it"
        kept.feed(7)
        until(lambda: stream.records == 5, told=lambda: stream.error)
        assert (stream.failures, stream.state) == (0, "running")
    finally:
        stream.drain()
    assert [row["total"] for row in Views(spark, lake).read(new).collect()] == [5.0]


def test_a_node_whose_backfill_runs_is_left_alone_and_says_why(spark: SparkSession, kept: Kept) -> None:
    lake = kept.line.lake
    versions = [lakes.open_table(path).version for path in kept.paths()]
    lease = take_lease(spark, lake.lease("backfill/counts"), "Backfill of 'counts'", SystemClock())
    try:
        done = kept.maintain(vacuum=False, patience_seconds=1)
        assert "is already being written" in (done["counts results"].skipped or "")
        assert [done[name].skipped for name in ("log/readings log", "totals state")] == [None, None]
        moved = [lakes.open_table(path).version for path in kept.paths()]
        assert [old == new for old, new in zip(versions, moved, strict=True)] == [
            False,
            True,
            True,
            True,
            False,
        ]
    finally:
        lease.release()


def test_a_log_that_an_old_backfill_reads_keeps_its_files(spark: SparkSession, kept: Kept) -> None:
    lake = kept.line.lake
    lease = take_lease(spark, lake.lease("backfill/counts"), "Backfill of 'counts'", SystemClock())
    try:

        class NineDaysLater(SystemClock):
            def now_ms(self) -> int:
                return super().now_ms() + 9 * 86_400_000

        work = Maintenance(spark, lake, [COUNTS], clock=NineDaysLater(), patience_seconds=0)
        log, *_ = work.run()
        assert log.skipped == "A backfill of counts has been reading it for too long."
    finally:
        lease.release()


class Refusing:
    """A sink that refuses every row."""

    name = "refusing"

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        refused = [(row["__sequence"], row["__ordinal"], "no") for row in rows.collect()]
        record_refusals(rows, delivery, refused, "the store")


@pytest.mark.parametrize("has_sink", [True, False])
def test_what_a_sink_refused_is_packed_too(spark: SparkSession, kept: Kept, has_sink: bool) -> None:
    """Before, no maintenance touched what a sink had refused that the node has no more."""
    lake = kept.line.lake
    node = COUNTS.to(Refusing())
    for number in range(2):
        row = ("s1", number, number, 0)
        rows = local_frame(spark, [row], "sensor_id STRING, n INT, __sequence BIGINT, __ordinal INT")
        node.sinks[0].deliver(
            rows,
            Delivery("counts", ("sensor_id",), ("sensor_id",), ("n",), lake.refused("counts", "refusing")),
        )
    refused = read(spark, lake.refused("counts", "refusing"))
    before = sorted(map(tuple, refused.collect()))
    done = kept.maintain(node if has_sink else COUNTS, vacuum=False)["counts refused by refusing"]
    assert (done.before.files, done.after.files, done.skipped) == (2, 1, None)
    refused = read(spark, lake.refused("counts", "refusing"))
    assert sorted(map(tuple, refused.collect())) == before


def test_a_retention_that_a_run_could_outlast_is_refused(spark: SparkSession, lake: Lake) -> None:
    with pytest.raises(
        DescriptionError, match="a retention of 47 hours could delete files that a run still reads"
    ):
        Maintenance(spark, lake, [COUNTS], retention_hours=47)


def _signed_by_maintenance(spark: SparkSession, path: str) -> bool:
    newest = lakes.open_table(path).version
    text = (Path(path.removeprefix("file:")) / "_delta_log" / f"{newest:020d}.json").read_text()
    return "maintenance/" in text or "state upkeep" in text
