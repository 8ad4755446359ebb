"""`why` over chains and lookups, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli import app
from headrace.errors import DescriptionError, TerminalError
from headrace.explain import row_cause, scope_size
from headrace.explain.keyed_evidence import KeyedEvidence
from headrace.explain.record_fate import fate_of_record
from headrace.explain.row_cause import ExplainedNode, causes_of
from headrace.lake import open_table
from headrace.lifecycle import oracle_check
from headrace.lifecycle.evidence.spark_evidence import SparkEvidence
from headrace.testing import TestDriver
from tests.matrix.kinds import nodes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE, BEGIN_MS = 60_000, 1_700_000_040_000
READINGS = hr.Topic("readings", key="sensor STRING", value="value BIGINT, place STRING", idle_timeout=None)
PLACES = hr.Topic("places", key="place STRING", value="city STRING")
WINDOWS = (
    READINGS.group_by()
    .window(hr.tumbling("1 minute"), grace="10 seconds")
    .aggregate(n=hr.count(), most=hr.max("value"))
    .suppress(hr.until_window_closes())
    .named("windows")
)
TOTALS = READINGS.group_by().aggregate(n=hr.count(), total=hr.sum("value")).named("totals")
PLACED = READINGS.lookup(PLACES.table(), on="place").named("placed")
BUSY = WINDOWS.as_stream().where("n > 1").named("busy")
NODES = [WINDOWS, TOTALS, PLACED, BUSY]


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> Any:
    driver = TestDriver(NODES)
    yield driver
    driver.close()


def pipe(driver: TestDriver, second: int, value: int | None, key: str = "a") -> int:
    content = {"value": value, "place": "p"}
    return driver.pipe("readings", key=key, value=content, timestamp_ms=BEGIN_MS + second * 1_000)


@pytest.mark.fast
def test_a_windows_row_names_what_counted_and_what_came_too_late(driver: TestDriver) -> None:
    for second, value in ((0, 5), (30, 9), (75, 1), (20, 100)):
        pipe(driver, second, value)
    driver.cut()
    cause, still_open = driver.why("windows", sensor="a")
    assert cause.row["most"] == 9
    assert still_open.state == "open"
    assert [(r.offset, r.deciding, r.without) for r in cause.records] == [
        (0, True, {"n": 1}),
        (1, True, {"n": 1, "most": 5}),
    ]
    assert [(r.offset, r.fate, r.late_ms) for r in cause.uncounted] == [(3, "late", 5_000)]
    assert cause.proved
    assert cause.state == "final"


@pytest.mark.fast
def test_a_chained_row_leads_to_the_records_of_the_node_above(driver: TestDriver) -> None:
    for second in (0, 30, 75):
        pipe(driver, second, 5)
    driver.cut()
    (cause,) = driver.why("busy", sensor="a")
    assert [r.topic.partition("@")[0] for r in cause.records] == ["windows"]
    assert [[r.offset for r in above.records] for above in cause.above] == [[0, 1]]
    assert not driver.why("busy", sensor="a", depth=0)[0].above


@pytest.mark.fast
def test_a_lookup_names_the_row_that_it_found(driver: TestDriver) -> None:
    for city in ("Bonn", "Kiel"):
        driver.pipe("places", key="p", value={"city": city}, timestamp_ms=BEGIN_MS)
    driver.cut()
    pipe(driver, 1, 5)
    driver.cut()
    (cause,) = driver.why("placed", sensor="a")
    assert cause.row["city"] == "Kiel"
    assert [(r.feed, r.offset, r.deciding) for r in cause.records] == [
        ("versions", 1, True),
        ("records", 0, True),
    ]


@pytest.mark.fast
def test_what_cannot_be_explained_is_refused(driver: TestDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    for minute in range(13):
        pipe(driver, minute * 60, 5)
    driver.cut()
    with pytest.raises(DescriptionError, match="has no column 'sensr'"):
        driver.why("windows", sensr="a")
    with pytest.raises(TerminalError, match="no row with sensor=b"):
        driver.why("windows", sensor="b")
    with pytest.raises(DescriptionError, match="13 rows with sensor=a"):
        driver.why("windows", sensor="a")
    for number in range(11):
        driver.pipe("readings", key=f"key {number}", value={"value": 1}, timestamp_ms=BEGIN_MS + 840_000)
    driver.cut()
    with monkeypatch.context() as patch:
        patch.setattr(row_cause, "Recomputation", None)  # that is known before a log is read
        with pytest.raises(DescriptionError, match="11 keys with n=1; 10 at most"):
            driver.why("totals", n=1)
    monkeypatch.setattr(scope_size, "KEYED_BYTES", 0)
    monkeypatch.setattr(row_cause, "read_evidence", None)  # the size is known before anything is read
    with pytest.raises(TerminalError, match="logs and tables have"):
        driver.why("windows", sensor="a")


@pytest.mark.fast
def test_the_version_is_that_of_the_rows_that_were_read(
    driver: TestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(driver, 0, 5)
    driver.cut()
    read = oracle_check.read_evidence

    def later(*of: Any) -> Any:
        pipe(driver, 61, 7)
        pipe(driver, 200, 7)
        driver.cut()
        return read(*of)

    monkeypatch.setattr(row_cause, "read_evidence", later)
    cause = driver.why("windows", sensor="a")[0]
    assert cause.version == open_table(driver.lake.table("windows")).version


@pytest.mark.spark
def test_over_a_cut_log_the_opening_balance_is_named_and_spark_says_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = TestDriver([WINDOWS, TOTALS])
    pipe(driver, 0, 5)
    pipe(driver, 1, 7, key="b")
    driver.cut()
    driver.advance_wall_clock("1 hour")
    before_ms = driver.now_ms
    driver.cut()
    pipe(driver, 600, 9)
    pipe(driver, 601, 3, key="b")
    driver.cut()
    driver.retain("readings", before_ms)
    (cause,) = driver.why("totals", sensor="a")
    assert cause.row == {"sensor": "a", "n": 2, "total": 14}
    assert [r.offset for r in cause.records] == [2]
    assert (cause.opening_records, cause.proved) == (2, False)
    gone = driver.why_not("readings", 0, 0)
    assert (gone.record.state, gone.nodes) == ("cut_off", [])
    here = {each.node: each for each in driver.why_not("readings", 0, 2).nodes}
    assert here["totals"].rows == [{"sensor": "a", "n": 2, "total": 14}]
    assert here["totals"].opening_records == 2
    monkeypatch.setattr(oracle_check, "LOCAL_BYTES", 0)
    place = driver._topics["readings"], 0, 2
    by_spark = fate_of_record(driver.spark, driver.lake, [WINDOWS, TOTALS], place, large=True)
    assert {each.node: each for each in by_spark.nodes} == here
    (large,) = causes_of(driver.spark, driver.lake, TOTALS, {"sensor": "a"}, large=True)
    assert large == cause
    monkeypatch.undo()
    for node in (WINDOWS, TOTALS):
        whole = ExplainedNode(driver.spark, driver.lake, node, large=False).evidence
        part_by_part = KeyedEvidence.read(driver.spark, driver.lake, whole.node, whole.of)
        assert part_by_part.history() == whole.history() != []
    driver.close()


@pytest.mark.spark
def test_a_scope_without_a_key_that_is_too_large_says_its_size_and_is_read_by_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = nodes()["Processed"]  # a row says nothing certain of its group, so the rows of all keys are read
    driver = TestDriver([node], spark)
    for number in range(6):
        event = {"value": number, "place": "north"}
        driver.pipe("events", key="ab"[number % 2], value=event, timestamp_ms=BEGIN_MS + number * MINUTE)
    driver.cut()
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda _: [node])
    words = ["why", "processed", "key=a", "value=2", "--lake", driver.lake.root, "--json"]
    small = CliRunner().invoke(app, words)
    monkeypatch.setattr(scope_size, "LOCAL_BYTES", 1_000)
    monkeypatch.setattr(oracle_check, "LOCAL_BYTES", 1_000)
    with monkeypatch.context() as patch:
        patch.setattr(row_cause, "read_evidence", None)  # the size is known before anything is read
        refused = CliRunner().invoke(app, words).exception
    assert isinstance(refused, TerminalError)
    assert "Node 'processed': its logs and tables have" in str(refused)
    assert "--large" in str(refused.hint)
    with pytest.raises(TerminalError, match="its logs and tables have"):
        driver.why("processed", key="a", value=2)
    explained = ExplainedNode(spark, driver.lake, node, large=True)
    assert isinstance(explained.evidence, SparkEvidence)
    large = CliRunner().invoke(app, [*words, "--large"])
    assert large.exit_code == small.exit_code == 0, (small.output, large.output, large.exception)
    assert large.output == small.output
    (cause,) = map(json.loads, small.output.splitlines())
    assert [record["offset"] for record in cause["records"]] == [0, 2]
    driver.close()


@pytest.mark.spark
def test_erased_records_stay_erased() -> None:
    driver = TestDriver([WINDOWS, TOTALS])
    pipe(driver, 0, 5)
    pipe(driver, 1, 7, key="b")
    driver.cut()
    driver.erase("readings", "b")
    erased = driver.why_not("readings", 0, 1)
    assert erased.record.state == "erased"
    assert not any(erased.record.values.values())
    assert {each.fate for each in erased.nodes} == {"erased"}
    with pytest.raises(TerminalError, match="no row"):
        driver.why("totals", sensor="b")
    driver.close()


@pytest.mark.fast
def test_the_command_says_the_same_for_people_and_programs(
    driver: TestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second in (0, 30, 75):
        pipe(driver, second, 5)
    driver.cut()
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda _: NODES)
    words = ["why", "windows", "sensor=a", "--lake", driver.lake.root]
    text = CliRunner().invoke(app, words).output
    assert "windows · sensor=a" in text
    assert "2 records made it:" in text
    assert "readings 0/1" in text
    assert "without it n=1" in text
    facts = json.loads(CliRunner().invoke(app, [*words, "--json"]).output.splitlines()[0])
    assert [record["offset"] for record in facts["records"]] == [0, 1]


@pytest.mark.fast
def test_a_column_that_is_named_window_is_that_column() -> None:
    """Before, `window` was the start of a window, which totals do not have."""
    views = hr.Topic("views", key="user STRING", value="window STRING")
    driver = TestDriver([views.group_by("window").aggregate(n=hr.count()).named("totals")])
    driver.pipe("views", key="u", value={"window": "x"})
    driver.cut()
    (cause,) = driver.why("totals", window="x")
    assert cause.row["n"] == 1
    driver.close()
