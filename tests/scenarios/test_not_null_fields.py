"""`NOT NULL` within a value is a promise of the records that have one; rows without a value pass through every kind of node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.description.stream import Stream
    from headrace.testing import TestDriver
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

PERSON = "STRUCT<id: STRING NOT NULL, homes: ARRAY<STRUCT<city: STRING NOT NULL>>>"
TAGS = "MAP<STRING, STRUCT<n: INT NOT NULL>>"
VIEWS = hr.Topic("views", key="view STRING", value=f"user {PERSON} NOT NULL, page STRING, tags {TAGS}")
MOVES = hr.Topic("moves", key="view STRING", value=f"user {PERSON} NOT NULL, page STRING, tags {TAGS}")
USERS = hr.Topic("users", key="id STRING", value=f"profile {PERSON} NOT NULL, country STRING, labels {TAGS}")


class Echo(hr.Processor):
    """One row for each record, with its nested value; the last one is kept."""

    def init(self, context: hr.Context) -> None:
        self.context, self.last = context, context.store("last")

    def process(self, record: hr.Record) -> None:
        self.last.put(record["user"])
        self.context.forward(user=self.last.get(), page=record["page"])


def seen() -> Stream:
    return VIEWS.where("page <> 'hidden'")


LOOKUP = seen().with_column("id", "CAST(user.id AS STRING)").lookup(USERS.table(), on="id")
NODES: dict[str, Node] = {
    "lookup": LOOKUP,
    "lookup as of event": seen()
    .with_column("id", "CAST(user.id AS STRING)")
    .lookup(USERS.where("country <> ''").table(), on="id", as_of="event"),
    "windows of a lookup": LOOKUP.group_by("country")
    .window(hr.tumbling("1 hour"), grace="0 seconds")
    .aggregate(users=hr.collect("user", max_items=9)),
    "totals of a merge": seen().merge(MOVES).group_by("page").aggregate(last=hr.last("user")),
    "totals by a nested value": seen()
    .merge(MOVES)
    .with_column("homes", "user.homes")
    .group_by("homes")
    .aggregate(n=hr.count()),
    "join of streams": seen().join(
        MOVES.select("view", "user AS moved"), on="view", within="1 hour", grace="1 minute"
    ),
    "join of tables": VIEWS.where("page <> 'hidden'")
    .with_column("id", "CAST(user.id AS STRING)")
    .table()
    .join(USERS.table(), on="id"),
    "processor": seen()
    .group_by("page")
    .process(Echo, output=f"user {PERSON}, page STRING", stores=[hr.value_store("last", f"user {PERSON}")]),
    "flat map": seen().flat_map("user.homes AS home"),
    "batches": seen().group_by("page").batch(max_records=2, max_wait="1 hour", collect=["user", "page"]),
    "changes of a table": VIEWS.where("page <> 'hidden'").table().changes(),
    "time limit": VIEWS.where("page <> 'hidden'").table().suppress(hr.until_time_limit("1 minute")),
}


def person(id: str) -> dict[str, Any]:
    return {"id": id, "homes": [{"city": "Rome"}, {"city": "Oslo"}]}


def play(driver: TestDriver) -> None:
    topics = driver._topics
    for minute, key in enumerate("abcd"):
        if "users" in topics:
            value = (
                {"profile": person(key), "country": "it", "labels": {"a": {"n": 1}}} if key != "c" else None
            )
            driver.pipe("users", key=key, value=value, timestamp_ms=minute * MINUTE)
        for name in ("views", "moves"):
            if name in topics:
                page = "hidden" if key == "b" else "start"
                driver.pipe(
                    name,
                    key=key,
                    value={"user": person(key), "page": page, "tags": {"a": {"n": 1}}},
                    timestamp_ms=minute * MINUTE,
                )
                driver.pipe(name, key=key, value=b"{", timestamp_ms=minute * MINUTE)
                driver.pipe(name, key=f"{key}-gone", value=None, timestamp_ms=minute * MINUTE)
        driver.cut()
    driver.advance_wall_clock("3 hours")
    driver.cut()


@pytest.mark.parametrize("kind", NODES)
def test_rows_without_a_value_pass_through(kind: str, drive: Drive) -> None:
    driver = drive(NODES[kind].named("node"))
    play(driver)
    assert driver.rows("node"), driver.fates("node")
    driver.check("node")
