"""The rows that `headrace tail` shows: as the last commits have made, changed or removed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.observe.tail import Tail

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.fast
VIEWS = hr.Topic("views", key="user STRING", value="page STRING")
TOTALS = VIEWS.group_by("page").aggregate(n=hr.count()).named("totals")


def test_the_newest_rows_of_a_table_that_commits_revise(drive: Drive) -> None:
    """Before, commits that revise rows were passed over, and the rows of the first one were told as the newest."""
    driver = drive(TOTALS)
    for page in ("a", "b", "a"):
        driver.pipe("views", key="u", value={"page": page})
        driver.cut()
        driver._runners["totals"].maintain()
    told = [(each.gone, each.row["page"], each.row["n"]) for each in Tail(driver.lake, TOTALS).newest(10)]
    assert told == [(False, "a", 1), (False, "b", 1), (True, "a", 1), (False, "a", 2)]
    assert [each.row["n"] for each in Tail(driver.lake, TOTALS).newest(1)] == [2]
