"""Processors as nodes: a batching of events by hand beside the operator that does the same, with a crash and cuts."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.engine.folding import spark_fold
from headrace.quality import check_node

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Drive


SECOND = 1_000
VISITS = hr.Topic("visits", key="customer STRING", value="page STRING", idle_timeout=None)
THRESHOLD, WAIT = 3, "10 seconds"


class VisitorProcessor(hr.Processor):
    """The batching of visits as a team wrote it with the Processor API: two stores, one with events, one with their count."""

    def init(self, context: hr.Context) -> None:
        self.context = context
        self.events, self.count = context.store("events"), context.store("count")

    def process(self, record: hr.Record) -> None:
        n = (self.count.get() or 0) + 1
        self.events.put(n, record["page"])
        self.count.put(n)
        if n == 1:
            self.context.schedule(WAIT, self.forward_all, clock="wall", once=True)
        if n == THRESHOLD:
            self.context.cancel("forward_all")
            self.forward_all(self.context.wall_time)

    def forward_all(self, moment: dt.datetime) -> None:
        entries = [*self.events.all()]
        self.context.forward(customer=self.context.key["customer"], pages=[page for _, page in entries])
        for n, _ in entries:
            self.events.delete(n)
        self.count.delete()

    def close(self) -> None:
        if self.count.get():
            self.context.cancel("forward_all")
            self.forward_all(self.context.wall_time)


class Refuses(hr.Processor):
    """Raises for one page."""

    def init(self, context: hr.Context) -> None:
        self.context = context

    def process(self, record: hr.Record) -> None:
        if record["page"] == "bad":
            raise ValueError("a page that nobody can read")
        self.context.forward(page=record["page"])


class Passes(hr.Processor):
    """Passes records on; a timer of an hour does nothing."""

    def init(self, context: hr.Context) -> None:
        self.context = context
        context.schedule("1 hour", self.rest)

    def process(self, record: hr.Record) -> None:
        self.context.forward(customer=record["customer"], page=record["page"])

    def rest(self, moment: dt.datetime) -> None:
        """Nothing."""


BY_HAND = (
    VISITS.group_by("customer")
    .process(
        VisitorProcessor,
        output="customer STRING, pages ARRAY<STRING>",
        stores=[hr.key_value_store("events", "n BIGINT", "page STRING"), hr.value_store("count", "n BIGINT")],
        wall_wait=WAIT,
    )
    .named("by_hand")
)
BY_OPERATOR = (
    VISITS.group_by("customer")
    .batch(collect=["page"], max_records=THRESHOLD, max_wait=WAIT)
    .named("by_operator")
)


def pages_of(rows: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    return sorted((row["customer"], row["pages"]) for row in rows)


@pytest.mark.spark
def test_a_processor_batches_as_the_operator_does_over_a_crash_and_its_stores_can_be_read(
    drive: Drive, tmp_path: Path
) -> None:
    driver = drive(BY_HAND, BY_OPERATOR)
    for number, customers in enumerate(("aab", "ab", "b", "", "cab", "cc", "a")):
        for place, customer in enumerate(customers):
            value = {"page": f"{number}{place}"}
            driver.pipe(
                "visits", key=customer, value=value, timestamp_ms=number * SECOND, partition=place % 2
            )
        if number in (1, 4):
            driver.crash("after outputs", "by_hand")
        driver.cut()
        driver.advance_wall_clock("12 seconds" if number == 4 else "2 seconds")
    held = {(row["customer"], row["page"]) for row in driver.store("by_hand", "events")}
    assert held == {("a", "60"), ("c", "50"), ("c", "51")}
    driver.drain()
    driver.cut()
    assert driver.store("by_hand", "events") == []
    by_operator = sorted(
        (row["customer"], [event["page"] for event in row["events"]]) for row in driver.rows("by_operator")
    )
    assert pages_of(driver.rows("by_hand")) == by_operator
    assert pages_of(driver.backfill("by_hand")) == by_operator
    assert driver.fates("by_hand") == {"used": 12}
    driver.check(BY_HAND.required_name)
    judged = check_node(driver.spark, driver._lake, BY_HAND, str(tmp_path))
    assert [result.sentence for result in judged if not result.passed] == []
    driver.erase("visits", "a")
    kept = [each for each in by_operator if each[0] != "a"]
    assert pages_of(driver.rows("by_hand")) == kept
    driver.pipe("visits", key="d", value={"page": "d0"}, timestamp_ms=8 * SECOND)
    driver.cut()
    driver.advance_wall_clock("1 second")
    driver.pipe("visits", key="b", value={"page": "b0"}, timestamp_ms=8 * SECOND)
    driver.cut()
    assert driver.retain("visits", driver.now_ms).rows
    driver.advance_wall_clock("10 seconds")
    driver.cut()
    kept = sorted([*kept, ("b", ["b0"]), ("d", ["d0"])])
    assert pages_of(driver.rows("by_hand")) == kept
    assert pages_of(driver.backfill("by_hand")) == kept


@pytest.mark.spark
def test_an_exception_in_a_task_stops_the_node_and_names_the_record_its_key_and_the_processor(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_fold, "HERE_BYTES", 0)  # a task folds
    node = (
        VISITS.where("page <> 'none'")
        .group_by("customer")
        .process(Refuses, output="page STRING")
        .named("pages")
    )
    driver = drive(node)
    driver.pipe("visits", key="a", value={"page": "bad"}, timestamp_ms=SECOND)
    said = r"(?s)Node 'pages': Refuses.process raises for visits, partition 0, offset 0, key .*'a'.*ValueError: a page"
    with pytest.raises(hr.ProcessorError, match=said):
        driver.cut()


@pytest.mark.fast
def test_a_record_for_which_a_processor_raises_is_set_apart_with_the_reason_and_others_go_on(
    drive: Drive,
) -> None:
    pages = (
        VISITS.group_by("customer")
        .process(Refuses, output="page STRING", on_error="dead_letter")
        .named("pages")
    )
    driver = drive(pages)
    for page in ("one", "bad", "two"):
        driver.pipe("visits", key="a", value={"page": page}, timestamp_ms=SECOND)
    driver.crash("after outputs")
    driver.cut()
    (refused,) = driver.dead_letters("visits")
    assert (refused["offset"], refused["node"]) == (1, "pages")
    assert refused["reason"] == "Refuses.process raises ValueError: a page that nobody can read"
    assert driver.fates("pages") == {"used": 2, "dead_letter": 1}
    assert [row["page"] for row in driver.backfill("pages")] == ["one", "two"]
    driver.check(pages.required_name)


@pytest.mark.fast
def test_long_timers_of_a_processor_hold_no_window_behind_it_open(drive: Drive) -> None:
    passes = (
        VISITS.group_by("customer").process(Passes, output="customer STRING, page STRING").named("passed")
    )
    counts = (
        passes.group_by("customer")
        .window(hr.tumbling("10 seconds"), grace="0 seconds")
        .aggregate(n=hr.count())
        .suppress(hr.until_window_closes())
        .named("pages_per_window")
    )
    driver = drive(passes, counts)
    for number in (1, 2, 30):
        driver.pipe("visits", key="a", value={"page": f"{number}"}, timestamp_ms=number * SECOND)
    driver.cut()
    assert [row["n"] for row in driver.rows("pages_per_window")] == [2]
