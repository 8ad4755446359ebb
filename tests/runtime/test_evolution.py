"""What becomes of a log and of state when the description changes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.description import WindowedAggregate
from headrace.lake.paths import Lake
from headrace.lifecycle.erasure import Erasure
from headrace.lifecycle.rebuilds.rebuild import Rebuild, rebuild_due
from headrace.lifecycle.retention import Retention
from headrace.log.clock import SystemClock
from headrace.nodes.bases import ReplacedRowsError
from headrace.nodes.descriptions.evolution import HINTS, REBUILT, REFUSED
from headrace.nodes.node_tables import read_logs
from headrace.nodes.unusable_table import UnusableTable
from headrace.observe.local_views import LocalViews
from headrace.observe.views import Views
from headrace.spark.kafka import KafkaSettings
from headrace.streams.stream_runtime import StreamRuntime
from headrace.writing.leases.lease import LeaseTakenError, take_lease
from tests.rows import in_order, require_backfilled
from tests.runtime.line import Line, at

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.description import Node

pytestmark = pytest.mark.spark

NARROW = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
WIDE = replace(NARROW, value="place STRUCT<city: STRING>, value DOUBLE, unit STRING")


def counts(topic: hr.Topic, grace: str = "0 minutes") -> WindowedAggregate:
    windows = topic.group_by().window(hr.tumbling("1 minute"), grace=grace)
    return windows.aggregate(n=hr.count(), total=hr.sum("value")).named("counts")


def send(line: Line, time: str, **value: object) -> None:
    line._piped.add("s1", json.dumps(value), at(f"2024-06-01 {time}"), 0, {})
    line.commit()
    line.fold()


def test_a_column_that_a_topic_gains_is_null_before_and_nodes_that_do_not_read_it_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(f"file:{tmp_path}")
    send(Line(spark, lake, counts(NARROW)), "00:00:01", value=1.0)
    line = Line(spark, lake, counts(WIDE))
    assert line.runner.progress.batch == 1
    send(line, "00:00:02", value=2.0, unit="K", place={"city": "Bern"})
    rows = [tuple(row)[3:] for row in Views(spark, lake).read(line.node).collect()]
    assert rows == [(2, 3.0)]
    log = read_logs(spark, lake, line.node, line.runner.progress.upto_ms)[line.topic.name]
    assert [(r.value, r.unit, r.place) for r in log.orderBy("offset").select("value.*").collect()] == [
        (1.0, None, None),
        (2.0, "K", ("Bern",)),
    ]
    with pytest.raises(hr.TerminalError) as error:
        _ = Line(spark, lake, counts(NARROW)).sequencer
    assert "has other columns than the description" in str(error.value)


def test_another_description_is_refused_and_what_changed_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(f"file:{tmp_path}")
    send(Line(spark, lake, counts(NARROW)), "00:00:01", value=1.0)
    with pytest.raises(hr.TerminalError) as error:
        Line(spark, lake, counts(NARROW, grace="5 minutes"))
    assert "was written by another description" in str(error.value)
    assert error.value.detail == "stored -> described: grace: 0 ms -> 5 minutes"
    wider = replace(counts(NARROW), aggregates=(("n", hr.count()),))
    with pytest.raises(hr.TerminalError) as error:
        Line(spark, lake, wider)
    assert error.value.detail is not None
    # before: both descriptions as JSON, in which the order of keys differed, too
    assert error.value.detail == (
        "stored -> described: - total (was sum(value, scale=6)); columns read: value DOUBLE -> none"
    )


def test_a_run_until_caught_up_ends_with_what_a_person_must_decide(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Before: an error that may go away, with exit code 75, so a script would have tried again for ever."""
    lake = Lake(f"file:{tmp_path}")
    send(Line(spark, lake, counts(NARROW)), "00:00:01", value=1.0)
    changed, kafka = counts(NARROW, grace="5 minutes"), KafkaSettings(bootstrap_servers="localhost:1")
    runtime = StreamRuntime(spark, lake, [changed], kafka=kafka, only={"stream/counts_stream"}, trigger_ms=20)
    with pytest.raises(hr.TerminalError, match="failed for good"):
        runtime.run_until_caught_up(60, poll_seconds=0.05)
    runtime.drain()


LIMIT = hr.until_time_limit("2 minutes")
GROUPED = NARROW.group_by()
SUPPRESSIBLE: dict[str, Any] = {
    "windows": GROUPED.window(hr.tumbling("1 minute"), grace="0 minutes").aggregate(total=hr.sum("value")),
    "totals": GROUPED.aggregate(total=hr.sum("value")),
    "rows": NARROW.table(),
}


class DiedError(Exception):
    """A crash."""


def swap(spark: SparkSession, lake: Lake, rebuild: Rebuild, node: Node) -> None:
    """Swap it in under the node's lease."""
    name = node.required_name
    lease = take_lease(spark, lake.lease(f"node/{name}"), f"Node '{name}'", SystemClock())
    try:
        rebuild.swap(lease)
    finally:
        lease.release()


