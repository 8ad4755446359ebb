"""Totals and windows of a stream as sides of joins and groups, for the laws of the kernel."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import headrace as hr
from tests.laws.kernel.reading import Computed
from tests.laws.kernel.subjects import Subject, topic

SALES = topic("sales", "shop STRING, clerk STRING, amount INT", "id STRING")
SHOPS = topic("shops", "city STRING, street STRING, opened INT", "shop STRING")
SIDES: dict[str, Any] = {
    "n": hr.count(),
    "total": hr.sum("amount"),
    "newest": hr.last("amount"),
    "best": hr.max_by("clerk", by="amount"),
    "clerks": hr.count_distinct("clerk"),
}


def of_window(row: Any) -> dict[str, Any]:
    """What the expressions of an aggregate over windows make of a window's row."""
    total = row["total"]
    return {"total * 2": None if total is None else total * 2, "n > 1": 1 if row["n"] > 1 else None}


MADE_OF_WINDOWS = [("__made:total * 2", pa.int64()), ("__made:n > 1", pa.int32())]
OF_WINDOWS = Computed("rows", pa.schema([*MADE_OF_WINDOWS, ("__made:passes", pa.bool_())]), of_window)


def side_subjects() -> list[Subject]:
    """Totals and windows of a stream as sides of joins and groups."""
    by_shop = SALES.group_by("shop")
    totals = by_shop.aggregate(**SIDES)
    windows = by_shop.window(hr.hopping("20 seconds", "8 seconds"), grace="10 seconds").aggregate(**SIDES)
    tumbling = by_shop.window(hr.tumbling("20 seconds"), grace="10 seconds").aggregate(**SIDES)
    final, known = tumbling.suppress(hr.until_window_closes()), SHOPS.table()
    sums = {"shops": hr.count(), "total": hr.sum("total")}
    nodes = {
        "totals_left": totals.join(known, on="shop", how="left"),
        "totals_right": known.join(totals, on="shop", how="left"),
        "cities": totals.join(known, on="shop").group_by("city").aggregate(**sums),
        "changes_of_windows": windows,
        "windows_left": windows.join(known, on="shop", how="left"),
        "final_windows": final.join(known, on="shop"),
        "numbers_of_windows": final.group_by("shop").aggregate(**sums),
    }
    twice = {"twice": hr.sum("total * 2"), "shops": hr.count(where="n > 1")}
    computed = {
        f"expressions_of_{name}": Subject(
            f"expressions_of_{name}", of.group_by("shop").aggregate(**twice).named("of"), True, OF_WINDOWS
        )
        for name, of in (("windows", windows), ("final_windows", final))
    }
    return [
        *(Subject(name, node.named(name), changes=True) for name, node in nodes.items()),
        *computed.values(),
    ]
