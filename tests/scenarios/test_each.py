"""A function as a sink: called for each row in order, at least once, with ids that stay; what fails is parked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.observe.fates.refused_rows import refused_rows
from headrace.writing.delivery import deliveries
from headrace.writing.delivery.redeliver import redeliver
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import Drive

VISITS = hr.Topic("visits", key="user STRING", value="n INT", idle_timeout=None)


@dataclass
class Mails:
    """Stands for a mail server: what was sent, and what it does not take."""

    sent: list[hr.DeliveredRow] = field(default_factory=list)
    refuses: int = -1
    away_at: int = -1
    calls: int = 0

    def send(self, row: hr.DeliveredRow) -> None:
        self.calls += 1
        if row["n"] == self.away_at:
            self.away_at = -1
            raise hr.TransientError("The mail server is away.")
        if row["n"] == self.refuses:
            raise ValueError("no such address")
        self.sent.append(row)


def pipe(driver: Any, *numbers: int) -> None:
    for n in numbers:
        driver.pipe("visits", key="ab"[n % 2], value={"n": n}, timestamp_ms=n * MINUTE)
    driver.cut()


@pytest.mark.fast
def test_each_row_is_sent_once_in_order_whatever_crashes_and_few_need_no_spark(drive: Drive) -> None:
    mails = Mails()
    rows = VISITS.where("n > 0").named("rows").to(hr.each(mails.send, name="mail"))
    driver = drive(rows)
    for step in ("before outputs", "after sinks", "after outputs", "after state"):
        driver.crash(step)
        begin = 10 * len(mails.sent) + 1
        pipe(driver, begin, begin + 1, begin + 2)
    assert [row["n"] for row in mails.sent] == [1, 2, 3, 31, 32, 33, 61, 62, 63, 91, 92, 93]
    assert len({row.id for row in mails.sent}) == 12
    assert {row.node for row in mails.sent} == {"rows"}
    assert mails.sent[0].timestamp is not None
    assert mails.sent[0].timestamp.timestamp() == 60
    mails.away_at = 202
    with pytest.raises(hr.TransientError, match="away"):
        pipe(driver, 201, 202, 203)
    driver.cut()
    assert [row["n"] for row in mails.sent][12:] == [201, 202, 203]


@pytest.mark.spark
def test_a_row_has_the_same_id_whoever_gives_it_and_whenever(
    drive: Drive, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    mails = Mails()
    rows = VISITS.where("n > 0").named("rows").to(hr.each(mails.send, name="mail"))
    driver = drive(rows)
    pipe(driver, 1, 2, 3)
    monkeypatch.setattr(deliveries, "HERE_BYTES", 0)  # the next are many, which Spark reads
    pipe(driver, 4, 5)
    told = [(row.id, dict(row), row.timestamp, row.sequence) for row in mails.sent]
    mails.sent.clear()
    redeliver(spark, driver.lake, rows)
    assert [(row.id, dict(row), row.timestamp, row.sequence) for row in mails.sent] == told


@pytest.mark.spark
def test_a_row_that_fails_is_tried_again_and_then_parked(drive: Drive) -> None:
    mails = Mails(refuses=2)
    driver = drive(VISITS.where("n > 0").named("rows").to(hr.each(mails.send, attempts=2, wait="1 ms")))
    pipe(driver, 1, 2, 3)
    assert [row["n"] for row in mails.sent] == [1, 3]
    assert mails.calls == 4
    (parked,) = refused_rows(driver.lake, "rows", 2)
    assert (parked.sink, parked.rows, parked.reason) == ("each-send", 1, "ValueError: no such address")
    assert '"n":2' in parked.examples[0]


@pytest.mark.fast
def test_the_rows_that_a_sink_named_like_a_file_refuses_are_shown(drive: Drive) -> None:
    """Before, they were taken for the notes of what was sent."""
    mails = Mails(refuses=2)
    driver = drive(VISITS.where("n > 0").named("rows").to(hr.each(mails.send, name="a.json", attempts=1)))
    pipe(driver, 1, 2, 3)
    assert [(each.sink, each.rows) for each in refused_rows(driver.lake, "rows", 2)] == [("a.json", 1)]


@pytest.mark.fast
def test_deletes_are_told_apart_and_final_windows_with_too_few_are_sent(drive: Drive) -> None:
    changes, few = Mails(), Mails()
    table = VISITS.table().named("current").to(hr.each(changes.send))
    by_minute = VISITS.group_by().window(hr.tumbling("4 minutes"), grace=0).aggregate(n=hr.count())
    finals = (
        by_minute.suppress(hr.until_window_closes()).where("n < 2").named("too_few").to(hr.each(few.send))
    )
    driver = drive(table, finals)
    pipe(driver, 0, 2, 5)
    driver.pipe("visits", key="a", value=None, timestamp_ms=6 * MINUTE)
    driver.cut()
    pipe(driver, 20, 21)
    told = [(row["user"], row["n"], row.deleted) for row in changes.sent]
    assert {*told[:2]} == {("a", 2, False), ("b", 5, False)}  # of one commit
    assert told[2] == ("a", None, True)
    assert [(row["user"], row["n"]) for row in few.sent] == [("b", 1)]
