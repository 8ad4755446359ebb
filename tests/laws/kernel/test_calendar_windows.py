"""Windows of a calendar, in any cuts, are those of the oracle, which asks the zone's clocks record by record."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from tests.laws.kernel.subjects import T, U
from tests.laws.kernel.timelines import made, timeline

pytestmark = pytest.mark.fast

HOURS = 3_600
ZONES = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu")
# Before a change of the clocks, a leap day, a day that does not exist, and the beginning of 1970.
NEAR = ("2026-03-28", "2026-10-24", "2024-02-28", "2018-11-03", "2011-12-29", "1970-01-02")


def seconds(day: str) -> int:
    return round(dt.datetime.fromisoformat(day).replace(tzinfo=dt.UTC).timestamp())


@settings(deadline=None, max_examples=20)
@given(
    unit=st.sampled_from(["day", "week", "month"]),
    zone=st.sampled_from(ZONES),
    near=st.sampled_from(NEAR).map(seconds),
    grace=st.sampled_from([0, 2, 30]),
    commits=st.lists(
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(-20, 60)), max_size=6),
        min_size=2,
        max_size=6,
    ),
    kind=st.integers(0, 3),
)
def test_windows_of_a_calendar_in_any_cuts(
    unit: str, zone: str, near: int, grace: int, commits: list[list[tuple[str, int, int]]], kind: int
) -> None:
    stride = {"day": 8, "week": 40, "month": 200}[unit]
    records: dict[int, Any] = {
        1 + number: [
            (key, value, max(0, near + (hour + number * stride) * HOURS)) for key, value, hour in some
        ]
        for number, some in enumerate(commits)
    }
    stream = T.merge(U) if kind == 3 else T.stream
    windows = stream.group_by("key").window(hr.calendar(unit, zone=zone), grace=grace * HOURS * 1_000)
    totals = windows.aggregate(n=hr.count(), total=hr.sum("value"), first=hr.first("value"))
    node: Any = totals if kind == 1 else totals.suppress(hr.until_window_closes())
    node = totals.suppress(hr.until_time_limit("5 hours")) if kind == 2 else node
    topics = {"t": records, **({"u": {at + 1: some for at, some in records.items()}} if kind == 3 else {})}
    made(node.named("windows"), timeline(pa.int64(), topics))


def test_the_days_of_berlin_over_both_changes_of_its_clocks() -> None:
    node = T.group_by("key").window(hr.calendar("day", zone="Europe/Berlin"), grace="1 hour")
    days = node.aggregate(n=hr.count()).suppress(hr.until_window_closes()).named("days")
    found = []
    for day in ("2026-03-28", "2026-10-24"):
        begin = seconds(day)
        hourly = [("a", 1, begin + hour * HOURS) for hour in range(72)]
        rows = made(days, timeline(pa.int64(), {"t": {1: hourly[:30], 2: hourly[30:]}}))
        found += [(row["window_start"].strftime("%d %H"), row["n"]) for row in rows]
    assert found == [("27 23", 23), ("28 23", 23), ("29 22", 24), ("23 22", 22), ("24 22", 25)]
