"""A log whose commits were overwritten is put right from the files that are left; its nodes' tables follow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lake.commits.fence import FencedError
from headrace.lifecycle.log_repair.lost_commits import LostCommits
from headrace.lifecycle.log_repair.repair import Repair
from headrace.lifecycle.log_repair.repair_mark import require_repaired
from headrace.lifecycle.log_repair.rewrite_log import rewrite_log
from headrace.lifecycle.retention import Retention
from headrace.log.clock import SystemClock
from headrace.log.commit_row import CommitRow, write_commit_row
from headrace.log.decisions.control import control_rows
from headrace.log.site import Site
from headrace.nodes.node_tables import read_progress, require_log_reaches
from headrace.nodes.unusable_table import UnusableTable
from headrace.observe.local_views import LocalViews
from headrace.quality import check_log
from headrace.sequence.log_columns import COMPLETE
from headrace.spark.kafka import KafkaSettings, KafkaTopic
from headrace.spark.lake_rows import read
from headrace.writing.leases.handover import WaitsError
from tests.lake.lost_commits import overwrite, remove_strays, versions
from tests.rows import file_rows, in_order, require_backfilled
from tests.runtime.line import Line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

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
TOTALS = BY_SENSOR.aggregate(n=hr.count()).named("totals")
NODES = [COUNTS, TOTALS]
LOG = "log/readings"


@pytest.fixture
def line(spark: SparkSession, lake: Lake) -> Line:
    """Six log commits with a tick among them; both nodes have folded all."""
    line = Line(spark, lake, COUNTS)
    for minute in range(5):
        line.pipe(f"2024-05-01 12:0{minute}:00", f"s{minute % 2}", 0.5 * minute, partition=minute % 2)
        line.pipe(f"2024-05-01 12:0{minute}:10", "late" if minute == 3 else "s9", 1.0)
        line.commit()
        line.clock.set(line.clock.now_ms() + 1_000)
    line.sequencer.drain()
    line.fold()
    Line(spark, lake, TOTALS).fold()
    return line


def log_rows(lake: Lake) -> list[str]:
    """All rows of the log, commit rows too."""
    return sorted(map(repr, file_rows(lake.log("readings"))))


def tables(spark: SparkSession, lake: Lake) -> list[list[tuple[object, ...]]]:
    views = LocalViews(spark, lake)
    return [*map(in_order, [*map(views.read, NODES), *map(views.ledger, NODES)])]


def repaired(spark: SparkSession, lake: Lake, nodes: Sequence[hr.description.Node] = NODES) -> list[str]:
    nowhere = KafkaSettings(bootstrap_servers="localhost:1")
    return [*map(str, Repair(spark, lake, nodes, READINGS, nowhere).run())]


def test_commits_whose_files_are_left_come_back_as_they_were(
    spark: SparkSession, lake: Lake, line: Line, tmp_path: Path
) -> None:
    """Two in a row, and one more: two gaps."""
    log, before, nodes = lake.log("readings"), log_rows(lake), tables(spark, lake)
    theirs = versions(log, LOG)
    for number in (1, 2, 4):
        overwrite(log, theirs[number])
    chain = check_log(spark, lake, READINGS, f"file:{tmp_path}/docs")[0]
    assert not chain.passed
    assert "run `headrace repair readings`" in chain.sentence
    done = repaired(spark, lake)
    assert log_rows(lake) == before
    assert len([text for text in done if "from files that no version named" in text]) == 2
    assert {
        "counts: its tables were computed again from the log.",
        "totals: its tables were computed again from the log.",
    } < {*done}
    assert tables(spark, lake) == nodes
    assert check_log(spark, lake, READINGS, f"file:{tmp_path}/docs")[0].passed
    assert repaired(spark, lake) == []
    again = Line(spark, lake, COUNTS)
    assert again.sequencer.state == line.sequencer.state
    again.pipe("2024-05-01 12:30:00")
    again.commit()
    again.fold()
    require_backfilled(spark, lake, COUNTS)


def test_a_repair_tells_how_far_it_is(spark: SparkSession, lake: Lake, line: Line) -> None:
    theirs, told = versions(lake.log("readings"), LOG), list[object]()
    for number in (1, 3):
        overwrite(lake.log("readings"), theirs[number])
    work = Repair(spark, lake, NODES, READINGS, KafkaSettings(bootstrap_servers="localhost:1"))
    work.on_stage = told.append
    work.on_put_back = work.on_folded = lambda done, of: told.append((done, of))
    list(work.run())
    folded = [(0, 10), (10, 10)]
    assert [each for each in told if isinstance(each, tuple)] == [(0, 2), (1, 2), (2, 2), *folded, *folded]
    assert told[:2] == ["Looks for lost commits.", "Puts the lost commits back."]
    at = told.index("Computes the tables of totals again.")
    assert told[at:] == [told[at], *folded, "Writes the state and the log of totals again."]


@pytest.mark.parametrize("broken_off", [pytest.param("_put_back", marks=pytest.mark.long), "_mended"])
def test_a_repair_that_was_broken_off_does_the_rest_when_it_runs_again(
    spark: SparkSession, lake: Lake, line: Line, monkeypatch: pytest.MonkeyPatch, broken_off: str
) -> None:
    """Before, a commit that was back told nobody any more that the nodes had read past it."""
    log, before, nodes = lake.log("readings"), log_rows(lake), tables(spark, lake)
    theirs = versions(log, LOG)
    for number in (1, 3):
        overwrite(log, theirs[number])
    call, calls = getattr(Repair, broken_off), iter(range(9))

    def once(*given: object) -> object:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return call(*given)

    monkeypatch.setattr(Repair, broken_off, once)
    with pytest.raises(KeyboardInterrupt):
        repaired(spark, lake)
    monkeypatch.setattr(Repair, broken_off, call)
    with pytest.raises(WaitsError, match="a repair of the log of 'readings' has not computed"):
        require_repaired(lake, "totals")
    with pytest.raises(
        TerminalError, match="totals is not computed again since the log of 'readings' was repaired"
    ):
        Retention(spark, lake, NODES, READINGS).run(line.clock.now_ms())
    done = repaired(spark, lake)
    assert "totals: its tables were computed again from the log." in done
    assert (log_rows(lake), tables(spark, lake)) == (before, nodes)
    require_repaired(lake, "totals")
    assert repaired(spark, lake) == []


def test_each_pipeline_mends_its_own_nodes(spark: SparkSession, lake: Lake, line: Line) -> None:
    """Before, the repair of one pipeline left nothing from which another knew that its nodes had read past a gap."""
    nodes, theirs = tables(spark, lake), versions(lake.log("readings"), LOG)
    overwrite(lake.log("readings"), theirs[2])
    half_built = f"{lake.rebuilds('totals')}/of_the_log_before/plan.json"
    small_files.write_json(half_built, {})
    done = repaired(spark, lake, [COUNTS])
    assert not small_files.exists(half_built), "it folded past the gap"
    assert done[-1] == "totals: not described here: run headrace repair readings with its pipeline, too."
    require_repaired(lake, "counts")
    with pytest.raises(WaitsError):
        require_repaired(lake, "totals")
    assert repaired(spark, lake, [TOTALS]) == ["totals: its tables were computed again from the log."]
    require_repaired(lake, "totals")
    assert tables(spark, lake) == nodes


def test_files_of_attempts_that_were_no_commits_are_not_taken_for_one(
    spark: SparkSession, lake: Lake, line: Line
) -> None:
    """An attempt at the lost commit lies there, too, with other rows and an earlier commit time."""
    log, before = lake.log("readings"), log_rows(lake)
    theirs = versions(log, LOG)
    (row,) = [
        CommitRow.from_json(row["control"])
        for row in file_rows(log)
        if '"batch": 3,' in (row["control"] or "")
    ]
    attempt = replace(row, after=replace(row.after, ingested_at_ms=row.after.ingested_at_ms - 5))
    write_commit_row(log, line.sequencer._schema, "readings", attempt)
    overwrite(log, theirs[2])
    repaired(spark, lake)
    assert log_rows(lake) == before


def test_nothing_is_changed_when_kafka_lacks_one_of_the_gaps(
    spark: SparkSession, lake: Lake, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = lake.log("readings")
    theirs = versions(log, LOG)
    for number in (1, 3):
        overwrite(log, theirs[number])
    remove_strays(log)
    monkeypatch.setattr(KafkaTopic, "topic_id", lambda _: None)
    monkeypatch.setattr(KafkaTopic, "earliest", lambda _, partitions: dict.fromkeys(partitions, 2))
    version, nodes = lakes.open_table(log).version, tables(spark, lake)
    with pytest.raises(TerminalError, match="Kafka has deleted records that the log has lost") as refused:
        repaired(spark, lake)
    assert "partition 0 offset 2, partition 1 offset 0; " in str(refused.value)
    assert (lakes.open_table(log).version, tables(spark, lake)) == (version, nodes)


def test_a_log_that_went_back_is_not_appended_to_and_the_nodes_follow_it_back(
    spark: SparkSession, lake: Lake, line: Line
) -> None:
    """Its newest commits are gone, as after a RESTORE: the nodes have read them, and their records would come again."""
    log, progress = lake.log("readings"), line.runner.progress
    newest = versions(log, LOG)[-2:]
    for version in newest:
        overwrite(log, version)
    with pytest.raises(TerminalError, match="the log has lost commits") as refused:
        require_log_reaches(lake, "counts", READINGS, progress)
    assert "headrace repair readings" in str(refused.value)
    assert repaired(spark, lake) == [
        "counts: its tables were computed again from the log.",
        "totals: its tables were computed again from the log.",
    ]
    back = Line(spark, lake, COUNTS)
    require_log_reaches(lake, "counts", READINGS, back.runner.progress)
    require_backfilled(spark, lake, *NODES)
    rows = sum(row["offset"] is not None for row in file_rows(log))
    assert sum(LocalViews(spark, lake).read(TOTALS)["n"].to_pylist()) == rows == 8
    back.pipe("2024-05-01 12:04:00", "s0", 2.0)
    back.commit()
    totals = Line(spark, lake, TOTALS)
    totals.fold()
    assert sum(LocalViews(spark, lake).read(TOTALS)["n"].to_pylist()) == rows + 1


def test_a_log_that_was_complete_with_the_lost_commit_is_so_again(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, sent = Line(spark, lake, TOTALS), []
    line.sequencer.read_first_to({0: 2})
    for minute in range(4):
        line.pipe(f"2024-05-01 12:0{minute}:00")
        sent.append(line._piped.take(spark))
        line.sequencer.append(sent[-1], in_order=True)  # type: ignore[arg-type]
        line.clock.set(line.clock.now_ms() + 1_000)
    line.fold()
    log = lake.log("readings")
    before = control_rows(read(spark, log), COMPLETE)
    assert len(before) == 1
    overwrite(log, versions(log, LOG)[2])
    remove_strays(log)
    assert control_rows(read(spark, log), COMPLETE) == []
    monkeypatch.setattr(KafkaTopic, "topic_id", lambda _: None)
    monkeypatch.setattr(KafkaTopic, "earliest", lambda _, partitions: dict.fromkeys(partitions, 0))
    work = Repair(spark, lake, [TOTALS], READINGS, KafkaSettings(bootstrap_servers="localhost:1"))

    def taken_over(*_: object) -> object:
        """As another repair does while this one is paused: records would come back twice."""
        lakes.TableWriter(lakes.open_table(log), lakes.MAINTAINER)
        return sent[1]

    monkeypatch.setattr(LostCommits, "_records", taken_over)
    with pytest.raises(FencedError):
        [*work.run()]
    remove_strays(log)
    monkeypatch.setattr(LostCommits, "_records", lambda *_: sent[1])
    assert "1 record read from Kafka." in str(next(iter([*work.run()])))
    ((at_ms, said),) = control_rows(read(spark, log), COMPLETE)
    (moment,) = (row["ingested_at"] for row in file_rows(log) if row["offset"] == 1)
    assert (at_ms, said) == (round(moment.timestamp() * 1000), before[0][1])
    assert [*work.run()] == []
    assert Line(spark, lake, TOTALS).sequencer.state.complete


@pytest.mark.long
def test_a_record_that_comes_back_and_cannot_be_used_is_remembered(spark: SparkSession, lake: Lake) -> None:
    doubled = READINGS.with_column("entry", "str_to_map(if(value > 8, 'a:1,a:2', 'a:1'))['a']")
    node = doubled.group_by("sensor_id").aggregate(n=hr.count(), top=hr.max("entry")).named("entries")
    line, remembered = Line(spark, lake, node), UnusableTable(spark, lake, node)
    for minute, value in enumerate((1.0, 9.0, 1.0, 9.0)):
        line.pipe(f"2024-05-01 12:0{minute}:00", value=value)
        line.commit()
        line.clock.set(line.clock.now_ms() + 1_000)
    overwrite(lake.log("readings"), versions(lake.log("readings"), LOG)[1])
    line.fold()
    assert [each.offset for each in remembered.read()] == [3]
    list(Repair(spark, lake, [node], READINGS, KafkaSettings(bootstrap_servers="localhost:1")).run())
    assert [each.offset for each in remembered.read()] == [1, 3]
    dead = LocalViews(spark, lake).dead_letters(READINGS, [node])
    assert sorted(row["offset"] for row in dead) == [1, 3]
    assert read_progress(lake, node).totals() == {"kept": 2, "dead_letter": 2}
    require_backfilled(spark, lake, node)


@pytest.mark.parametrize(
    "stray", [pytest.param(True, marks=pytest.mark.long), False], ids=["from a file", "from Kafka"]
)
def test_a_commit_that_comes_back_has_the_values_of_columns_that_the_log_has_gained_since(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, stray: bool
) -> None:
    line, sent = Line(spark, lake, TOTALS), []
    for second in range(3):
        line._piped.add(
            "s1",
            '{"sensor_id": "s1", "value": 1.0, "place": "of the record"}',
            1_714_564_800_000 + second,
            0,
            {},
        )
        raw = line._piped.take(spark)
        assert raw is not None
        sent.append(raw)
        line.sequencer.append(raw, in_order=True)
        line.clock.set(line.clock.now_ms() + 1_000)
    log = lake.log("readings")
    overwrite(log, versions(log, LOG)[1])
    if not stray:
        remove_strays(log)
    wider = replace(READINGS, value="sensor_id STRING, value DOUBLE, place STRING, floor INT")
    now = replace(wider, added={"place": "hall", "floor": 1})
    rewrite_log(Site(spark, lake, SystemClock()), now, {}, [])
    rewrite_log(
        Site(spark, lake, SystemClock()),
        replace(
            wider, value="sensor_id STRING, value DOUBLE, spot STRING, floor INT", renamed={"spot": "place"}
        ),
        {"spot": "place"},
        [],
    )
    monkeypatch.setattr(KafkaTopic, "topic_id", lambda _: None)
    monkeypatch.setattr(KafkaTopic, "earliest", lambda _, partitions: dict.fromkeys(partitions, 0))
    monkeypatch.setattr(LostCommits, "_records", lambda *_: sent[1])
    later = replace(wider, value="sensor_id STRING, value DOUBLE, spot STRING, floor INT")
    done = [*Repair(spark, lake, [], later, KafkaSettings(bootstrap_servers="localhost:1")).run()]
    assert ("from files that no version named" in str(done[0])) == stray
    rows = [(row["offset"], *row["value"].values()) for row in file_rows(log) if row["kind"] == "record"]
    assert sorted(rows) == [(offset, "s1", 1.0, "hall", 1) for offset in range(3)]
