"""A record for which a step raises is a dead letter of its node. The node goes on, and the log is not concerned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.engine.steps import apart
from headrace.engine.steps.apart import UnusableRecordsError
from headrace.nodes.unusable_table import UnusableTable
from headrace.testing import TestDriver
from tests.laws import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node, Stream
    from tests.conftest import Drive

pytestmark = pytest.mark.spark

MINUTE = 60_000
KEY = "sensor STRING"
GOOD = {"x": 1.0, "m": "a:1,b:2", "n": 1, "p": "a", "l": "a%"}
# By the column that a step makes: its SQL, what the record says for which it raises, and a part of the reason.
RAISING: dict[str, tuple[str, dict[str, Any], str]] = {
    "entry": ("str_to_map(m)['a']", {"m": "a:1,a:2"}, "Duplicate map key a was found"),
    "element": ("try_element_at(array('x', 'y'), n)", {"n": 0}, "The index 0 is invalid"),
    "matches": ("CAST('abc' RLIKE p AS STRING)", {"p": "["}, "'['"),
    "alike": ("CAST('abc' LIKE l AS STRING)", {"l": "\\x"}, "escape character"),
}


BAD = {"m": "a:1,a:2"}


def readings() -> hr.Topic:
    value = "x DOUBLE, m STRING, n INT, p STRING, l STRING"
    return hr.Topic("readings", key=KEY, value=value)


def computing(stream: hr.Topic | Stream) -> Stream:
    for name, (sql, _, _) in RAISING.items():
        stream = stream.with_column(name, sql)
    return stream.stream


def sums(stream: Stream, name: str) -> Node:
    highest = {f"highest_{column}": hr.max(column) for column in RAISING}
    return stream.group_by("sensor").aggregate(n=hr.count(), total=hr.sum("x"), **highest).named(name)


def pipe(driver: TestDriver, *values: dict[str, Any], at: int = 1) -> None:
    for value in values:
        driver.pipe("readings", key="s", value={**GOOD, **value}, timestamp_ms=at * MINUTE)


def reasons(driver: TestDriver, topic: str, node: str) -> dict[int, str]:
    """Of a node's own dead letters, by offset."""
    found = [row for row in driver.dead_letters(topic) if row["node"] == node]
    assert len({row["offset"] for row in found}) == len(found)
    return {row["offset"]: row["reason"] for row in found}


@pytest.fixture(scope="module")
def driver(spark: SparkSession) -> Iterator[TestDriver]:
    """`live` reads each log commit at once, `slow` all of them in one micro-batch."""
    started = TestDriver([sums(computing(readings()), name) for name in ("live", "slow")], spark)
    for _, value, _ in RAISING.values():
        pipe(started, {}, value)
        if value in ({"m": "a:1,a:2"}, {"p": "["}):
            started.cut(["live"])
    started.pipe("readings", key="s", value=None, timestamp_ms=MINUTE)
    started.pipe("readings", key="s", value=b"?", timestamp_ms=MINUTE)
    pipe(started, {}, {})
    started.cut(["live"])
    started.cut()
    yield started
    started.close()


OFFSETS = {column: 2 * number + 1 for number, column in enumerate(RAISING)}


def test_the_other_records_are_counted(driver: TestDriver) -> None:
    (row,) = driver.rows("live")
    assert (row["n"], row["total"], row["highest_entry"], row["highest_element"]) == (6, 6.0, "1", "x")
    assert tables.ledger(driver.ledger("live")) == {
        (0, "used"): 6, (0, "dead_letter"): len(RAISING) + 1, (0, "tombstone"): 1,
    }  # fmt: skip


def test_the_reason_names_the_step_and_what_it_says(driver: TestDriver) -> None:
    found = reasons(driver, "readings", "live")
    for column, (_, _, said) in RAISING.items():
        assert found[OFFSETS[column]].startswith(f"with_column('{column}', ")
        assert said in found[OFFSETS[column]]


def test_other_cuts_and_a_backfill_find_the_same(driver: TestDriver) -> None:
    live = driver.rows("live")
    assert live == driver.rows("slow")
    assert live == driver.backfill("slow")
    driver.check("live")  # a backfill, and the oracle
    assert driver.ledger("live") == driver.ledger("slow")
    found = reasons(driver, "readings", "live")
    assert found == reasons(driver, "readings", "slow")
    assert set(found) == set(OFFSETS.values())


def loud(frame: DataFrame) -> DataFrame:
    """It cannot take a null, which is what ticks, tombstones and other rows that are no records have."""
    return frame.withColumn("loud", F.udf(lambda text: text.upper(), "string")("word"))


