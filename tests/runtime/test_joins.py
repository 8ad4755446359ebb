"""Joins: what is remembered, a crash in the fold of the result, a table that is damaged and mended, a large fan-out."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.lake.care.merge import upsert
from headrace.lifecycle.backfill import Backfill
from tests.conftest import Drive
from tests.lake.other_hands import alter

if TYPE_CHECKING:
    from headrace.lake import TableWriter
    from headrace.testing import TestDriver
    from headrace.writing.node_runner import NodeRunner

POSITIONS = hr.Topic("positions", key="id STRING", value="ticker STRING, amount INT")
TICKERS = hr.Topic("tickers", key="ticker STRING", value="name STRING")
INNER = POSITIONS.table().join(TICKERS.table("timestamp"), on="ticker").named("inner_join")
FAN_OUT = 70_000  # more rows than are filtered at once


def send(driver: TestDriver, topic: str, key: str, value: dict[str, Any] | None, ms: int = 1_000) -> None:
    driver.pipe(topic, key=key, value=value, timestamp_ms=ms)


def read(driver: TestDriver) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in driver.rows("inner_join"))


def fold_and_change(driver: TestDriver) -> NodeRunner:
    """Two positions of one ticker are folded; then one gets another ticker, which is new, and the other goes."""
    send(driver, "positions", "p1", {"ticker": "T1", "amount": 1})
    send(driver, "positions", "p2", {"ticker": "T1", "amount": 2})
    send(driver, "tickers", "T1", {"name": "one"})
    driver.cut()
    runner = driver._runners["inner_join"]
    runner.maintain()
    send(driver, "positions", "p1", {"ticker": "T2", "amount": 3})
    send(driver, "positions", "p2", None)
    send(driver, "tickers", "T2", {"name": "two"})
    driver.cut()
    return runner


def verdict(driver: TestDriver, node: Any) -> bool:
    (found,) = Backfill(driver.spark, driver._lake, node).run()
    return found.equal


@pytest.mark.fast
def test_rows_without_a_match_and_deletes_are_remembered(drive: Drive) -> None:
    driver = drive(INNER)
    send(driver, "positions", "p1", {"ticker": "T1", "amount": 1})
    send(driver, "positions", "p2", {"ticker": "T2", "amount": 2})
    send(driver, "tickers", "T1", {"name": "one"}, 10)
    send(driver, "tickers", "T9", {"name": "nine"}, 10)
    send(driver, "tickers", "T3", {"name": "three"}, 10)
    send(driver, "tickers", "T3", None, 20)
    driver.cut()
    runner = driver._runners["inner_join"]
    runner.maintain()
    send(driver, "tickers", "T3", {"name": "older than its delete"}, 15)
    send(driver, "tickers", "T2", {"name": "two"}, 10)
    send(driver, "positions", "p1", {"ticker": "T3", "amount": 3})
    driver.cut()
    assert read(driver) == [("p2", "T2", 2, "two")]
    runner.maintain()
    assert read(driver) == [("p2", "T2", 2, "two")]
    driver.check("inner_join")


@pytest.mark.spark
def test_a_crash_in_the_fold_of_the_result_does_not_show(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drive(INNER)
    fold_and_change(driver)

    def killed_at_the_result(writer: TableWriter, **rest: Any) -> int:
        if writer.uri == driver._lake.table("inner_join"):
            raise KeyboardInterrupt
        return upsert(writer, **rest)

    with monkeypatch.context() as crash:
        crash.setattr("headrace.nodes.bases.upsert", killed_at_the_result)
        with pytest.raises(KeyboardInterrupt):
            driver._runners["inner_join"].maintain()
    assert read(driver) == [("p1", "T2", 3, "two")]
    driver._runners["inner_join"] = driver._open_runner(INNER)
    send(driver, "tickers", "T2", {"name": "second"}, 2_000)
    driver.cut()
    assert read(driver) == [("p1", "T2", 3, "second")]
    driver._runners["inner_join"].maintain()
    assert read(driver) == [("p1", "T2", 3, "second")]
    alter(driver._lake.table("inner_join"), {"name": "'damaged'"})
    assert not verdict(driver, INNER)
    assert read(driver) == [("p1", "T2", 3, "second")]
    assert verdict(driver, INNER)


@pytest.mark.fast
def test_micro_batches_go_on_beside_the_fold_of_the_result(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drive(INNER)
    runner = fold_and_change(driver)
    beside: list[tuple[str, str, dict[str, Any] | None]] = [
        ("tickers", "T2", {"name": "second"}),
        ("positions", "p2", {"ticker": "T2", "amount": 4}),
        ("positions", "p1", None),
        ("tickers", "T2", {"name": "third"}),
    ]
    expected = [
        [("p1", "T2", 3, "second")],
        [("p1", "T2", 3, "second"), ("p2", "T2", 4, "second")],
        [("p2", "T2", 4, "second")],
        [("p2", "T2", 4, "third")],
    ]

    def a_micro_batch() -> None:
        send(driver, *beside.pop(0), ms=2_000)
        driver.cut()
        assert read(driver) == expected.pop(0)

    def with_a_micro_batch_before_and_behind(writer: TableWriter, **rest: Any) -> int:
        a_micro_batch()
        a_micro_batch()
        version = upsert(writer, **rest)
        a_micro_batch()
        a_micro_batch()
        return version

    with monkeypatch.context() as during:
        during.setattr("headrace.testing.driver.UNFOLDED_MAX", 100)  # the driver folds by itself
        during.setattr("headrace.nodes.bases.upsert", with_a_micro_batch_before_and_behind)
        runner.compact()
    runner.clear()
    assert not beside
    assert runner.unfolded == 4
    driver.check("inner_join")
    driver._runners["inner_join"] = driver._open_runner(INNER)
    driver._runners["inner_join"].maintain()
    assert read(driver) == [("p2", "T2", 4, "third")]
    driver.check("inner_join")


@pytest.mark.spark
def test_a_right_row_to_which_many_left_rows_refer_changes_and_goes(drive: Drive) -> None:
    driver = drive(INNER)
    for number in range(FAN_OUT):
        send(driver, "positions", f"p{number}", {"ticker": "T1", "amount": 1})
    send(driver, "tickers", "T1", {"name": "one"})
    driver.cut()
    driver._runners["inner_join"].maintain()
    send(driver, "tickers", "T1", {"name": "first"}, 2_000)
    send(driver, "positions", "p0", {"ticker": "T2", "amount": 1})
    driver.cut()
    by_name = dict(Counter(row["name"] for row in driver.rows("inner_join")).items())
    assert by_name == {"first": FAN_OUT - 1}
    send(driver, "tickers", "T1", None, 3_000)
    driver.cut()
    assert driver.rows("inner_join") == []
