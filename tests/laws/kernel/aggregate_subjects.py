"""Nodes whose aggregates read two columns or keep more than a number, and values for them that are often equal."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

import headrace as hr
from tests.laws.kernel.logs import SECOND
from tests.laws.kernel.subjects import Subject, limited, topic

RANKS = (None, 0.0, -0.0, 1.5, 1.5, -2.0, math.nan, math.inf, 3.0, -1e300)
ITEMS = (None, {"name": "a", "parts": [1]}, {"name": "ü", "parts": None}, {"name": None, "parts": [None, 2]})
VALUE = pa.struct(
    [("item", pa.struct([("name", pa.string()), ("parts", pa.list_(pa.int32()))])), ("rank", pa.float64())]
)
RANKED: dict[str, Any] = {
    "best": hr.max_by("item", by="rank"),
    "worst": hr.min_by("rank", by="item"),
    "three": hr.top(3, "item", by="rank"),
    "two": hr.top(2, "rank", by="item"),
    "tied": hr.top(2, "item", by="rank", ties=True),
    "ordered": hr.top(2, "item", by=("rank DESC", "item")),
    "ordered_ties": hr.top(1, "rank", by=("item", "rank ASC"), ties=True),
}
DISTINCT: dict[str, Any] = {
    "items": hr.count_distinct("item"),
    "ranks": hr.count_distinct("rank"),
    "about": hr.approx_count_distinct("rank", error=0.1),
    "parts": hr.quantiles("rank", at=[0.5, 0, 0.9]),
}


def item_and_rank(number: int) -> Any:
    """A value of two columns. Each item comes with each rank."""
    return {"item": ITEMS[number % len(ITEMS)], "rank": RANKS[number // len(ITEMS) % len(RANKS)]}


def subjects_with(aggregates: dict[str, Any]) -> list[Subject]:
    """One node for each way in which partials are merged."""
    grouped = topic("t", "item STRUCT<name: STRING, parts: ARRAY<INT>>, rank DOUBLE").group_by()
    hopping = grouped.window(hr.hopping(9 * SECOND, 4 * SECOND), grace=2 * SECOND).aggregate(**aggregates)
    nodes = {
        "tumbling": grouped.window(hr.tumbling(8 * SECOND), grace=0).aggregate(**aggregates),
        "hopping": hopping.suppress(hr.until_window_closes()),
        "sliding": grouped.window(hr.sliding(3 * SECOND), grace=2 * SECOND).aggregate(**aggregates),
        "sessions": grouped.window(hr.session(2 * SECOND), grace=SECOND).aggregate(**aggregates),
    }
    totals = grouped.aggregate(**aggregates)
    return [
        *(Subject(name, node.named(name)) for name, node in nodes.items()),
        Subject("totals", totals.named("totals"), changes=True),
        limited("overlapping", 5 * SECOND, hopping),
        limited("small", 8 * SECOND, totals, max_bytes=150),
    ]