def test_a_transform_that_raises_for_a_record_meets_no_tick(drive: Drive) -> None:
    words = hr.Topic("words", key=KEY, value="word STRING")
    windowed = words.transform(loud, columns="sensor STRING, word STRING, loud STRING").group_by("loud")
    counts = windowed.window(hr.tumbling("2 minutes"), grace="0 ms").aggregate(n=hr.count())
    driver = drive(counts.suppress(hr.until_window_closes()).named("counts"))
    for word in ("ja", "ja", None, "ja"):
        driver.pipe("words", key="s", value={"word": word}, timestamp_ms=MINUTE)
    driver.pipe("words", key="s", value=None, timestamp_ms=MINUTE)
    driver.cut()
    driver.advance_wall_clock("10 minutes")
    driver.cut()  # a tick closes the window
    (row,) = driver.rows("counts")
    assert (row["loud"], row["n"]) == ("JA", 3)
    assert driver.backfill("counts") == driver.rows("counts")
    assert reasons(driver, "words", "counts") == {
        2: "transform(loud): AttributeError: 'NoneType' object has no attribute 'upper'"
    }
    assert tables.ledger(driver.ledger("counts")) == {
        (0, "used"): 3, (0, "dead_letter"): 1, (0, "tombstone"): 1,
    }  # fmt: skip


def test_a_record_that_an_earlier_step_refuses_is_filtered(drive: Drive) -> None:
    guarded = readings().where("x > 0").with_column("entry", "str_to_map(m)['a']").group_by("sensor")
    driver = drive(guarded.aggregate(n=hr.count(), top=hr.max("entry")).named("sums"))
    pipe(driver, {}, BAD, {**BAD, "x": -1.0}, {"x": -1.0})
    driver.cut()
    assert tables.ledger(driver.ledger("sums")) == {
        (0, "used"): 1, (0, "dead_letter"): 1, (0, "filtered"): 2,
    }  # fmt: skip
    assert set(reasons(driver, "readings", "sums")) == {1}


def windows() -> Node:
    grouped = readings().with_column("entry", "str_to_map(m)['a']").group_by("sensor")
    counts = grouped.window(hr.tumbling("2 minutes"), grace="0 ms").aggregate(
        n=hr.count(), top=hr.max("entry")
    )
    return counts.suppress(hr.until_window_closes()).named("windows")


@pytest.mark.long
def test_a_micro_batch_ends_before_the_commit_in_which_the_trials_run_out(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "TRIES_MAX", 10)
    monkeypatch.setattr(apart, "COMMIT_TRIES_MAX", 6)
    driver = drive(windows())
    for commit in range(3):
        pipe(driver, {}, {}, {}, BAD, {}, {}, {}, {}, at=2 * commit + 1)
        driver.cut([])
    driver.crash("after outputs")
    driver.cut()
    assert driver._runners["windows"].progress.batch > 1
    assert [row["n"] for row in driver.rows("windows")] == [7, 7]
    assert driver.backfill("windows") == driver.rows("windows")
    assert tables.ledger(driver.ledger("windows")) == {
        (0, "used"): 14, (0, "open"): 7, (0, "dead_letter"): 3,
    }  # fmt: skip


def test_more_than_the_trials_find_in_one_commit_stops_the_node_and_not_the_log(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "TRIES_MAX", 10)
    monkeypatch.setattr(apart, "COMMIT_TRIES_MAX", 6)
    driver = drive(windows())
    pipe(driver, *[BAD] * 8)
    with pytest.raises(UnusableRecordsError) as stopped:
        driver.cut()
    assert "'windows'" in stopped.value.message
    assert "readings, partition 0, offset 0: with_column('entry', " in str(stopped.value.detail)
    assert "Duplicate map key a" in str(stopped.value.detail)
    pipe(driver, {})
    driver.cut([])
    assert len(driver.log("readings")) == 9
    monkeypatch.undo()
    driver.cut()
    assert tables.ledger(driver.ledger("windows")) == {(0, "open"): 1, (0, "dead_letter"): 8}


@pytest.mark.long
def test_what_was_remembered_wrongly_or_lost_does_not_show_in_a_backfill(drive: Drive) -> None:
    node = windows()
    driver = drive(node)
    pipe(driver, {}, BAD, {})
    driver.cut()
    table = UnusableTable(driver.spark, driver._lake, node)
    (known,) = table.read()
    assert (known.offset, known.fate) == (1, "dead_letter")
    recomputed = driver.backfill("windows")
    table.forget(F.lit(True))
    assert table.read() == []
    assert driver.backfill("windows") == recomputed
    table.add([known, hr_other := type(known)(**{**known.__dict__, "offset": 2})])
    assert hr_other in table.read()
    assert driver.backfill("windows") == recomputed


def test_a_pattern_that_exhausts_the_stack_ends_no_process(drive: Drive) -> None:
    words = hr.Topic("words", key=KEY, value="word STRING")
    matching = words.with_column("found", "CAST(word RLIKE '(x|y)*z' AS STRING)").group_by("sensor")
    driver = drive(matching.aggregate(n=hr.count(), top=hr.max("found")).named("matches"))
    for word in ("xyz", "xy" * 200_000, "x"):
        driver.pipe("words", key="s", value={"word": word}, timestamp_ms=MINUTE)
    driver.cut()
    (row,) = driver.rows("matches")
    assert (row["n"], row["top"]) == (2, "true")
    assert driver.backfill("matches") == driver.rows("matches")
    (reason,) = reasons(driver, "words", "matches").values()
    assert reason.endswith(": java.lang.StackOverflowError")
