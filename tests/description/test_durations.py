"""Durations are read as people write them and are whole milliseconds."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.description import duration_ms, format_duration
from headrace.description.durations import DURATION_MAX_MS
from tests.description.refusal import refused

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2 minutes", 120_000),
        ("10 seconds", 10_000),
        ("500 ms", 500),
        ("1 hour 30 minutes", 5_400_000),
        ("1 day", 86_400_000),
        ("1 week", 604_800_000),
        ("1h30m", 5_400_000),
        ("  5 Sec ", 5_000),
        ("1.5 seconds", 1_500),
        ("0.001 s", 1),
        ("2000 us", 2),
        ("0 seconds", 0),
        (0, 0),
        (1500, 1500),
        (timedelta(minutes=2, milliseconds=3), 120_003),
    ],
)
def test_a_duration_is_read_as_milliseconds(text: str | int | timedelta, ms: int) -> None:
    assert duration_ms(text, "grace") == ms


@pytest.mark.parametrize("text", ["-1 second", "1 hour -3 minutes", -1, timedelta(seconds=-1)])
def test_a_negative_duration_is_refused(text: str | int | timedelta) -> None:
    with refused("grace", str(text) if isinstance(text, str) else repr(text), "is negative", "'0 seconds'"):
        duration_ms(text, "grace")


def test_an_unknown_unit_is_refused_with_the_unit_that_was_meant() -> None:
    with refused("grace", "'2 minuts'", "unknown unit 'minuts'", "seconds, minutes", "'minutes'"):
        duration_ms("2 minuts", "grace")


@pytest.mark.parametrize("text", ["1 month", "2 years", "1 Quarter", "1y"])
def test_a_calendar_unit_is_refused_with_days_instead(text: str) -> None:
    with refused("size", text, "no fixed length", "'30 days'"):
        duration_ms(text, "size")


@pytest.mark.parametrize("text", ["0.5 ms", "1 us", timedelta(microseconds=1), "1.0001 seconds"])
def test_a_fraction_of_a_millisecond_is_refused(text: str | timedelta) -> None:
    with refused("grace", "finer than a millisecond", "Round"):
        duration_ms(text, "grace")


@pytest.mark.parametrize("text", ["", "  ", "5", "minutes", "2 minutes!", "2, 3 minutes", "PT5M", "1e3 ms"])
def test_text_that_is_no_duration_is_refused_with_examples(text: str) -> None:
    with refused("grace", repr(text), "'2 minutes'"):
        duration_ms(text, "grace")


@pytest.mark.parametrize("value", [None, 1.5, True, ["1 day"], object])
def test_another_type_is_refused_by_our_error(value: object) -> None:
    with refused("grace", "is not a duration"):
        duration_ms(value, "grace")  # type: ignore[arg-type]


def test_more_than_a_hundred_years_is_refused() -> None:
    assert duration_ms("36525 days", "grace") == DURATION_MAX_MS
    with refused("grace", "'36526 days'", "100 years"):
        duration_ms("36526 days", "grace")


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (500, "500 ms"),
        (60_000, "1 minute"),
        (5_400_000, "1 hour 30 minutes"),
        (1_001, "1 second 1 ms"),
    ],
)
def test_milliseconds_are_written_as_people_say_them(ms: int, text: str) -> None:
    assert format_duration(ms) == text


@given(st.integers(0, DURATION_MAX_MS))
def test_what_is_written_is_read_back(ms: int) -> None:
    assert duration_ms(format_duration(ms), "any") == ms
