"""How much of a log is read at once when it is made anew: whole commits, bounded by their rows and by their bytes."""

from __future__ import annotations

import pytest

from headrace.lifecycle.log_repair.remake_log import stretches_of

pytestmark = pytest.mark.fast


def test_a_stretch_ends_with_the_commit_that_fills_it() -> None:
    few = [(at, 10, 100) for at in range(1, 6)]
    assert [*stretches_of(few)] == [(1, 5)]
    assert [*stretches_of(few, rows_max=20)] == [(1, 2), (3, 4), (5, 5)]
    large = [(1, 10, 100), (2, 1, 5_000), (3, 10, 0), (4, 10, 100)]
    assert [*stretches_of(large, bytes_max=1_000)] == [(1, 2), (3, 4)]
    assert [*stretches_of([])] == []
