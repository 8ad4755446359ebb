"""Readers of nodes by name: which generation they find, what they ask of whoever writes, when they are rebuilt."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace import lake as lakes
from headrace.cli import app
from headrace.description import Node, OtherNodeError, output_of
from headrace.description.clocks import WallWait
from headrace.errors import DescriptionError
from headrace.lake import kinds, small_files
from headrace.lake.paths import Lake
from headrace.lifecycle.following import nodes_following
from headrace.lifecycle.forsaken_logs import drop_registrations, former_logs
from headrace.lifecycle.maintenance import Maintenance
from headrace.lifecycle.pending_erasures import has_followed, note_pending, pending
from headrace.lifecycle.rebuilds.former import Former, former_of
from headrace.log.clock import SystemClock
from headrace.nodes.descriptions.evolution import REBUILT, REFUSED, outcome_of
from headrace.nodes.descriptions.references import (
    Generations,
    NodeAwaitedError,
    among_themselves,
    resolve_all_references,
    resolve_references,
)
from headrace.nodes.descriptions.topics import topics_of
from headrace.nodes.node_tables import write_description
from headrace.writing.leases.readers import asked_by, asked_in, asked_through, readers_of, register
from tests.changing.held import NO_SPARK
from tests.scenarios.chained import COUNTS, QUIET, READINGS, SENSORS

pytestmark = pytest.mark.fast

BY_NAME = hr.node("counts", schema="sensor STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT")
ALERTS = BY_NAME.where("n < 4").named("alerts")
HOURS = (
    BY_NAME.group_by("sensor")
    .window(hr.tumbling("1 hour"), grace="0 minutes")
    .aggregate(n=hr.sum("n"))
    .suppress(hr.until_window_closes())
    .named("hours")
)
LOOKED_UP = BY_NAME.lookup(SENSORS.table(), on="sensor", complete_first=False).named("looked_up")
MINUTE_MS = 60_000


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(f"file:{tmp_path}/lake")


def write(lake: Lake, node: Node) -> None:
    """Note the description of a node, as its stream does."""
    write_description(lake, node)


def entry(node: Node) -> dict[str, object]:
    return {"fingerprint": node.fingerprint(), "rules": node.rules()}


def test_a_reader_waits_until_another_pipeline_has_written_the_node(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NodeAwaitedError, match="Waits for node 'counts', which no pipeline has written"):
        resolve_references(lake, ALERTS)
    assert resolve_all_references(lake, [ALERTS, QUIET]) == [QUIET]
    write(lake, COUNTS)
    assert resolve_references(lake, ALERTS).topics[0].name == QUIET.topics[0].name
    generations = Generations(lake)
    with pytest.raises(NodeAwaitedError, match="Waits for the log of node 'counts'"):
        generations.of(ALERTS)
    changed = READINGS.select("sensor", "value AS n").named("counts")
    small_files.write_json(
        lake.description("counts"), {"fingerprint": changed.fingerprint(), "output": output_of(COUNTS)}
    )
    with monkeypatch.context() as patch:
        patch.setattr("headrace.nodes.descriptions.references.lakes.exists", lambda uri: "node_logs" in uri)
        assert generations.of(ALERTS).topics[0].name == f"counts@{changed.fingerprint()[:12]}"
    small_files.write_json(lake.opening("counts"), {})
    with pytest.raises(OtherNodeError, match="rows of its logs were cut off before anybody read it"):
        Generations(lake).of(ALERTS)


def test_a_run_reads_one_generation_and_says_when_there_is_a_newer_one(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.nodes.descriptions.references.lakes.exists", lambda uri: "node_logs" in uri)
    generations = Generations(lake)
    write(lake, COUNTS)
    before = generations.of(ALERTS)
    assert generations.outdated(before) is None
    changed = (
        READINGS.where("value > 0")
        .group_by("sensor")
        .window(hr.tumbling("2 minutes"), grace="1 minute")
        .aggregate(n=hr.count())
        .suppress(hr.until_window_closes())
        .named("counts")
    )
    write(lake, changed)
    assert generations.of(HOURS).topics == before.topics
    assert "Node 'counts' was rebuilt by another description" in str(generations.outdated(before))
    after = Generations(lake).of(ALERTS)
    assert after.topics[0].name == f"counts@{changed.fingerprint()[:12]}"
    assert outcome_of(entry(before), before.fingerprint(), entry(after)) == REBUILT
    other = resolve_references(lake, BY_NAME.where("n < 5").named("alerts"))
    assert outcome_of(entry(before), before.fingerprint(), entry(other)) == REFUSED


def test_a_reader_with_a_wrong_reference_that_has_read_nothing_keeps_nobody_from_the_other_nodes(
    lake: Lake,
) -> None:
    """Before, it blocked maintenance, cuts and erasures of the whole pipeline."""
    write(lake, COUNTS)
    wrong = hr.node("counts", schema="sensor STRING, n INT").where("n < 4").named("wrong")
    assert resolve_all_references(lake, [wrong, QUIET]) == [QUIET]
    write(lake, READINGS.where("value > 0").named("wrong"))  # its tables hold rows of an earlier description
    with pytest.raises(OtherNodeError, match="has other columns"):
        resolve_all_references(lake, [wrong, QUIET])
    first, *_ = Maintenance(NO_SPARK, lake, [wrong, COUNTS, QUIET]).run()
    assert (first.of, first.what) == ("wrong", "all tables")
    assert "has other columns" in (first.skipped or "")


def test_a_step_without_a_name_follows_the_generation_too(lake: Lake) -> None:
    described = (
        BY_NAME.group_by("sensor").batch(max_records=2, collect=["n"]).where("records > 1").named("pairs")
    )
    found = []
    for node in (COUNTS, hr.node("counts", schema="sensor STRING").named("counts")):
        small_files.write_json(
            lake.description("counts"),
            {"fingerprint": node.fingerprint(), "rules": {}, "output": output_of(COUNTS)},
        )
        found.append(resolve_references(lake, described))
    before, after = found
    assert before.topics[0].name != after.topics[0].name
    assert outcome_of(entry(before), before.fingerprint(), entry(after)) == REBUILT


def test_topics_of_kafka_are_those_of_the_pipeline_alone() -> None:
    assert [*topics_of([ALERTS, LOOKED_UP])] == ["sensors"]


def test_whoever_writes_learns_what_readers_ask(lake: Lake) -> None:
    reader, unknown = [HOURS, LOOKED_UP], asked_in(lake, "counts@")
    assert unknown.readers == ()
    for node in reader:
        register(lake, BY_NAME, node.required_name, asked_by(BY_NAME, reader))
    asked = asked_in(lake, "counts@")
    assert (asked.readers, asked.longest_wait_ms, asked.ordered) == (
        ("hours", "looked_up"),
        60 * MINUTE_MS,
        True,
    )
    assert readers_of(lake, "counts@") == ["hours", "looked_up"]
    through = asked_through(READINGS, [COUNTS], {"counts": asked})
    assert through.longest_wait_ms == (3 + 60) * MINUTE_MS
    assert through.ordered
    assert asked_through(SENSORS, [COUNTS], {"counts": asked}).readers == ()


def test_waits_for_the_wall_clock_are_handed_on(lake: Lake) -> None:
    batches = BY_NAME.group_by("sensor").batch(max_wait="5 minutes", collect=["n"]).named("batches")
    register(lake, BY_NAME, "batches", asked_by(BY_NAME, [batches]))
    asked = asked_through(READINGS, [COUNTS], {"counts": asked_in(lake, "counts@")})
    assert asked.wall_waits == (WallWait(5 * MINUTE_MS, after=1),), "COUNTS waits before it"
    assert not asked.ordered


def test_maintenance_removes_registrations_of_nodes_that_read_a_log_no_more(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headrace.lifecycle.forsaken_logs.lease_taken_ms",
        lambda folder, clock: 1 if folder.endswith("node/runs") else None,
    )
    write(lake, COUNTS)
    readers = {name: ALERTS.named(name) for name in ("reads", "runs", "changed", "awaits")}
    for name, node in readers.items():
        register(lake, BY_NAME, name, asked_by(BY_NAME, [node]))
        register(lake, READINGS, name, asked_by(READINGS, []))
    write(lake, resolve_references(lake, readers["reads"]))
    for name in ("runs", "changed"):
        write(lake, READINGS.where("value > 0").named(name))
    assert drop_registrations(lake, SystemClock()) == ["reads of readings", "changed of counts"]
    assert readers_of(lake, "counts@") == ["awaits", "reads", "runs"]
    assert readers_of(lake, "readings") == ["awaits", "changed", "runs"]
    assert drop_registrations(lake, SystemClock()) == []


def test_maintenance_removes_old_logs_of_former_generations_that_nobody_reads(lake: Lake) -> None:
    write(lake, COUNTS)
    current, reader = COUNTS.fingerprint()[:12], resolve_references(lake, ALERTS)
    write(lake, reader)
    small_files.write_json(f"{lake.table('alerts')}/some.json", {})
    changed = replace(COUNTS, grace_ms=5)
    write(lake, changed)
    after = changed.fingerprint()[:12]
    for generation in (current, after, "kept", "built", "fresh", "old"):
        table = lakes.create(lake.log(f"counts@{generation}"), pa.schema([("n", pa.int64())]), kinds.log(()))
        at_ms = 9 if generation == "fresh" else 5
        record = {"writer": f"log/counts@{generation}", "ingested_at_ms": at_ms}
        lakes.TableWriter(table, lakes.APPENDER).append([], record)
    small_files.write_json(f"{lake.former('counts')}/former.json", asdict(Former("kept", after, 0, batch=1)))
    small_files.write_json(f"{lake.rebuilds('counts')}/built/some.json", {})
    assert former_of(lake, "counts") is not None
    assert [*former_logs(lake, 5)] == ["counts@old"]
    write(lake, resolve_references(lake, ALERTS))
    assert sorted(former_logs(lake, 9)) == sorted(f"counts@{each}" for each in (current, "fresh", "old"))


def test_in_a_test_driver_a_name_stands_for_the_node_beside_it() -> None:
    reader, written = among_themselves([ALERTS, COUNTS])
    assert written is COUNTS
    assert reader.topics == QUIET.topics
    with pytest.raises(
        DescriptionError, match="Node 'counts' is read by its name, and is not among the nodes"
    ):
        among_themselves([ALERTS])


def test_an_erasure_is_pending_for_whoever_follows_from_the_log_elsewhere(lake: Lake) -> None:
    write(lake, COUNTS)
    own = [QUIET, LOOKED_UP, READINGS.where("value > 0").named("positive"), SENSORS.named("sites")]
    far = hr.node("alerts", schema="sensor STRING, n BIGINT").group_by("sensor").aggregate(n=hr.sum("n"))
    for node in [*own, ALERTS.topics[0].select("sensor", "n").named("alerts")]:
        write(lake, resolve_references(lake, node))
    write(lake, resolve_references(lake, far.named("far")))
    for name in ("counts", "quiet", "looked_up", "positive", "sites", "alerts", "far", "old"):
        small_files.write_json(f"{lake.table(name)}/some.json", {})
    elsewhere = sorted(nodes_following(lake, ["readings", "counts@"], ["counts", "quiet"]))
    assert elsewhere == ["alerts", "far", "looked_up", "positive"]
    assert nodes_following(lake, ["alerts@"]) == ["far"]
    write(lake, READINGS.where("value > 0").named("gone"))
    note_pending(lake, "readings", ["gone"])
    assert [each.node for each in pending(lake)] == ["gone"]
    small_files.delete(lake.description("gone"))
    assert pending(lake) == []
    has_followed(lake, "readings", "gone")
    note_pending(lake, "readings", ["far"])
    first = pending(lake)
    note_pending(lake, "readings", elsewhere)
    assert [(each.node, each.topic) for each in pending(lake)] == [(name, "readings") for name in elsewhere]
    assert first[0] in pending(lake)
    for name in ("looked_up", "alerts", "positive"):
        has_followed(lake, "readings", name)
    assert pending(lake) == first
    waiting = CliRunner().invoke(app, ["erasures", "--lake", lake.root])
    assert (waiting.exit_code, waiting.output.startswith("far: pending since 20")) == (1, True)
    has_followed(lake, "readings", "far")
    assert "No erasure is pending." in CliRunner().invoke(app, ["erasures", "--lake", lake.root]).output
