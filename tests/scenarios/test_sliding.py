"""A timeline with sliding windows: time difference two minutes, grace one (see `timeline`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from tests.laws import tables
from tests.scenarios.timeline import MINUTE, fates, play, shown

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.spark


def test_records_make_the_windows_that_end_with_them_and_begin_after_them_as_long_as_these_are_open(
    drive: Drive,
) -> None:
    topic = hr.Topic("readings", key="sensor STRING", value="value DOUBLE", idle_timeout=None)
    counted = (
        topic.group_by("sensor").window(hr.sliding("2 minutes"), grace="1 minute").aggregate(n=hr.count())
    )
    node = counted.suppress(hr.until_window_closes()).named("bursts")
    driver = drive(node)

    play(driver, "a@0.5  a@1  b@1.5  a@3")  # at 3 = 2 + 1 the window that all early records share closes
    assert shown(driver.read("bursts")) == ["a 0-2 2", "b 0-2 1"]

    # 1.9 misses that window, and enters those that are open; 0.2 lies in no other, yet makes one of what follows it.
    play(driver, "a@1.9  a@0.2  !after outputs")
    assert fates(driver.ledger("bursts")) == {"open": 6}

    play(driver, "c@60")
    windows = tables.windows(tables.rows(driver.read("bursts")), "sensor")
    after = {minute: round(minute * MINUTE) + 1 for minute in (0.2, 0.5, 1.0, 1.9)}
    assert {start: row["n"] for (sensor, start), row in windows.items() if sensor == "a"} == {
        0: 2,  # 0.5 and 1
        after[0.2]: 3,  # 0.5, 1 and 1.9
        after[0.5]: 2,  # 1 and 1.9
        1 * MINUTE: 3,  # 1, 1.9 and 3
        after[1.0]: 2,  # 1.9 and 3
        after[1.9]: 1,  # 3
    }
    late = tables.rows(driver.late("bursts"))
    assert sorted((row["timestamp"] / MINUTE, row["window_start"], row["late_by_ms"]) for row in late) == [
        (0.2, 0, 0),
        (1.9, 0, 0),
    ]
    assert fates(driver.ledger("bursts")) == {"used": 5, "late": 1, "open": 1}, (
        "0.2 entered no window after all"
    )
    assert tables.windows(tables.rows(driver.backfill("bursts")), "sensor") == windows
