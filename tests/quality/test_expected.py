"""What users expect of their rows: judged as Great Expectations judges it, on increments and whole tables, and set apart."""

from __future__ import annotations

import datetime as dt
import importlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.description import Node
from headrace.description.expectations import checked_expectations
from headrace.errors import DescriptionError
from headrace.quality.claims import Claim, Outcome
from headrace.quality.figures.failing_rows import can_be_erased, failing_rows
from headrace.quality.judgements import expected
from headrace.quality.judgements.expected import judge_increment, newest_version, sentence_of_increment
from headrace.quality.suites import judge
from headrace.spark.on_demand import SparkOnDemand
from headrace.testing import TestDriver
from tests.conftest import Drive
from tests.quality.conftest import COUNTS, EVIL, READINGS, Ground

gxe: Any = importlib.import_module(
    "great_expectations.expectations"
)  # it exports its classes to users, not to mypy
FEW_ROWS = gxe.ExpectTableRowCountToBeBetween(max_value=3, severity="warning")
SMALL = gxe.ExpectColumnValuesToBeBetween(column="n", max_value=1)
KNOWN = gxe.ExpectColumnValuesToMatchRegex(
    column="sensor_id", regex=r"^s\d$", description="Sensors are s1 to s9."
)
OF_ONE = ("Max", "Min", "Median")
ROWS: list[tuple[int | None, int | None, str | None]] = [
    *((1, 1, "s1"), (5, 4, "it's"), (None, 2, "a\\b"), (7, None, ""), (None, None, None), (9, 9, "s22")),
]
OF_ROWS = [
    gxe.ExpectColumnValuesToNotBeNull(column="a"),
    gxe.ExpectColumnValuesToBeNull(column="t"),
    gxe.ExpectColumnValuesToBeBetween(column="a", min_value=1, max_value=7, strict_min=True),
    gxe.ExpectColumnValuesToBeBetween(column="a", max_value=7, strict_max=True),
    gxe.ExpectColumnValuesToBeInSet(column="t", value_set=["s1", "it's", "a\\b"]),
    gxe.ExpectColumnValuesToNotBeInSet(column="a", value_set=[1, 9]),
    gxe.ExpectColumnValuesToMatchRegex(column="t", regex=r"^\w\d$"),
    gxe.ExpectColumnValuesToNotMatchRegex(column="t", regex=r"\\|'"),
    gxe.ExpectColumnValueLengthsToBeBetween(column="t", min_value=1, max_value=3),
    gxe.ExpectColumnValueLengthsToEqual(column="t", value=2),
    gxe.ExpectColumnPairValuesToBeEqual(column_A="a", column_B="b"),
    gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="a", column_B="b"),
    gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="a", column_B="b", or_equal=True),
]


