"""Clicks by their id, read by their user: tables, sessions over partitions, a join, and a sink that goes by the new key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from tests.rows import columns
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.sinks import Delivery
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

CLICKS = hr.Topic("clicks", key="id STRING", value="user STRING, page STRING", idle_timeout=None)
USERS = hr.Topic("users", key="user STRING", value="city STRING", idle_timeout=None)
BY_USER = CLICKS.key_by("user")


class Kept:
    """A sink that keeps what it gets."""

    name = "kept"

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def deliver(self, rows: Any, delivery: Delivery) -> None:
        raise AssertionError("few rows start no Spark")

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        self.rows += rows.to_pylist()


def test_a_users_clicks_of_several_partitions_are_one_table_row_and_one_session(drive: Drive) -> None:
    kept = Kept()
    newest = BY_USER.table().named("newest")
    visits = (
        BY_USER.group_by()
        .window(hr.session("5 minutes"), grace="2 minutes")
        .aggregate(n=hr.count(), pages=hr.collect("page", 10))
        .suppress(hr.until_window_closes())
        .to(kept)
        .named("visits")
    )
    placed = newest.join(USERS.table(), on="user", how="left").named("placed")
    driver = drive(newest, visits, placed)
    driver.pipe("users", key="ann", value={"city": "Riga"}, timestamp_ms=0)
    clicks = [
        ("c1", "ann", "home", 0),
        ("c2", "ann", "hats", 3),
        ("c3", "bob", "home", 4),
        ("c4", "ann", "buy", 8),
    ]
    for number, (id_, user, page, minute) in enumerate(clicks):
        value = {"user": user, "page": page}
        driver.pipe("clicks", key=id_, value=value, timestamp_ms=minute * MINUTE, partition=number % 2)
        driver.crash("after outputs", "visits")
        driver.cut()
    driver.pipe("clicks", key="c4", value=None, timestamp_ms=8 * MINUTE)
    driver.pipe("clicks", key="c5", value={"user": None, "page": "home"}, timestamp_ms=8 * MINUTE)
    for partition in (0, 1):
        value = {"user": "eve", "page": "home"}
        driver.pipe("clicks", key="c6", value=value, timestamp_ms=20 * MINUTE, partition=partition)
    driver.cut()
    assert sorted(columns(driver.rows("newest"), "user", "id", "page")) == [
        ("ann", "c4", "buy"), ("bob", "c3", "home"), ("eve", "c6", "home"),
    ]  # fmt: skip
    assert driver.fates("newest") == {"used": 6, "tombstone": 1, "dead_letter": 1}
    of_users = [row for row in driver.rows("visits") if row["user"] is not None]
    assert sorted(columns(of_users, "user", "n", "pages")) == [
        ("ann", 3, ["home", "hats", "buy"]), ("bob", 1, ["home"]),
    ]  # fmt: skip
    assert sorted((row["user"], row["n"]) for row in kept.rows if row["user"]) == [("ann", 3), ("bob", 1)]
    assert sorted(columns(driver.rows("placed"), "user", "city")) == [
        ("ann", "Riga"),
        ("bob", None),
        ("eve", None),
    ]
    for node in (newest, visits, placed):
        name = node.required_name
        driver.check(name)
