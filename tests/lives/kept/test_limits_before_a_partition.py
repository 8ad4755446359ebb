"""Limits are set before a partition has a record: they hold there, too, and the check of a table says so."""

from __future__ import annotations

import pytest

from tests.lives.one import live
from tests.lives.story import Life, Limit, Made, Send, Sent


@pytest.mark.fast
@pytest.mark.parametrize(
    ("node", "record", "limit_ms"),
    [
        (Made("time limit", number=15167), Sent("t", 1, "ü", 3_599_000, 1), 0),
        (Made("time limit", number=4), Sent("u", 2, "a", 3_619_500, 2), 2_000),
    ],
    ids=["shorter", "longer"],
)
def test_the_oracle_knows_limits_from_before_a_partition(node: Made, record: Sent, limit_ms: int) -> None:
    """It replayed the partitions of the keys alone, and the row that sets the limits stands in another one."""
    live(Life(nodes=(node,), begins=1, steps=(Send((record,)), Limit(limit_ms))))