def evolved(spark: SparkSession, lake: Lake, node: Node, dies_after: str | None = None) -> tuple[Line, bool]:
    """The node as its stream opens it, and whether it was rebuilt."""

    def on_step(step: str) -> None:
        if step == dies_after:
            raise DiedError

    rebuild = rebuild_due(spark, node, lake, SystemClock(), on_step=on_step)
    if rebuild is not None:
        try:
            while rebuild.advance():
                pass
            swap(spark, lake, rebuild, node)
        finally:
            rebuild.close()
    return Line(spark, lake, node), rebuild is not None


def same_as_built_anew(line: Line, number: int) -> None:
    """Its table holds what a new node of the same description has, and what a backfill recomputes."""
    views, node = LocalViews(line.spark, line.lake), line.node
    anew = Line(line.spark, line.lake, node.named(f"anew_{number}"))
    anew.fold()
    line.runner.maintain()
    rows = in_order(views.read(node), *node.columns)
    assert rows
    assert rows == in_order(views.read(anew.node), *node.columns)
    require_backfilled(line.spark, line.lake, node)


@pytest.mark.parametrize("kind", SUPPRESSIBLE)
def test_a_time_limit_is_added_altered_and_removed_under_the_same_name_and_nothing_is_lost(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    lake, plain = Lake(f"file:{tmp_path}"), SUPPRESSIBLE[kind].named("kept")
    send(Line(spark, lake, plain), "00:00:01", value=1.0)
    changes = [plain.suppress(LIMIT), plain]
    if kind == "windows":
        changes.insert(1, plain.suppress(hr.until_time_limit("10 seconds")))
    for number, node in enumerate(changes):
        with pytest.raises(hr.TerminalError, match="was written by another description") as error:
            Line(spark, lake, node)
        assert error.value.hint == HINTS[REBUILT]
        if number == 1 and kind == "windows":
            with pytest.raises(DiedError):  # results are the new ones, the state is not
                evolved(spark, lake, node, dies_after="after results")
            with pytest.raises(hr.TerminalError):  # nor is it taken for the old one
                Line(spark, lake, changes[0])
        line, rebuilt = evolved(spark, lake, node)
        assert rebuilt
        send(line, f"00:0{3 + number}:00", value=2.0)
        same_as_built_anew(line, number)
        assert not (tmp_path / "rebuilds" / "kept" / node.fingerprint()[:12]).exists()


def test_final_results_are_switched_on_and_off_and_the_node_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, plain = Lake(f"file:{tmp_path}"), SUPPRESSIBLE["windows"].named("kept")
    send(Line(spark, lake, plain), "00:00:01", value=1.0)
    for number, node in enumerate([plain.suppress(hr.until_window_closes()), plain]):
        line, rebuilt = evolved(spark, lake, node)
        assert (rebuilt, line.runner.progress.batch) == (False, 1 + 2 * number)
        send(line, f"00:0{2 + number}:00", value=2.0)
        line = Line(spark, lake, node)  # its rules are noted now
        send(line, f"00:0{3 + number}:00", value=3.0)
        same_as_built_anew(line, number)
    with pytest.raises(hr.TerminalError, match="was written by another description") as error:
        Line(spark, lake, replace(plain, grace_ms=5).suppress(LIMIT))
    assert error.value.hint == HINTS[REFUSED]


def test_a_key_is_erased_from_a_log_that_has_gained_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Before: the table has them last, the description before others, and Spark refused to blank such rows."""
    lake, narrow, wide = Lake(f"file:{tmp_path}"), counts(NARROW), counts(WIDE)
    send(Line(spark, lake, narrow), "00:00:01", value=1.0)
    send(Line(spark, lake, wide), "00:00:02", value=2.0, unit="K", place={"city": "Bern"})
    erased = {each.what: each.rows for each in Erasure(spark, lake, [wide], WIDE, "s1").run()}
    assert erased["log"] == 2
    line = Line(spark, lake, wide)
    assert line.runner.progress.totals() == {"erased": 2}
    log = read_logs(spark, lake, wide, line.runner.progress.upto_ms)["readings"]
    assert [(row.value, row.reason) for row in log.select("value", "reason").collect()] == [
        (None, "erased")
    ] * 2
    send(line, "00:05:00", value=3.0, unit="C")
    rows = [tuple(row)[3:] for row in Views(spark, lake).read(wide).collect()]
    assert rows == [(1, 3.0)]


def test_a_rebuild_that_has_read_an_erased_key_begins_again(spark: SparkSession, tmp_path: Path) -> None:
    lake, plain = Lake(f"file:{tmp_path}"), SUPPRESSIBLE["totals"].named("kept")
    send(Line(spark, lake, plain), "00:00:01", value=1.0)
    changed = plain.suppress(LIMIT)
    rebuild = rebuild_due(spark, changed, lake, SystemClock())
    assert rebuild is not None
    assert (rebuild.records, rebuild.records_before) == (0, 1)
    assert rebuild.advance()
    assert (rebuild.records, rebuild.records_before) == (1, 1)
    with pytest.raises(LeaseTakenError, match="Rebuild of 'kept' is already being written"):
        list(Erasure(spark, lake, [plain], NARROW, "s1").run())
    rebuild.close()
    erased = {each.what: each.rows for each in Erasure(spark, lake, [plain], NARROW, "s1").run()}
    assert erased["log"] == 1
    line, rebuilt = evolved(spark, lake, changed)
    assert rebuilt
    assert line.runner.progress.totals() == {"erased": 1}
    assert Views(spark, lake).read(changed).count() == 0


def test_one_that_was_paused_meanwhile_merges_nothing_of_before_into_results_that_came(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(f"file:{tmp_path}")
    before, changed = (
        GROUPED.aggregate(total=of).named("kept", on_change="rebuild")
        for of in (hr.sum("value"), hr.max("value"))
    )
    paused = Line(spark, lake, before)
    send(paused, "00:00:01", value=1.0)  # its change is not in the table of current results yet
    swapped, rebuilt = evolved(spark, lake, changed)
    assert rebuilt
    same_as_built_anew(swapped, 0)
    with pytest.raises(ReplacedRowsError, match="another process has replaced its results"):
        paused.runner.compact()
    list(Erasure(spark, lake, [changed], NARROW, "s1").run())
    with pytest.raises(ReplacedRowsError):
        swapped.runner.compact()
    assert Views(spark, lake).read(changed).count() == 0
    opened, _ = evolved(spark, lake, changed)
    send(opened, "00:05:00", value=2.0)
    opened.runner.compact()


def test_a_log_is_not_cut_while_a_node_is_rebuilt(spark: SparkSession, tmp_path: Path) -> None:
    lake, plain = Lake(f"file:{tmp_path}"), SUPPRESSIBLE["totals"].named("kept")
    line = Line(spark, lake, plain)
    for second in (1, 2):
        line.clock.set(line.clock.now_ms() + 1_000)
        send(line, f"00:00:0{second}", value=1.0)
    rebuild = rebuild_due(spark, plain.suppress(LIMIT), lake, SystemClock())
    assert rebuild is not None
    rebuild.close()
    with pytest.raises(hr.TerminalError, match="its log cannot be cut") as refused:
        Retention(spark, lake, [plain], NARROW).run(line.clock.now_ms())
    folder = lake.rebuilds("kept")
    assert refused.value.detail == (
        f"kept needs the log from its start: it is rebuilt in {folder}; let that end, or remove the folder."
    )


def test_a_node_whose_log_was_cut_is_not_rebuilt_from_the_rest(spark: SparkSession, tmp_path: Path) -> None:
    lake, plain = Lake(f"file:{tmp_path}"), SUPPRESSIBLE["totals"].named("kept")
    line = Line(spark, lake, plain)
    for second in (1, 2):
        line.clock.set(line.clock.now_ms() + 1_000)
        send(line, f"00:00:0{second}", value=1.0)
    assert Retention(spark, lake, [plain], NARROW).run(line.clock.now_ms()).rows
    with pytest.raises(hr.TerminalError, match="older rows of its log were cut off"):
        rebuild_due(spark, plain.suppress(LIMIT), lake, SystemClock())


@pytest.mark.long
def test_a_rebuild_and_whoever_wrote_the_node_before_remember_what_they_cannot_use_each_by_itself(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, topic = Lake(f"file:{tmp_path}"), replace(NARROW, value="m STRING")
    entries = topic.with_column("entry", "str_to_map(m)['a']").group_by("sensor_id")
    plain = entries.aggregate(n=hr.count(), top=hr.max("entry")).named("kept")
    line, changed = Line(spark, lake, plain), plain.suppress(LIMIT)

    def commit(minute: int) -> None:
        for m in ("a:1", "a:1,a:2"):
            line._piped.add("s1", json.dumps({"m": m}), at(f"2024-06-01 00:0{minute}:00"), 0, {})
        line.commit()

    def known(of: Lake) -> list[int]:
        return [each.offset for each in UnusableTable(spark, of, plain).read()]

    commit(1)
    line.fold()
    rebuild = rebuild_due(spark, changed, lake, SystemClock())
    assert rebuild is not None
    commit(2)
    while rebuild.advance():
        pass
    assert known(lake) == [1]
    line.fold()  # the rebuild has not taken its table from it
    assert known(lake) == [1, 3]
    commit(3)
    while rebuild.advance():
        pass
    assert known(lake) == [1, 3]
    swap(spark, lake, rebuild, changed)
    rebuild.close()
    assert known(lake) == [1, 3]
    line = Line(spark, lake, changed)
    assert line.runner.progress.totals() == {"kept": 2, "dead_letter": 2}, "it stands where the node stood"
    commit(9)
    line.fold()
    assert known(lake) == [1, 3, 5, 7]
    same_as_built_anew(line, 0)
