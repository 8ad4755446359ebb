"""Aggregates of expressions, with conditions: of streams, windows and tables, as plain Python computes them."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from tests.rows import columns
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

ORDERS = hr.Topic(
    "orders", key="id STRING", value="who STRING, price DECIMAL(10,2), n INT, state STRING", idle_timeout=None
)
AGGREGATES: dict[str, Any] = {
    "total": hr.sum("price * n"),
    "paid": hr.sum("price * n", where="state = 'paid'"),
    "failed": hr.count(where="state = 'failed'"),
    "best": hr.max_by("state", by="price", where="n > 2"),
    "kinds": hr.count_distinct("upper(state)", where="price > 5"),
}


def expected(rows: list[dict[str, Any]]) -> tuple[Any, ...]:
    """The aggregates of a group's rows, in the order of the log."""
    whole = [row for row in rows if row["price"] is not None and row["n"] is not None]
    many = [row for row in rows if row["n"] is not None and row["n"] > 2 and row["price"] is not None]
    return (
        sum((row["price"] * row["n"] for row in whole), Decimal(0)) if whole else None,
        sum((row["price"] * row["n"] for row in whole if row["state"] == "paid"), Decimal(0))
        if any(row["state"] == "paid" for row in whole)
        else None,
        sum(row["state"] == "failed" for row in rows),
        max(many, key=lambda row: row["price"])["state"] if many else None,
        len({row["state"] for row in rows if row["price"] is not None and row["price"] > 5} - {None}),
    )


@pytest.mark.slow
def test_expressions_and_conditions_of_aggregates(drive: Drive) -> None:
    totals = ORDERS.group_by("who").aggregate(**AGGREGATES).named("totals")
    windows = (
        ORDERS.group_by("who").window(hr.tumbling("2 minutes"), grace="1 minute").aggregate(**AGGREGATES)
    )
    table = ORDERS.table().group_by("who").aggregate(**AGGREGATES).named("of_the_table")
    driver = drive(totals, windows.named("windows"), table)
    random = Random(5)
    rows, current = list[dict[str, Any]](), dict[str, dict[str, Any]]()
    for number in range(40):
        row = {
            "who": random.choice("ab"),
            "price": random.choice([None, *(Decimal(cents) / 100 for cents in (99, 501, 750, 1250))]),
            "n": random.choice([None, 1, 2, 3, 4]),
            "state": random.choice([None, "paid", "failed", "open"]),
        }
        key = f"k{number % 12:02}"
        sent = row | {"price": None if row["price"] is None else float(row["price"])}
        driver.pipe("orders", key=key, value=sent, timestamp_ms=number * MINUTE // 4)
        rows.append(row | {"window": number // 8})
        current[key] = row
        if number % 11 == 0:
            driver.cut()
    driver.cut()
    grouped: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        grouped[row["who"]].append(row)
        grouped[row["who"], row["window"]].append(row)
    for _, row in sorted(current.items()):
        grouped[row["who"], "table"].append(row)

    def shown(name: str, *, of: tuple[str, ...] = ("who",)) -> dict[Any, Any]:
        rows = columns(driver.rows(name), *of, *AGGREGATES)
        return {row[: len(of)]: row[len(of) :] for row in rows}

    assert shown("totals") == {(who,): expected(grouped[who]) for who in "ab"}
    assert shown("of_the_table") == {(who,): expected(grouped[who, "table"]) for who in "ab"}
    of_windows = columns(driver.rows("windows"), "who", "window_start", *AGGREGATES)
    assert {(who, start.minute // 2): tuple(values) for who, start, *values in of_windows} == {
        key: expected(each) for key, each in grouped.items() if isinstance(key, tuple) and key[1] != "table"
    }
    for name in ("totals", "windows", "of_the_table"):
        driver.check(name)
