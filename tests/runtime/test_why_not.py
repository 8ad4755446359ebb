"""`why-not`: the fate of a record in each node, its numbers, and what would have made it count."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli import app
from headrace.errors import TerminalError
from headrace.explain.asking import why
from headrace.explain.record_fate import NodeFate
from headrace.testing import TestDriver
from tests.runtime.test_why import BEGIN_MS, BUSY, PLACED, PLACES, READINGS, WINDOWS

pytestmark = pytest.mark.fast
LOUD = READINGS.where("value > 0").select("sensor", "value").where("value < 50").named("loud")
FIRST = READINGS.distinct("sensor", "value", within="1 minute", grace="1 minute").named("first")
NEWEST = READINGS.table(order_by="timestamp", forget_deletes_after="1 minute").named("newest")
NODES = [WINDOWS, BUSY, LOUD, PLACED, FIRST, NEWEST]


@pytest.fixture
def driver() -> Iterator[TestDriver]:
    driver = TestDriver(NODES)
    yield driver
    driver.close()


def pipe(driver: TestDriver, second: float, value: int | None = 5, key: str | None = "a") -> int:
    content = {"value": value, "place": "p"}
    at_ms = BEGIN_MS + int(second * 1_000)
    return driver.pipe("readings", key=key, value=content, timestamp_ms=at_ms)


def fates(driver: TestDriver, offset: int, partition: int = 0) -> dict[str, NodeFate]:
    return {each.node: each for each in driver.why_not("readings", partition, offset).nodes}


def test_a_late_record_names_the_window_by_how_much_and_the_grace_that_counts_it(driver: TestDriver) -> None:
    for second in (0, 75, 20):
        pipe(driver, second)
    driver.cut()
    windows = fates(driver, 2)["windows"]
    (miss,) = windows.missed
    assert (windows.fate, windows.rows) == ("late", [])
    assert (miss.start_ms - BEGIN_MS, miss.end_ms - BEGIN_MS, miss.late_ms) == (0, 60_000, 5_000)
    assert (miss.setting, miss.counts_from_ms) == ("grace", 15_001)
    assert [(each.node, each.fate) for each in windows.below] == [("busy", "not_reached")]
    assert windows.below[0].reason == "windows did not count it"


FINAL = hr.until_window_closes()
COUNTS = {"n": hr.count()}
# Each kind of node that knows late records, with the setting that bounds lateness.
BOUNDED: dict[str, Callable[[str], Any]] = {
    "tumbling": lambda ms: (
        READINGS.group_by().window(hr.tumbling("1 minute"), grace=ms).aggregate(**COUNTS).suppress(FINAL)
    ),
    "hopping": lambda ms: (
        READINGS.group_by()
        .window(hr.hopping("2 minutes", "1 minute"), grace=ms)
        .aggregate(**COUNTS)
        .suppress(FINAL)
    ),
    "sliding": lambda ms: (
        READINGS.group_by().window(hr.sliding("1 minute"), grace=ms).aggregate(**COUNTS).suppress(FINAL)
    ),
    "session": lambda ms: (
        READINGS.group_by().window(hr.session("1 minute"), grace=ms).aggregate(**COUNTS).suppress(FINAL)
    ),
    "distinct": lambda ms: READINGS.distinct("sensor", "value", within="1 second", grace=ms),
    "table": lambda ms: READINGS.table(order_by="timestamp", forget_deletes_after=ms),
    "join": lambda ms: READINGS.join(
        READINGS.select("sensor", "value AS other"), on="sensor", within="1 minute", grace=ms
    ),
    "lookup": lambda ms: READINGS.lookup(
        PLACES.table(order_by="timestamp"), on="place", as_of="event", history=ms
    ),
}


@pytest.mark.parametrize("kind", BOUNDED)
def test_the_setting_that_it_names_is_the_least_that_counts_the_record(kind: str) -> None:
    def fate_with(setting_ms: int) -> NodeFate:
        driver = TestDriver([BOUNDED[kind](f"{setting_ms} ms").named("bounded")])
        driver.pipe(
            "places", key="p", value={"city": "Bonn"}, timestamp_ms=BEGIN_MS
        ) if kind == "lookup" else None
        for second in (0, 575, 20.001):
            pipe(driver, second)
        driver.cut()
        fate = fates(driver, 2)["bounded"]
        driver.close()
        return fate

    late = fate_with(1_000)
    assert late.fate == "late"
    for miss in late.missed:
        shorter, enough = fate_with(miss.counts_from_ms - 1), fate_with(miss.counts_from_ms)
        assert miss.late_ms > 0
        assert miss.start_ms in {each.start_ms for each in shorter.missed}
        assert miss.start_ms not in {each.start_ms for each in enough.missed}
        assert enough.fate in ("used", "open")


def test_a_record_that_counts_names_its_rows_and_goes_on_into_the_nodes_below(driver: TestDriver) -> None:
    for second, value in ((0, 5), (30, 9), (75, 1)):
        pipe(driver, second, value)
    driver.cut()
    windows = fates(driver, 0)["windows"]
    assert windows.fate == "used"
    assert [(row["sensor"], row["n"], row["most"]) for row in windows.rows] == [("a", 2, 9)]
    (busy,) = windows.below
    assert (busy.node, busy.fate, busy.through) == ("busy", "used", 0)
    assert [row["n"] for row in busy.rows] == [2]
    (by_its_row,) = driver.why_not("windows", 0, 0).nodes  # a row of a node is a record, too
    assert (by_its_row.node, by_its_row.fate, by_its_row.rows) == ("busy", "used", busy.rows)
    last = fates(driver, 2)["windows"]
    assert (last.fate, last.rows[0]["n"]) == ("open", 1)
    assert last.below[0].reason == "windows has given no row with it yet"


def test_a_dropped_record_names_the_step_and_what_the_step_reads(driver: TestDriver) -> None:
    for value in (-1, 70, 7, 7):
        pipe(driver, 0, value)
    driver.cut()
    steps = [
        (each.fate, each.step, each.step_values) for each in (fates(driver, n)["loud"] for n in range(3))
    ]
    assert steps == [
        ("filtered", "where value > 0", {"value": -1}),
        ("filtered", "where value < 50", {"value": 70}),
        ("used", None, {}),
    ]
    assert [dict(row) for row in fates(driver, 2)["loud"].rows] == [{"sensor": "a", "value": 7}]


def test_a_copy_names_the_record_that_passed_and_a_late_delete_the_time_that_forgot_it(
    driver: TestDriver,
) -> None:
    for second in (0, 30, 200, 20):
        pipe(driver, second)
    driver.cut()
    copy, late = fates(driver, 1)["first"], fates(driver, 3)
    assert (copy.fate, copy.reason) == ("duplicate", "a copy of readings 0/0")
    (of_table,) = late["newest"].missed
    assert (of_table.setting, of_table.late_ms, of_table.counts_from_ms) == (
        "forget_deletes_after",
        120_000,
        180_001,
    )
    assert [(each.setting, each.counts_from_ms) for each in late["first"].missed] == [("grace", 180_001)]


def test_a_row_of_a_table_names_the_rows_that_a_lookup_gave_with_it(driver: TestDriver) -> None:
    driver.pipe("places", key="p", value={"city": "Bonn"}, timestamp_ms=BEGIN_MS)
    driver.cut()
    pipe(driver, 1)
    driver.cut()
    (placed,) = driver.why_not("places", 0, 0).nodes
    assert placed.fate == "used"
    assert [row["city"] for row in placed.rows] == ["Bonn"]


def test_a_dead_letter_tells_its_reason_for_every_node(driver: TestDriver) -> None:
    driver.pipe("readings", key="a", value=b"no JSON", timestamp_ms=BEGIN_MS)
    driver.cut()
    fate = driver.why_not("readings", 0, 0)
    assert fate.record.state == "dead_letter"
    assert fate.record.reason
    assert {each.fate for each in fate.nodes} == {"dead_letter"}
    assert {each.reason for each in fate.nodes} == {fate.record.reason}


def test_a_record_that_one_node_cannot_use_tells_the_reason_of_that_node(driver: TestDriver) -> None:
    pipe(driver, 0, key=None)
    driver.cut()
    newest = fates(driver, 0)["newest"]
    assert (newest.fate, newest.reason) == ("dead_letter", "key: sensor is null")


def test_a_place_without_a_record_says_why(driver: TestDriver) -> None:
    assert driver.why_not("readings", 0, 0).record.reason == "The log has read nothing yet."
    pipe(driver, 0)
    driver.cut()
    assert driver.why_not("readings", 0, 7).record.state == "not_read"
    assert "read partition 0 to offset 1" in str(driver.why_not("readings", 0, 7).record.reason)
    assert "has no partition 9" in str(driver.why_not("readings", 9, 0).record.reason)
    with pytest.raises(TerminalError, match="no node reads it"):
        driver.why_not("loud", 0, 0)


def test_a_hole_between_records_is_kafkas_or_a_move_of_the_log(driver: TestDriver) -> None:
    pipe(driver, 0)
    driver._piped["readings"]._next_offset[0] += 1  # as a transaction's marker leaves it
    pipe(driver, 1)
    driver.cut()
    hole = driver.why_not("readings", 0, 1)
    assert (hole.record.state, hole.nodes) == ("no_record", [])
    assert "a transaction's marker" in str(hole.record.reason)
    driver._sequencers["readings"].accept_gap({0: 9})
    assert driver.why_not("readings", 0, 5).record.reason == (
        "The log was moved past it, from offset 3 to 9."
    )


def test_a_move_of_the_log_is_that_of_the_partition(driver: TestDriver) -> None:
    """Before, the first move that had the offset was told, whatever its partition."""
    for partition in (0, 1):
        driver.pipe("readings", key="a", value={"value": 5}, timestamp_ms=BEGIN_MS, partition=partition)
    driver.cut()
    for moved in ({0: 100}, {1: 20}):
        driver._sequencers["readings"].accept_gap(moved)
    told = [str(driver.why_not("readings", partition, 15).record.reason) for partition in (0, 1)]
    assert told == [f"The log was moved past it, from offset 1 to {last}." for last in (100, 20)]


def test_a_record_that_a_node_has_not_read_yet_is_told_so(driver: TestDriver) -> None:
    pipe(driver, 0)
    driver.cut(nodes=["loud"])
    of = fates(driver, 0)
    assert (of["loud"].fate, of["windows"].fate) == ("used", "not_folded")
    assert of["windows"].below[0].fate == "not_reached"


def test_the_command_says_the_same_for_people_and_programs(
    driver: TestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second in (0, 75, 20):
        pipe(driver, second)
    driver.cut()
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda _: NODES)
    words = ["why-not", "readings", "0", "2", "--lake", driver.lake.root]
    text = CliRunner().invoke(app, words).output
    assert "readings 0/2 · sensor=a, value=5, place=p" in text
    assert "windows: late" in text
    assert (
        "late by 5 s for 2023-11-14 22:14:00.000 to 2023-11-14 22:15:00.000; "
        "a grace of 15 seconds 1 ms or longer would have counted it"
    ) in text
    assert "busy: not reached: windows did not count it" in text
    listed = CliRunner().invoke(app, ["records", "windows", "late", "--lake", driver.lake.root]).output
    assert "headrace why-not readings 0 2" in listed
    facts = json.loads(CliRunner().invoke(app, [*words, "--json"]).output.splitlines()[0])
    assert facts["record"]["offset"] == 2
    assert [each["node"] for each in facts["nodes"]] == ["windows", "loud", "placed", "first", "newest"]


def test_a_printed_command_works_as_it_stands(driver: TestDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    for second in (0, 75, 20):
        pipe(driver, second)
    driver.pipe("readings", key="it's b", value={"value": 5, "place": "nowhere"}, timestamp_ms=BEGIN_MS)
    driver.cut()
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda _: NODES)

    def output(command: str) -> str:
        _, *words = shlex.split(command)
        run = CliRunner().invoke(app, [*words, "--lake", driver.lake.root])
        assert run.exit_code == 0, run.output
        return run.output

    listed = output("headrace records windows late")
    assert "windows: late" in output(listed.split("More about one: ")[1].splitlines()[0])
    (row,) = driver.why("placed", sensor="it's b")
    alone = output(why("placed", {name: row.row[name] for name in ("sensor", "place")}))
    assert "readings 0/3" in alone
    assert "city=None" in alone
