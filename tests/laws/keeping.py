"""What the laws of erasure and retention share: one topic, nodes of every kind, arrivals, and the comparison at the end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

import headrace as hr
from tests.laws import tables
from tests.laws.driving import in_parallel
from tests.laws.plain import by_identity, fates, results_of_log
from tests.laws.test_laws import comparable, shown
from tests.oracle.log_oracle import Arrival, Commit, Log, sequence

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.testing import TestDriver

SECOND = 1_000
EVENTS = hr.Topic("events", key="key STRING", value="value BIGINT, place STRING", idle_timeout="5 seconds")
COUNTED = {
    "n": hr.count(), "total": hr.sum("value"), "lowest": hr.min("value"), "highest": hr.max("value"),
    "mean": hr.avg("value"),
}  # fmt: skip
WINDOWS = (
    EVENTS.group_by()
    .window(hr.hopping("10 seconds", "5 seconds"), grace="3 seconds")
    .aggregate(**COUNTED)
    .named("windows")
)
FINAL = (
    EVENTS.group_by("place")
    .window(hr.tumbling("6 seconds"), grace="0 seconds")
    .aggregate(n=hr.count(), who=hr.last("key"))
    .suppress(hr.until_window_closes())
    .named("final")
)
TOTALS = EVENTS.group_by().aggregate(**COUNTED).named("totals")
PLACES = EVENTS.group_by("place").aggregate(n=hr.count(), who=hr.collect("key", max_items=9)).named("places")
SESSIONS = (
    EVENTS.group_by()
    .window(hr.session("3 seconds"), grace="1 second")
    .aggregate(n=hr.count())
    .named("sessions")
)
BATCHES = (
    EVENTS.group_by("place")
    .batch(max_records=3, max_wait="10 seconds", collect=["key", "value"])
    .named("batches")
)
LIMITED = (
    EVENTS.group_by().aggregate(n=hr.count()).suppress(hr.until_time_limit("4 seconds")).named("limited")
)
NEWEST = EVENTS.select("key", "value AS newest").table("timestamp")
JOINED = EVENTS.table().join(NEWEST, on="key", how="left").named("joined")
FOUND = EVENTS.select("key", "value").lookup(NEWEST, on="key").named("found")
NODES = [WINDOWS, FINAL, TOTALS, PLACES, SESSIONS, BATCHES, LIMITED, JOINED, FOUND]
Come = tuple[Arrival, str | None]  # and the place that its value names


def arrivals(base_ms: int, number: int, keys: list[str | None]) -> st.SearchStrategy[list[Come]]:
    """What arrives before a cut."""
    arrival = st.builds(
        Arrival,
        partition=st.sampled_from([0, 0, 1]),
        key=st.sampled_from(keys),
        ts=st.integers(0, 30).map(partial(moment, base_ms + number * 9 * SECOND)),
        value=st.one_of(st.none(), st.integers(-5, 5)),
        kind=st.sampled_from(["record"] * 6 + ["tombstone", "dead_letter"]),
    )
    return st.lists(st.tuples(arrival, st.sampled_from(["north", "south", None])), min_size=2, max_size=9)


def moment(from_ms: int, half_seconds: int) -> int:
    return from_ms + half_seconds * 500


def pipe(driver: TestDriver, arrival: Arrival, place: str | None) -> None:
    value: Any = {"value": arrival.value, "place": place}
    value = {"record": value, "tombstone": None, "dead_letter": f"{{{arrival.key}".encode()}[arrival.kind]
    driver.pipe(
        "events", key=arrival.key, value=value, timestamp_ms=arrival.ts, partition=arrival.partition,
        headers={"who": arrival.key or ""},
    )  # fmt: skip


def check(driver: TestDriver, commits: list[Commit], nodes: list[Node]) -> None:
    """Compare windows, totals and their ledgers with the oracles, and each node with its backfill."""
    longest_wait = max(node.longest_wait_ms for node in nodes)
    log = sequence(commits, EVENTS.idle_timeout_ms, longest_wait)
    decided = {(arrival.partition, offset): stream for arrival, offset, stream in log.rows}
    assert tables.stream_times(driver, "events").items() <= decided.items()  # of a log that was cut, the rest
    in_parallel(partial(live_equals_backfill, driver, log), [node.required_name for node in nodes])

    expected = results_of_log(WINDOWS, log)
    final, still_open = shown(WINDOWS, expected.rows), shown(WINDOWS, expected.open)
    assert tables.windows(driver.rows("windows")) == final | still_open
    ledger = tables.ledger(driver.ledger("windows"))
    assert ledger == {at[1:]: records for at, records in fates(expected).items()}

    sums = results_of_log(TOTALS, log)
    read = {row["key"]: {v: row[v] for v in COUNTED} for row in driver.rows("totals")}
    assert comparable(read) == comparable(by_identity(TOTALS, sums.rows))
    ledger = tables.ledger(driver.ledger("totals"))
    assert ledger == {at[1:]: records for at, records in fates(sums).items()}


def live_equals_backfill(driver: TestDriver, log: Log, name: str) -> None:
    assert driver.rows(name) == driver.backfill(name), name
    assert sum(tables.ledger(driver.ledger(name)).values()) == len(log.rows)
