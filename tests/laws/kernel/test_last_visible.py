"""Passing over blocks of versions finds the same as looking at them one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.lookups.fold.find_in_time import NONE, last_visible

pytestmark = pytest.mark.fast

QUERY = st.tuples(st.integers(0, 20), st.integers(-1, 20), st.integers(0, 9))


@given(committed=st.lists(st.integers(0, 9), min_size=21, max_size=21), queries=st.lists(QUERY, max_size=20))
def test_it_is_the_last_one_that_was_committed_by_then(
    committed: list[int], queries: list[tuple[int, int, int]]
) -> None:
    first, last, by = (np.array([query[n] for query in queries], np.int64) for n in range(3))
    found = last_visible(np.array(committed), first, last, by)
    wanted = [
        max((place for place in range(start, end + 1) if committed[place] <= ms), default=NONE)
        for start, end, ms in queries
    ]
    assert found.tolist() == wanted


def test_no_versions_at_all() -> None:
    none = np.zeros(0, np.int64)
    zero = np.zeros(1, np.int64)
    assert last_visible(none, zero, zero - 1, zero).tolist() == [NONE]
