"""Days, weeks and months of time zones: where they begin, by rules that the lock pins."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from itertools import pairwise

import pytest

import headrace as hr
from headrace.description.calendars import EPOCH, FAR_MS, date_shifts, local_date, starts_of, zone_of
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

HOUR = 3_600_000
VIEWS = hr.Topic("views", key="user STRING", value="page STRING")


def ms(text: str) -> int:
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


def around(unit: str, zone: str, text: str) -> tuple[int, int]:
    """Begin and end of the unit of a moment."""
    bounds = pairwise((*starts_of(unit, zone), FAR_MS))
    return next((start, end) for start, end in bounds if start <= ms(text) < end)


@pytest.mark.parametrize(
    ("unit", "zone", "moment", "begins", "hours"),
    [
        ("day", "UTC", "2026-03-29T12:00+00:00", "2026-03-29T00:00+00:00", 24),
        ("day", "Europe/Berlin", "2026-03-29T12:00+00:00", "2026-03-28T23:00+00:00", 23),
        ("day", "Europe/Berlin", "2026-10-25T12:00+00:00", "2026-10-24T22:00+00:00", 25),
        ("week", "Europe/Berlin", "2026-03-29T12:00+00:00", "2026-03-22T23:00+00:00", 167),
        ("month", "Europe/Berlin", "2026-10-31T12:00+00:00", "2026-09-30T22:00+00:00", 31 * 24 + 1),
        ("month", "Europe/Berlin", "2024-02-29T12:00+00:00", "2024-01-31T23:00+00:00", 29 * 24),
        ("month", "Europe/Berlin", "2100-02-28T12:00+00:00", "2100-01-31T23:00+00:00", 28 * 24),
        ("day", "America/Sao_Paulo", "2018-11-04T12:00+00:00", "2018-11-04T03:00+00:00", 23),
        ("day", "Pacific/Apia", "2011-12-30T09:00+00:00", "2011-12-29T10:00+00:00", 24),
        ("day", "Pacific/Apia", "2011-12-30T10:00+00:00", "2011-12-30T10:00+00:00", 24),
    ],
)
def test_a_unit_begins_at_the_zones_midnight(
    unit: str, zone: str, moment: str, begins: str, hours: int
) -> None:
    start, end = around(unit, zone, moment)
    assert (start, (end - start) / HOUR) == (ms(begins), hours)


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Pacific/Kiritimati"]
)
@pytest.mark.parametrize("unit", ["day", "week", "month"])
def test_the_first_unit_holds_1970_and_each_start_has_its_own_date(unit: str, zone: str) -> None:
    starts = starts_of(unit, zone)
    assert starts[0] <= 0 < starts[1]
    shifts, rules = date_shifts(unit, zone), zone_of(zone)
    assert len(shifts) <= 3
    for start in starts[:: 1 if unit == "month" else 11]:
        shift = [each for from_ms, each in shifts if from_ms <= start][-1]
        assert EPOCH + dt.timedelta(milliseconds=start + shift) == local_date(start, rules)


def test_the_rules_are_those_of_the_package_whatever_the_machine_has(tmp_path: object) -> None:
    program = (
        "from headrace.description.calendars import starts_of; import tzdata\n"
        "assert starts_of('day', 'Europe/Berlin')[-1] == 7258114800000, starts_of('day', 'Europe/Berlin')[-1]\n"
    )
    environment = {**os.environ, "PYTHONTZPATH": str(tmp_path), "TZ": "Asia/Tokyo"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_the_zone_and_its_rules_are_among_what_alters_rows() -> None:
    def days(window: object) -> str:
        made = VIEWS.group_by().window(window, grace="1 hour").aggregate(n=hr.count())  # type: ignore[arg-type]
        return str(made.fingerprint())

    berlin = hr.calendar("day", zone="Europe/Berlin")
    assert days(berlin) == days(hr.calendar("day", zone="Europe/Berlin"))
    assert len({days(berlin), days(hr.calendar("day")), days(hr.calendar("week", zone="Europe/Berlin"))}) == 3
    assert len(berlin.rules_digest) == 64


def test_a_window_says_its_calendar() -> None:
    made = VIEWS.group_by().window(hr.calendar("month", zone="Europe/Berlin"), grace="1 hour")
    node = made.aggregate(n=hr.count())
    assert node.in_words == (
        "One row per user and calendar month (Europe/Berlin), final 31 days 2 hours of stream time after the window's end."
    ).replace("31 days 2 hours", "1 hour")
    assert node.longest_wait_ms == (31 * 24 + 2) * HOUR
    assert node.key == ("user", "window_start")


def test_what_is_no_calendar_is_refused() -> None:
    with refused("calendar: 'hour' is no unit", "day, week, month", "hr.tumbling('1 hour')"):
        hr.calendar("hour")
    with refused("there is no time zone 'Europe/Berln'", "Europe/Berlin"):
        hr.calendar("day", zone="Europe/Berln")
    with refused("there is no time zone"):
        hr.calendar("day", zone="../Berlin")
    with refused("clock='wall' is for tumbling and hopping windows"):
        VIEWS.group_by().window(hr.calendar("day"), clock="wall")
