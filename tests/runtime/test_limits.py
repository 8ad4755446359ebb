"""Setting limits from outside a stream: by whoever holds the log's lease, once, and in the order in which people asked."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli import commands as cli
from headrace.description.limits import limits_of
from headrace.engine.slices.log_slices import whole_log
from headrace.lake import small_files
from headrace.lifecycle import live_limits as limits
from headrace.log.clock import SystemClock
from headrace.log.commit_row import without_commit_rows
from headrace.log.decisions.limits import LimitsSet, limits_in
from headrace.log.sequencer import Sequencer
from headrace.sequence.set_limits import SetLimit
from headrace.spark.lake_rows import read
from headrace.testing.piped import PipedTopic
from headrace.writing.leases import requests
from headrace.writing.leases.lease import take_lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

VISITS = hr.Topic("visits", key="customer STRING", value="pages INT")
PLACES = hr.Topic("places", key="customer STRING", value="place STRING")
BOUNDED = hr.until_time_limit("10 seconds", max_records=5, when_full="shut_down")
CALM = VISITS.table().suppress(BOUNDED).named("calm")


def new_log(spark: SparkSession, lake: Lake) -> Sequencer:
    """A log with a record in each of two partitions."""
    sequencer = Sequencer(spark, VISITS, lake.log("visits"), SystemClock())
    piped = PipedTopic(VISITS, {})
    for partition in (0, 1):
        piped.add("a", b'{"pages": 1}', 1_714_564_800_000, partition, {})
    raw = piped.take(spark)
    assert raw is not None
    sequencer.append(raw)
    return sequencer


@pytest.mark.spark
def test_limits_are_recorded_in_every_partition_once_whoever_died_on_the_way(
    spark: SparkSession, lake: Lake
) -> None:
    with pytest.raises(hr.TerminalError, match="has no log yet"):
        limits.set_limits(spark, lake, CALM, {"limit_ms": 1})
    sequencer = new_log(spark, lake)
    first = requests.ask(lake, "visits", {"node": "calm", "limits": {"max_records": 7}})
    second = requests.ask(lake, "visits", {"node": "calm", "limits": {"max_records": 9}})
    assert requests.pending(lake, "visits") == sorted([first, second])
    sequencer.set_limits("calm", {"max_records": 7}, first)  # and dies before the file is gone
    entry = limits.set_limits(spark, lake, CALM, {"limit_ms": 60_000})  # no stream runs: recorded from here
    log = read(spark, lake.log("visits"))
    found = limits_in(whole_log(lake.log("visits")).controls())
    assert [each.limits for each in found] == [{"max_records": 7}, {"max_records": 9}, {"limit_ms": 60_000}]
    assert found[-1] == entry
    people_did = without_commit_rows(log).where("control IS NOT NULL")
    assert people_did.groupBy("partition").count().orderBy("partition").collect() == [
        (0, 3),
        (1, 3),
    ]
    policy, _ = limits.limits_known(lake, CALM)
    assert limits_of(policy) == {"limit_ms": 60_000, "max_records": 9, "max_bytes": None}
    assert Sequencer(spark, VISITS, lake.log("visits"), SystemClock()).state.limits_ms == {
        "calm": (SetLimit(60_000),)
    }


@pytest.mark.spark
def test_each_other_log_below_a_node_knows_a_time_limit_before_it_is_in_force(
    spark: SparkSession, lake: Lake
) -> None:
    """It did not tick for a limit that stands in the log of the first topic, and promised beyond it."""
    joined = VISITS.table().join(PLACES.table(), on="customer", how="outer").suppress(BOUNDED).named("calm")
    new_log(spark, lake)
    before = limits.set_limits(spark, lake, joined, {"limit_ms": 60_000, "max_records": 7})
    waiting = requests.pending(lake, "places")  # only its stream begins a log
    sequencer = Sequencer(spark, PLACES, lake.log("places"), SystemClock())
    sequencer.start_at({0: 5})
    assert (len(waiting), requests.carry_out(lake, sequencer), requests.carry_out(lake, sequencer)) == (
        1,
        1,
        0,
    )
    assert sequencer.state.limits_ms == {"calm": (SetLimit(60_000),)}
    after = limits.set_limits(spark, lake, joined, {"limit_ms": 30_000})
    limits.set_limits(spark, lake, joined, {"max_records": 8})  # a bound concerns no tick
    again = Sequencer(spark, PLACES, lake.log("places"), SystemClock())
    assert [each.ms for each in again.state.limits_ms["calm"]] == [60_000, 30_000]
    assert before.ingested_at_ms < again.state.ingested_at_ms < after.ingested_at_ms
    assert limits_in(whole_log(lake.log("places")).controls()) == [], (
        "readers have the limits of the first log alone"
    )
    assert [each.limits for each in limits.limits_known(lake, joined)[1]] == [
        {"limit_ms": 60_000, "max_records": 7},
        {"limit_ms": 30_000},
        {"max_records": 8},
    ]


@pytest.mark.spark
@pytest.mark.parametrize(
    "content",
    [b"{", b"\xff", b"[]", b'{"node": "calm"}', b'{"node": "calm", "limits": {"max_records": "7"}}'],
)
def test_a_file_that_is_no_request_is_set_aside_and_stops_no_other(
    spark: SparkSession, lake: Lake, content: bytes
) -> None:
    sequencer = new_log(spark, lake)
    broken = f"{lake.requests('visits')}/000000000000001-broken.json"
    small_files.write_bytes(broken, content)
    requests.ask(lake, "visits", {"node": "calm", "limits": {"max_records": 7}})
    assert requests.carry_out(lake, sequencer) == 1
    assert requests.pending(lake, "visits") == []
    assert small_files.read_bytes(f"{broken}.unreadable") == content


@pytest.mark.spark
def test_while_a_stream_runs_it_records_them_and_a_request_that_nobody_carries_out_is_taken_back(
    spark: SparkSession, lake: Lake
) -> None:
    sequencer = new_log(spark, lake)
    held = take_lease(spark, lake.lease("log/visits"), "Log 'visits'", SystemClock())
    with pytest.raises(hr.TransientError, match="did not record"):
        limits.set_limits(spark, lake, CALM, {"max_records": 7}, patience_seconds=1)
    assert requests.pending(lake, "visits") == []
    with pytest.raises(hr.DescriptionError, match="not a number from 1"):
        limits.set_limits(spark, lake, CALM, {"max_records": -7})
    done = threading.Event()

    def stream() -> None:
        while not requests.carry_out(lake, sequencer):
            assert not done.wait(0.1)

    thread = threading.Thread(target=stream, daemon=True)
    thread.start()
    entry = limits.set_limits(spark, lake, CALM, {"max_records": 8})
    done.set()
    thread.join()
    held.release()
    assert entry.limits == {"max_records": 8}
    assert [each.limits for each in limits_in(whole_log(lake.log("visits")).controls())] == [
        {"max_records": 8}
    ]


@pytest.mark.fast
def test_the_commands_say_from_when_limits_are_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def record(*given: object) -> LimitsSet:
        asked.append(given[2:])
        return LimitsSet("calm", {"limit_ms": 300_000, "max_records": None}, "r", 1_714_564_800_000)

    monkeypatch.setattr(limits, "set_limits", record)
    monkeypatch.setattr(limits, "limits_known", lambda *given: (BOUNDED, [record(None, None)]))
    monkeypatch.setattr("headrace.cli.console.deployment.session", lambda lake: None)
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda name: [CALM])
    done = CliRunner().invoke(
        cli.app, ["set-limits", "calm", "--time-limit", "5 minutes", "--max-records", "0"]
    )
    since = "time limit 5 minutes, max_records none since ingested_at 2024-05-01T12:00:00.000+00:00."
    assert (done.exit_code, asked) == (0, [(CALM, {"limit_ms": 300_000, "max_records": None})])
    assert done.output == f"Node 'calm': {since}\n"
    shown = CliRunner().invoke(cli.app, ["limits", "calm"])
    in_force = "In force: time limit 10 seconds, max_records 5, max_bytes none."
    assert shown.output.splitlines() == [in_force, since]
    assert CliRunner().invoke(cli.app, ["set-limits", "calm"]).exit_code != 0
