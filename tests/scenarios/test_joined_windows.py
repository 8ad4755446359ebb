"""Two tables of windows of one length, joined on their start: numbers, and the oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

SECOND = 1_000
SHOWN = hr.Topic("shown", key="id STRING", value="visitor STRING", idle_timeout=None)
CLICKS = hr.Topic("clicks", key="id STRING", value="who STRING", idle_timeout=None)


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_each_window_has_one_end_whichever_side_it_comes_from(drive: Drive, how: str) -> None:
    """Shown 2 in 0–10 and 1 in 20–30; clicked 1 in 0–10 and 1 in 10–20."""
    window: Any = hr.tumbling("10 seconds")
    shown = SHOWN.group_by("visitor").window(window, grace=0).aggregate(shown=hr.count())
    clicks = CLICKS.group_by("who").window(window, grace=0).aggregate(clicks=hr.count())
    on = {"visitor": "who", "window_start": "window_start"}
    driver = drive(shown.join(clicks, on=on, how=how).named("rates"))
    for topic, column, second in [("shown", "visitor", 1), ("clicks", "who", 3), ("shown", "visitor", 5), ("clicks", "who", 12), ("shown", "visitor", 25)]:  # fmt: skip
        driver.pipe(topic, key="x", value={column: "v"}, timestamp_ms=second * SECOND)
        driver.cut()
    rows = [
        (row["window_start"].timestamp(), row["window_end"].timestamp(), row["shown"], row["clicks"])
        for row in driver.rows("rates")
    ]
    both, left, right = (0, 10, 2, 1), (20, 30, 1, None), (10, 20, None, 1)
    assert sorted(rows) == sorted([both, *[left] * (how != "inner"), *[right] * (how == "outer")])
    assert driver.verify("rates").equal