@pytest.mark.spark
def test_the_condition_of_an_expectation_fails_the_rows_that_great_expectations_fails(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.createDataFrame(ROWS, "a INT, b INT, t STRING").coalesce(1).cache()
    ours = checked_expectations(OF_ROWS, ["a", "b", "t"])
    judged = judge({each.name: (Claim(rows, each, {}, False), "", "error") for each in ours}, tmp_path / "gx")
    theirs = {name: outcome.observed["unexpected_count"] for name, outcome in judged.items()}
    failing = [F.count_if(~F.expr(each.condition or "")).alias(each.name) for each in ours]
    counted = rows.agg(*failing).first()
    assert counted is not None
    assert counted.asDict() == theirs
    assert all(outcome.error is None for outcome in judged.values())
    assert len([name for name, number in theirs.items() if number]) > 10  # or this compares nothing


def _no_spark() -> SparkSession:
    raise AssertionError("Spark was started")


@pytest.mark.spark
def test_expectations_are_judged_on_the_whole_table_and_stand_in_the_report(ground: Ground) -> None:
    node = replace(COUNTS, expectations=(SMALL, FEW_ROWS, KNOWN))
    results = ground.node(node)
    small = results["expect_column_values_to_be_between_n"]
    assert (small.passed, small.severity) == (False, "error")
    assert small.sentence.startswith(
        "3 of 9 rows of reading_counts, 33.33%, fail it: n: values to be between, max_value 1"
    )
    assert "; `headrace failing reading_counts` shows them; mend" in small.sentence
    assert small.metadata == {"rows": 9, "failing": 3}
    few = results["expect_table_row_count_to_be_between"]
    assert (few.passed, few.severity) == (False, "warn")
    assert "observed: 9" in few.sentence
    known = results["expect_column_values_to_match_regex_sensor_id"]
    assert "Sensors are s1 to s9" in known.sentence
    assert EVIL not in known.sentence
    assert [path for path in ground.docs.rglob("*.html") if "<script>alert" in path.read_text()] == []
    pages = {path.stem for path in ground.docs.rglob("local_site/expectations/*.html")}
    assert "windows_are_final" in pages
    assert not any(name.startswith("expect_") for name in pages), "what it observes are values"
    found = {each.check: each for each in failing_rows(ground.spark, ground.lake, node, 2)}
    assert (found[small.name].failing, len(found[small.name].examples)) == (3, 2)
    assert found[few.name].failing is None
    assert [(row["sensor_id"], row["n"]) for row in found[known.name].examples] == [(EVIL, 1)] * 2
    here = failing_rows(
        SparkOnDemand.session(_no_spark), ground.lake, replace(COUNTS, expectations=(SMALL, FEW_ROWS)), 2
    )
    assert [(each.check, each.rows, each.failing, len(each.examples)) for each in here] == [
        (small.name, 9, 3, 2),  # before: Spark was started for conditions that Arrow computes
        (few.name, 9, None, 0),
    ]
    assert all(row["n"] > 1 for row in here[0].examples)
    told = str(found[known.name])
    assert "2 of 9 rows fail: Sensors are s1 to s9\n    " in told
    assert f"sensor_id={EVIL!r}, window_start=" in told


@pytest.mark.fast
def test_rows_that_fail_are_those_of_the_table_and_no_open_windows(drive: Drive) -> None:
    """Before, open windows of a small table were judged, whose values are not final; its check passed meanwhile."""
    by_sensor = READINGS.group_by("sensor_id")
    two = gxe.ExpectColumnValuesToBeBetween(column="n", min_value=2)
    windows = by_sensor.window(hr.tumbling("2 minutes"), grace="0 s").aggregate(n=hr.count())
    nodes = [
        windows.named("windows", expectations=[two]),
        by_sensor.aggregate(n=hr.count()).named("totals", expectations=[two]),
    ]
    driver = drive(*nodes)
    for minute, sensor in ((0, "a"), (1, "a"), (2, "b")):
        driver.pipe("readings", key=sensor, value={"sensor_id": sensor}, timestamp_ms=minute * 60_000)
    driver.cut()
    nothing = SparkOnDemand.session(_no_spark)
    found = [failing_rows(nothing, driver.lake, node)[0] for node in nodes]
    assert [(each.rows, each.failing) for each in found] == [(1, 0), (2, 1)]


@pytest.mark.spark
def test_an_increment_is_the_rows_that_commits_added_since(ground: Ground) -> None:
    node = replace(COUNTS, expectations=(SMALL, FEW_ROWS))
    newest = newest_version(ground.lake, node)
    whole = judge_increment(ground.spark, ground.lake, node, -1)
    assert (whole.version, whole.rows, dict(whole.failing)) == (newest, 9, {node.expectations[0].name: 3})
    assert sentence_of_increment(node.expectations[0], whole, node).startswith(
        "3 of 9 rows that reading_counts gained last fail it: n: values to be between"
    )
    assert judge_increment(ground.spark, ground.lake, node, newest).rows == 0
    table = ground.lake.table("reading_counts")
    ground.append(ground.read(table).where("n > 1").limit(2), table)
    assert judge_increment(ground.spark, ground.lake, node, newest).failing == {node.expectations[0].name: 2}


@pytest.fixture
def split(spark: SparkSession) -> Iterator[TestDriver]:
    """Readings in the range, and those that fail."""
    good, bad = READINGS.quarantine(
        gxe.ExpectColumnValuesToBeBetween(column="value", min_value=0),
        gxe.ExpectColumnValuesToNotBeNull(column="sensor_id"),
    )
    driver = TestDriver([good.named("good_readings"), bad.named("bad_readings")], spark)
    yield driver
    driver.close()


@pytest.mark.spark
def test_rows_that_fail_go_into_quarantine_however_the_log_is_cut(split: TestDriver) -> None:
    for minute, (sensor, value) in enumerate([("s1", 1.0), ("s1", -1.0), (None, -2.0), ("s2", None)]):
        sent: dict[str, Any] = {"sensor_id": sensor, "value": value}
        split.pipe("readings", key=sensor, value=sent, timestamp_ms=minute * 60_000)
        if minute == 1:
            split.cut()
    split.cut()
    good, bad = (split.rows(name) for name in ("good_readings", "bad_readings"))
    assert sorted((row["sensor_id"], row["value"]) for row in good) == [("s1", 1.0), ("s2", None)]
    range_, present = (
        "expect_column_values_to_be_between_value",
        "expect_column_values_to_not_be_null_sensor_id",
    )
    assert {(row["value"], row["failed_expectations"]) for row in bad} == {
        (-1.0, range_),
        (-2.0, f"{range_}, {present}"),
    }
    for name, streamed in (("good_readings", good), ("bad_readings", bad)):
        assert split.backfill(name) == streamed


def node(*expectations: object) -> Node:
    return replace(COUNTS, expectations=expectations)  # type: ignore[arg-type]  # as `named` gives them


@pytest.mark.fast
def test_expectations_change_no_row_and_each_has_a_name_of_its_own() -> None:
    expecting = node(
        SMALL, gxe.ExpectColumnValuesToBeBetween(column="n", min_value=dt.date(2026, 1, 1)), SMALL
    )
    assert expecting.fingerprint() == COUNTS.fingerprint()
    names = [each.name for each in expecting.expectations]
    assert names == [f"expect_column_values_to_be_between_n{suffix}" for suffix in ("", "_2", "_3")]
    assert hash(expecting.expectations) == hash(node(*expecting.expectations).expectations)
    assert expecting.expectations[1].kwargs == {"column": "n", "min_value": "2026-01-01"}
    carried = hr.Topic("t", key="k STRING", value="v INT").table().named("a", expectations=[
        gxe.ExpectColumnValuesToNotBeNull(column="v")
    ]).where("v > 0")  # fmt: skip
    assert [each.name for each in carried.expectations] == ["expect_column_values_to_not_be_null_v"]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("expectations", "says"),
    [
        (
            [gxe.ExpectColumnValuesToBeUnique(column="m")],
            "ExpectColumnValuesToBeUnique: column 'm' does not exist",
        ),
        (["n >= 0"], "'n >= 0' is no expectation of Great Expectations."),
        ([gxe.ExpectTableRowCountToEqual], "is no expectation of Great Expectations."),
        ("n >= 0", "'n >= 0' is not a list of expectations."),
    ],
)
def test_what_is_no_expectation_of_the_node_is_refused(expectations: Any, says: str) -> None:
    with pytest.raises(DescriptionError, match=re.escape(says)):
        COUNTS.named("reading_counts", expectations=expectations)


