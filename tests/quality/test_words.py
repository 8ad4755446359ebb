"""Numbers, times and lists as sentences use them."""

from __future__ import annotations

import pytest

from headrace.quality.words import amount, counted, group_text, joined, moment, percent, short

pytestmark = pytest.mark.fast


def test_a_number_agrees_with_its_noun() -> None:
    assert [counted(n, "record") for n in (0, 1, 1234)] == ["0 records", "1 record", "1,234 records"]
    assert counted(2, "late", "late") == "2 late"


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(0, "0.00%"), (0.05, "5.00%"), (1, "100.00%"), (0.000004, "0.0004%"), (1e-12, "1e-10%")],
)
def test_a_percentage_never_rounds_to_nothing(ratio: float, words: str) -> None:
    assert percent(ratio) == words


def test_differences_say_their_direction() -> None:
    assert (amount(-3), amount(1)) == ("3 too few", "1 too many")


def test_times_are_utc_and_as_short_as_they_can_be() -> None:
    shown = [moment(ms) for ms in (None, 660_000, 661_000, 661_001, -1)]
    assert shown == [
        "no time yet",
        "1970-01-01 00:11 UTC",
        "1970-01-01 00:11:01 UTC",
        "1970-01-01 00:11:01.001 UTC",
        "1969-12-31 23:59:59.999 UTC",
    ]


def test_long_lists_are_cut_and_say_so() -> None:
    assert joined(["a"]) == "a"
    assert joined(["a", "b", "c"]) == "a, b and c"
    assert joined(list("abcdefg"), at_most=2) == "a, b and 5 more"


def test_values_from_the_data_stay_on_one_line() -> None:
    assert short("a\n  b") == "a b"
    assert len(short("x" * 500)) == 60
    assert group_text({"site": "north", "sensor": None}, ["sensor", "site"]) == "sensor=None, site=north"
