"""`hr.top` by several columns over the groups of a table, whose rows change and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

OFFERS = hr.Topic("offers", key="id STRING", value="item STRING, price INT, seller STRING", idle_timeout=None)
BEST = (
    OFFERS.table()
    .group_by("item")
    .aggregate(best=hr.top(2, "id", by=("price ASC", "seller DESC")), n=hr.count())
    .named("best_offers")
)


def test_the_first_rows_follow_what_the_table_has_now(drive: Drive) -> None:
    """By hand: a, b and c cost 5, 5 and 7; b's seller z is before a's y. Then b costs 9, and at last a is gone."""
    driver = drive(BEST)

    def offer(id_: str, price: int | None, seller: str = "") -> None:
        value = None if price is None else {"item": "pen", "price": price, "seller": seller}
        driver.pipe("offers", key=id_, value=value, timestamp_ms=0)

    found = []
    for offers in ([("a", 5, "y"), ("b", 5, "z"), ("c", 7, "x")], [("b", 9, "z")], [("a", None)]):
        for each in offers:
            offer(*each)
        driver.crash("after outputs")
        driver.cut()
        (row,) = driver.rows("best_offers")
        found.append((row["best"], row["n"]))
    assert found == [(["b", "a"], 3), (["a", "c"], 3), (["c", "b"], 2)]
    driver.check("best_offers")
