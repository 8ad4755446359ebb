"""A throttled table: a sink gets a key's newest row, at most once in an interval of commit time.

seconds          0    1    2    10   11   20
records          a    a b       a    b    -
log commits      1    2    3    4    5
throttled sink             a b       |    a b
other sink                 a a b     |    a b
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.description import Relation

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.conftest import Drive

pytestmark = pytest.mark.fast

VISITS = hr.Topic("visits", key="user STRING", value="n INT", idle_timeout=None)
PLACES = hr.Topic("places", key="n INT", value="place STRING", idle_timeout=None)
LATEST = VISITS.table()
TABLES: dict[str, Relation] = {
    "latest": LATEST,
    "totals": VISITS.group_by("user").aggregate(n=hr.last("n"), visits=hr.count()),
    "refined": LATEST.where("n IS NOT NULL"),
    "joined": LATEST.join(PLACES.table(), on="n", how="left"),
    "grouped": LATEST.group_by("user").aggregate(n=hr.max("n")),
}


@dataclass
class Store:
    """Keeps each delivery: user, n, and whether the row is gone."""

    name: str = "store"
    deliveries: list[list[tuple[str, int | None, bool]]] = field(default_factory=list)
    away: bool = False

    def deliver(self, rows: Any, delivery: hr.Delivery) -> None:
        raise AssertionError("few rows start no Spark")

    def deliver_table(self, rows: pa.Table, delivery: hr.Delivery) -> None:
        self.deliveries.append([(row["user"], row["n"], row["__deleted"]) for row in rows.to_pylist()])
        if self.away:
            raise hr.TransientError("away")


@pytest.mark.parametrize("table", TABLES)
def test_a_sink_of_a_throttled_table_gets_the_newest_row_of_each_key(table: str, drive: Drive) -> None:
    slow, quick = Store(), Store()
    throttled = TABLES[table].throttle("10 seconds").to(slow).named("throttled")
    driver = drive(throttled, TABLES[table].to(quick).named("other"))
    runner = driver._runners["throttled"]

    def visit(user: str, n: int) -> None:
        driver.pipe("visits", key=user, value={"n": n}, timestamp_ms=0, partition=0)

    driver.advance_wall_clock(f"{10_000 - driver.now_ms % 10_000} ms")
    for users in ("a", "ab"):
        for user in users:
            visit(user, 1 if users == "a" else 2)
        driver.cut([])  # a log commit that no node reads yet
        driver.advance_wall_clock("1 second")
    driver.cut()
    assert slow.deliveries == [[("a", 2, False), ("b", 2, False)]]
    assert quick.deliveries == [[("a", 1, False), ("a", 2, False), ("b", 2, False)]]

    driver.advance_wall_clock("5 seconds")
    assert not runner.due(driver.now_ms), "the interval is not over"
    driver.advance_wall_clock("3 seconds")
    assert runner.due(driver.now_ms)
    visit("a", 3)
    driver.cut([])
    driver.advance_wall_clock("1 second")
    visit("b", 3)
    driver.crash("after sinks", "throttled")  # the rows are there, and come again
    driver.cut()
    again = [("a", 3, False), ("b", 3, False)]
    assert slow.deliveries[1:] == [again, again]
    assert quick.deliveries[1:] == [again]
    driver.check("throttled")


def test_a_row_that_has_gone_is_the_newest(drive: Drive) -> None:
    store = Store()
    driver = drive(LATEST.throttle("1 minute").to(store).named("throttled"))
    driver.pipe("visits", key="a", value={"n": 1}, timestamp_ms=0)
    driver.cut([])
    driver.pipe("visits", key="a", value=None, timestamp_ms=0)
    driver.cut()
    assert store.deliveries == [[("a", None, True)]]
    driver.check("throttled")


def test_a_sink_that_was_away_gets_the_same_micro_batch_again(drive: Drive) -> None:
    """Before, the driver planned another one, as no stream does: the sink lacked rows that were newest in the first."""
    store = Store(away=True)
    driver = drive(LATEST.throttle("1 minute").to(store).named("throttled"))
    for user in "abc":
        driver.pipe("visits", key=user, value={"n": 1}, timestamp_ms=0)
    with pytest.raises(hr.TransientError):
        driver.cut()
    store.away = False
    for user in "ab":
        driver.pipe("visits", key=user, value={"n": 2}, timestamp_ms=0)
    driver.cut()
    first = [("a", 1, False), ("b", 1, False), ("c", 1, False)]
    assert store.deliveries == [first, first, [("a", 2, False), ("b", 2, False)]]
    driver.check("throttled")
