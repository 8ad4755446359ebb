"""The newcomer's pipeline: page views with a nested value, looked up in a table of users that rarely changes, in windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.testing import TestDriver
from tests.laws.tables import ms
from tests.rows import columns

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = pytest.mark.fast

MINUTE, HOUR = 60_000, 3_600_000
VIEWS = hr.Topic("views", key="view_id STRING", value="user_id STRING, page STRUCT<path: STRING, ms: BIGINT>")
USERS = hr.Topic("users", key="user_id STRING", value="country STRING")
CLICKS = hr.Topic("clicks", key="click_id STRING", value="user_id STRING")
SEEN = VIEWS.lookup(USERS.table(), on="user_id")
PER_COUNTRY = (
    SEEN.as_stream()
    .group_by("country")
    .window(hr.tumbling("5 minutes"), grace="1 minute")
    .aggregate(views=hr.count())
    .suppress(hr.until_window_closes())
    .named("views_per_country")
)
ACTIONS = (
    VIEWS.select("user_id")
    .merge(CLICKS.select("user_id"))
    .group_by("user_id")
    .window(hr.tumbling("5 minutes"), grace="0 minutes")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("actions")
)


@pytest.fixture(scope="module", name="driver")
def started() -> Iterator[TestDriver]:
    driver = TestDriver([PER_COUNTRY, ACTIONS])
    yield driver
    driver.close()


def view(driver: TestDriver, number: int, minute: float, start_ms: int) -> None:
    page = {"path": f"/{number}", "ms": 10}
    at_ms = start_ms + round(minute * MINUTE)
    driver.pipe("views", key=f"v{number}", value={"user_id": "ann", "page": page}, timestamp_ms=at_ms)


def closed(driver: TestDriver, node: str) -> list[tuple[int, int]]:
    rows = sorted(driver.rows(node), key=lambda row: row["window_start"])
    return [(ms(row["window_start"]), row["n" if node == "actions" else "views"]) for row in rows]


@pytest.mark.parametrize("age_ms", [HOUR, 365 * 24 * HOUR], ids=["an hour old", "a year old"])
def test_windows_close_with_their_stream_whatever_the_age_of_the_table(
    driver: TestDriver, age_ms: int
) -> None:
    driver.reset()
    start_ms = driver.now_ms // (5 * MINUTE) * 5 * MINUTE
    driver.pipe("users", key="ann", value={"country": "NO"}, timestamp_ms=start_ms - age_ms)
    driver.cut()
    for number, minute in enumerate((0, 1, 4, 6, 12)):
        view(driver, number, minute, start_ms)
        driver.cut()
    rows = [(row["country"], row["views"]) for row in driver.rows("views_per_country")]
    assert sorted(rows) == [("NO", 1), ("NO", 3)]
    driver.check("views_per_country")


@pytest.mark.slow
def test_a_topic_that_never_had_a_record_holds_a_merge_until_it_is_idle(driver: TestDriver) -> None:
    driver.reset()
    start_ms = driver.now_ms // (5 * MINUTE) * 5 * MINUTE
    for number, minute in enumerate((0, 1, 6, 12)):
        view(driver, number, minute, start_ms)
        driver.cut()
    assert driver.rows("actions") == []
    driver.advance_wall_clock("20 minutes")
    view(driver, 9, 13, start_ms)
    driver.cut()
    assert [row["n"] for row in driver.rows("actions")] == [2, 1]
    driver.check("actions")


def test_late_records_of_a_topic_that_was_left_out_are_shown(driver: TestDriver) -> None:
    driver.reset()
    start_ms = driver.now_ms // (5 * MINUTE) * 5 * MINUTE
    driver.pipe("clicks", key="c1", value={"user_id": "ann"}, timestamp_ms=start_ms)
    driver.cut()
    driver.advance_wall_clock("30 minutes")
    driver.cut()
    view(driver, 1, 34, start_ms)
    driver.cut()
    driver.pipe("clicks", key="c2", value={"user_id": "ann"}, timestamp_ms=start_ms + MINUTE)
    driver.cut()
    late = [(row["topic"], row["offset"]) for row in driver.late("actions")]
    assert late == [("clicks", 1)]
    met = [row for row in driver.ledger("actions") if row["fate"] == "late" and row["records"]]
    assert columns(met, "topic", "records") == [("clicks", 1)]
    driver.check("actions")


def test_at_the_first_start_each_lookup_of_a_chain_finds_the_table_complete() -> None:
    """Sales come before the users. The second lookup is in the table that the first one has read, too."""
    sales = hr.Topic("sales", key="sale_id STRING", value="buyer STRING, seller STRING")
    buyers, sellers = (
        USERS.select("user_id", f"country AS {name}").table() for name in ("to_country", "from_country")
    )
    node = sales.lookup(buyers, on="buyer").lookup(sellers, on="seller").named("sold")
    with pytest.raises(hr.DescriptionError, match="There is no awaited topic 'user' here"):
        TestDriver([node], incomplete=["user"])
    driver = TestDriver([node])
    driver.pipe("sales", key="s1", value={"buyer": "ann", "seller": "bob"}, timestamp_ms=MINUTE)
    for user, country in (("ann", "NO"), ("bob", "SE")):
        driver.pipe("users", key=user, value={"country": country}, timestamp_ms=0)
    driver.cut()
    (sold_at,), (known_at,) = (
        {row["ingested_at"] for row in driver.log(topic) if row["kind"] == "record"}
        for topic in ("sales", "users")
    )
    assert sold_at < known_at
    assert columns(driver.rows("sold"), "sale_id", "to_country", "from_country") == [("s1", "NO", "SE")]
    driver.check("sold")
    driver.close()