@pytest.mark.fast
def test_rows_of_a_topic_with_a_key_and_of_other_pipelines_can_be_erased() -> None:
    plain = hr.Topic("plain", value="sensor_id STRING, n INT")
    keyed = plain.merge(hr.Topic("keyed", key="sensor_id STRING", value="sensor_id STRING, n INT"))
    assert not can_be_erased(plain.named("plain_rows"))
    counts = keyed.group_by("sensor_id").window(hr.tumbling("1 hour"), grace="0 minutes")
    final = counts.aggregate(n=hr.count()).suppress(hr.until_window_closes()).named("counts")
    assert can_be_erased(final)
    assert can_be_erased(final.where("n > 1").named("many"))
    other = hr.node("others", schema="sensor_id STRING, n INT", kind="stream")
    assert can_be_erased(other.where("n > 1").named("other_rows"))


@pytest.mark.fast
def test_a_verdict_holds_values_of_rows_only_where_no_key_can_be_erased(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value, frame = "sensor_id STRING, n INT", cast("Any", SimpleNamespace(columns=["sensor_id", "n"]))
    monkeypatch.setattr(expected, "examples", lambda rows, of: [{"sensor_id": "s3", "n": 5}])
    some = Outcome(False, observed={"element_count": 9, "unexpected_count": 1})
    found = Outcome(False, observed={"observed_value": ["t1"]})
    said = {}
    for topic in (hr.Topic("plain", value=value), hr.Topic("keyed", key="k STRING", value=value)):
        rows = topic.named(
            "rows",
            expectations=[
                gxe.ExpectColumnPairValuesToBeEqual(column_A="sensor_id", column_B="n"),
                gxe.ExpectColumnDistinctValuesToBeInSet(column="sensor_id", value_set=["s9"]),
            ],
        )
        of_rows, of_table = rows.expectations
        said[topic.name] = [
            expected._finding(each, outcome, frame, rows).sentence
            for each, outcome in ((of_rows, some), (of_table, found))
        ]
    assert "such as (sensor_id='s3', n=5); mend" in said["plain"][0]
    assert "observed: ['t1']" in said["plain"][1]
    assert "; `headrace failing rows` shows them; mend" in said["keyed"][0]
    assert not any("s3" in sentence or "t1" in sentence for sentence in said["keyed"])


@pytest.mark.fast
def test_a_verdict_tells_a_number_of_many_rows_and_no_value_of_one() -> None:
    rows = hr.Topic("keyed", key="k STRING", value="n INT").named(
        "rows",
        expectations=[
            *(getattr(gxe, f"ExpectColumn{of}ToBeBetween")(column="n", max_value=1) for of in OF_ONE),
            gxe.ExpectColumnMeanToBeBetween(column="n", max_value=1),
        ],
    )
    frame, outcome = cast("Any", None), Outcome(False, observed={"observed_value": 4711})
    said = [expected._finding(each, outcome, frame, rows).sentence for each in rows.expectations]
    assert ["observed: 4711" in sentence for sentence in said] == [False, False, False, True]


@pytest.mark.fast
def test_only_single_rows_are_set_apart() -> None:
    for whole in (
        gxe.ExpectColumnMeanToBeBetween(column="value", max_value=1),
        gxe.ExpectColumnValuesToNotBeNull(column="value", mostly=0.9),
        gxe.ExpectColumnValuesToBeUnique(column="value"),
    ):
        with pytest.raises(DescriptionError, match="is not about one row alone"):
            READINGS.quarantine(whole)
    with pytest.raises(DescriptionError, match="no expectations"):
        READINGS.quarantine()
    with pytest.raises(DescriptionError, match="have a column 'failed_expectations'"):
        READINGS.with_column("failed_expectations", "1").quarantine(
            gxe.ExpectColumnValuesToNotBeNull(column="value")
        )
