"""Topics whose logs are written again, and windows that are rebuilt from a day on: through crashes, and the law holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.plan import UNCHANGED
from headrace.changing.plan_changes import plan_changes
from headrace.changing.roll_back import roll_back
from headrace.lake import small_files
from headrace.lake.care.swap import replace_table
from headrace.lake.commits.fence import FencedError
from headrace.lifecycle.backfill import verify
from headrace.lifecycle.log_repair import remake_log as remaking
from headrace.lifecycle.log_repair import rewrite_log as rewriting
from headrace.lifecycle.log_repair.remake_log import remake_log
from headrace.lifecycle.log_repair.rewrite_log import rewrite_log
from headrace.lifecycle.oracle_check import verify_keys
from headrace.lifecycle.retention import Retention
from headrace.log.clock import SystemClock
from headrace.log.history.filled_columns import added_of
from headrace.log.site import Site
from headrace.nodes.descriptions.evolution import REBUILT
from headrace.quality.books import open_books
from headrace.sequence.sequence_records import RECORDS
from headrace.settings.kafka import KafkaSettings
from headrace.writing.leases.lease import take_lease
from tests.changing.living import START_MS, Living
from tests.changing.test_apply import READINGS, DiedError, apply, dying

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def living(spark: SparkSession, tmp_path: Path) -> Living:
    return Living(spark, tmp_path / "lake", READINGS)


def test_a_log_is_written_again_under_other_columns_and_goes_on(living: Living) -> None:
    first = replace(READINGS, value="value FLOAT, unit STRING")
    living = Living(living.spark, living.folder.parent / "other", first)
    before = [
        first.group_by("sensor").aggregate(n=hr.count(), total=hr.sum("value")).named("totals"),
        first.group_by("sensor")
        .window(hr.tumbling("1 minute"), grace="0 s")
        .aggregate(n=hr.count())
        .named("counts"),
    ]
    living.commit((0, "a", 1), (0.5, "a", 2))
    living.commit((3, "b", 3))
    living.fold(before)
    old = living.tables(before)
    now = replace(
        READINGS,
        value="celsius DOUBLE, place STRING, at TIMESTAMP",
        renamed={"celsius": "value"},
        added={"place": "hall", "at": datetime(2024, 5, 1, 12, tzinfo=UTC)},
    )
    with pytest.raises(
        hr.TerminalError, match="has no column place, at, and older records are to have values"
    ):
        Living(living.spark, living.folder, now)
    after: list[Any] = [
        now.group_by("sensor").aggregate(n=hr.count(), total=hr.sum("celsius")).named("totals"),
        now.group_by("sensor")
        .window(hr.tumbling("1 minute"), grace="0 s")
        .aggregate(n=hr.count())
        .named("counts"),
    ]
    plan = plan_changes(living.lake, after)
    assert [each.outcome for each in plan.topics] == [REBUILT]
    assert [each.outcome for each in plan.nodes] == [REBUILT, UNCHANGED]
    lease = take_lease(living.spark, living.lake.lease("log/readings"), "Log 'readings'", SystemClock())
    with pytest.raises(hr.TerminalError, match="cannot be written again while another process writes there"):
        apply(living, after)
    lease.release()

    def appended(step: str) -> None:
        """As another process does once the leases of one that was paused have expired."""
        if step == "after rows":
            Living(living.spark, living.folder, first).commit((4, "a", 9))

    def erased(step: str) -> None:
        """As an erasure does."""
        if step == "after rows":
            lakes.TableWriter(lakes.open_table(living.lake.log("readings")), lakes.MAINTAINER)

    with pytest.raises(FencedError, match="a newer maintainer"):
        ApplyChanges(Site(living.spark, living.lake, on_step=erased), after).run()
    with pytest.raises(FencedError, match="a newer appender"):
        ApplyChanges(Site(living.spark, living.lake, on_step=appended), after).run()
    living.fold(before)
    old = living.tables(before)
    told = apply(living, after, ("after rows",))
    assert told.startswith("topic readings: its log was written again\nnode totals: ")
    # As another apply does that had planned the same.
    rewrite_log(Site(living.spark, living.lake, SystemClock()), now, {"celsius": "value"}, after)
    assert living.tables(after) == living.tables_anew(after) == old
    living = Living(living.spark, living.folder, now)
    living.commit((5, "a", 7), name="celsius")
    after.append(now.group_by("place", "at").aggregate(n=hr.count()).named("places"))
    living.fold(after)
    tables = living.tables(after)
    assert tables == living.tables_anew(after) != old
    assert tables["places"] == [
        "Row(place='hall', at=datetime.datetime(2024, 5, 1, 12, 0), n=4)",
        "Row(place=None, at=None, n=1)",
    ], "later records hold what they bring: this one has no place, and null is a group"
    assert str(ApplyChanges(Site(living.spark, living.lake), after).run()) == "Nothing was to be applied."


def test_a_log_that_keeps_bytes_becomes_the_one_of_another_description(living: Living) -> None:
    def described(value: str) -> tuple[hr.Topic, list[Any]]:
        topic = replace(READINGS, name="raw", value=value, keep_raw=True)
        windows = topic.group_by("sensor").window(hr.tumbling("1 minute"), grace="0 s")
        return topic, [windows.aggregate(n=hr.count()).named("counts"), topic.table().named("latest")]

    def lived(folder: Path, topic: hr.Topic, nodes: list[Any]) -> Living:
        made = Living(living.spark, folder, topic)
        made.commit((0, "a", 1), (2.5, "a", 1.5))
        made.commit((1, "b", 3), (0.5, "a", 2))
        made.fold(nodes)
        return made

    (first, before), (now, after) = described("value INT"), described("value DOUBLE")
    changed = lived(living.folder.parent / "changed", first, before)
    with pytest.raises(hr.TerminalError, match="has other columns than the description"):
        Living(changed.spark, changed.folder, now)
    told = apply(changed, after, ("after rows", "before swap"))
    assert "The former tables are not kept: they are of the log of raw before" in told
    assert not small_files.exists(changed.lake.former("counts"))
    with pytest.raises(hr.TerminalError, match="cannot go back") as refused:
        roll_back(changed.spark, changed.lake)
    assert refused.value.detail == "\n".join(
        f"{name}: the change wrote the log of raw again, so no former tables were kept."
        for name in ("counts", "latest")
    )
    wanted = lived(living.folder.parent / "wanted", now, after)
    assert changed.tables(after) == wanted.tables(after)
    for each in (Living(changed.spark, changed.folder, now), wanted):
        each.clock.set(wanted.clock.now_ms() + 10_000)
        each.commit((3, "b", 0.5))
        each.fold(after)
    assert changed.tables(after) == wanted.tables(after) == changed.tables_anew(after)
    plan = plan_changes(changed.lake, after)
    assert {each.outcome for each in plan.topics} == {each.outcome for each in plan.nodes} == {UNCHANGED}


@pytest.mark.parametrize("anew", [False, True])
def test_a_log_that_was_replaced_before_a_crash_tells_which_columns_have_values(
    living: Living, monkeypatch: pytest.MonkeyPatch, anew: bool
) -> None:
    """A commit that comes back later gets these values (see `lifecycle.log_repair.fill_columns`)."""

    def described(value: str, **options: Any) -> list[Any]:
        topic = replace(READINGS, value=value, **options)
        return [topic.group_by("sensor").aggregate(n=hr.count()).named("totals")]

    def dies(*args: Any, **options: Any) -> None:
        replace_table(*args, **options)
        raise DiedError

    class Kafka:
        """Has the records that the log holds."""

        def __init__(self, *asked: Any) -> None:
            """Nothing is asked of a broker."""

        def delivered(self, rows: pa.Table) -> pa.Table:
            places = zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
            records: list[Any] = [(*place, b"a", b'{"value": 1}', START_MS, [], []) for place in places]
            return pa.table([*zip(*records, strict=True)] or [()] * len(RECORDS), schema=RECORDS)

    living.commit((0, "a", 1), (2.5, "a", 2))
    living.fold(described("value DOUBLE"))
    apply(living, described("value DOUBLE, place STRING", added={"place": "hall"}))
    log = lakes.open_table(living.lake.log("readings"))
    assert {name: entry["value"] for name, entry in added_of(log).items()} == {"place": "hall"}
    if anew:
        monkeypatch.setattr(remaking, "replace_table", dies)
        monkeypatch.setattr(remaking, "KafkaAgain", Kafka)
        nodes = described("value INT, place STRING", keep_raw="kafka")
        with pytest.raises(DiedError):
            remake_log(
                Site(living.spark, living.lake, SystemClock()),
                nodes[0].topics[0],
                nodes,
                kafka=KafkaSettings(bootstrap_servers="kafka:9092"),
            )
    else:
        monkeypatch.setattr(rewriting, "replace_table", dies)
        with pytest.raises(DiedError):
            apply(living, described("value DOUBLE, spot STRING", renamed={"spot": "place"}))
    assert {name: entry["value"] for name, entry in added_of(log).items()} == (
        {} if anew else {"spot": "hall"}
    )


def test_a_new_aggregate_of_a_log_that_was_cut_is_made_from_a_day_on(living: Living) -> None:
    def counts(since: str | None = None, **more: Any) -> Any:
        hourly = READINGS.group_by("sensor").window(hr.tumbling("1 hour"), grace="0 s")
        return hourly.aggregate(n=hr.count(), **more).named("counts", since=since)

    def by_day(rows: list[str]) -> tuple[list[str], list[str]]:
        older = [row for row in rows if "window_start=datetime.datetime(2023, 11, 14" in row]
        return older, [row for row in rows if row not in older]

    living.commit((0, "a", 1), (50, "b", 2))
    living.commit((100, "a", 3))
    living.clock.set(living.clock.now_ms() + 60_000)
    cut_ms = living.clock.now_ms()
    living.commit((110, "b", 4), (130, "a", 5), (200, "b", 6))
    before, after = [counts()], [counts("2023-11-15", total=hr.sum("value"))]
    living.fold(before)
    older, _ = by_day(living.tables(before)["counts"])
    wanted = living.tables_anew([counts(total=hr.sum("value"))])["counts"]
    cut = Retention(living.spark, living.lake, before, READINGS).run(cut_ms)
    assert cut.rows
    with pytest.raises(hr.TerminalError, match="were cut off"):
        apply(living, [counts(total=hr.sum("value"))])
    apply(living, after, ("after results",))
    found = by_day(living.tables(after)["counts"])
    assert found == ([row[:-1] + ", total=None)" for row in older], by_day(wanted)[1])
    assert found[0]
    assert found[1]
    living.commit((300, "a", 7))
    living.fold(after)
    (node,) = after
    assert all(each.equal for each in verify(living.spark, living.lake, node))
    assert verify_keys(living.spark, living.lake, node, 5).equal
    books = open_books(living.spark, living.lake, node)
    assert books.log_intact
    assert books.total("used") == books.in_results
    table = lakes.open_table(living.lake.table("counts"))
    assert table.metadata.configuration["headrace.since"] == "2023-11-15"
    with pytest.raises(hr.TerminalError, match="former tables were deleted"):
        roll_back(living.spark, living.lake)


def test_aggregates_of_a_log_that_was_cut_are_removed_and_renamed(living: Living) -> None:
    def nodes(**aggregates: Any) -> list[Any]:
        grouped = READINGS.group_by("sensor")
        windows = grouped.window(hr.tumbling("1 minute"), grace="30 seconds").aggregate(**aggregates)
        return [windows.named("counts"), grouped.aggregate(**aggregates).named("totals")]

    before = nodes(n=hr.count(), total=hr.sum("value"), newest=hr.last("value"))
    after = nodes(last=hr.last("value"), n=hr.count())
    living.commit((0, "a", 1), (0.5, "b", 2), (1, "a", 3))
    living.commit((3, "a", 4), (2.8, "b", 5), (1, "b", 9))
    living.clock.set(living.clock.now_ms() + 60_000)
    cut_ms = living.clock.now_ms()
    living.commit((3.2, "b", 6), (9, "a", 7))
    living.fold(before)
    wanted = living.tables_anew(after)
    assert Retention(living.spark, living.lake, before, READINGS).run(cut_ms).rows
    told = str(plan_changes(living.lake, after))
    assert told.count("rebuilt from the log's rest and its opening balance") == 2
    with pytest.raises(DiedError):
        ApplyChanges(Site(living.spark, living.lake, on_step=dying("after rules")), after).run()
    apply(living, after, ("after results", "after results"))
    assert living.tables(after) == wanted
    assert "last=4.0" in str(wanted["counts"]), "a window that was closed before the cut"
    assert {each.outcome for each in plan_changes(living.lake, after).nodes} == {UNCHANGED}
    living.commit((9.5, "b", 8), (20, "b", 1))
    living.fold(after)
    assert Retention(living.spark, living.lake, after, READINGS).run(living.clock.now_ms()).rows
    for node in after:
        assert all(each.equal for each in verify(living.spark, living.lake, node))
        assert small_files.names(living.lake.openings(node.required_name)) == [
            small_files.read_json(living.lake.opening(node.required_name))["folder"]  # type: ignore[index]
        ]
    with pytest.raises(hr.TerminalError, match="rows of its log were cut off since"):
        roll_back(living.spark, living.lake)
