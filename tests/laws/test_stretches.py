"""Which stretches of a log are read again: every commit that is needed, few intervals."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.batches.stretches import STRETCHES_MAX, stretches

pytestmark = pytest.mark.fast


@given(
    commits=st.lists(st.integers(0, 10_000), max_size=80),
    opened=st.none() | st.integers(0, 10_000),
)
def test_every_commit_is_read_and_nothing_beside_them_while_they_are_few(
    commits: list[int], opened: int | None
) -> None:
    found = stretches(commits, opened, 10_000)
    assert len(found) <= STRETCHES_MAX
    assert all(any(first <= ms <= last for first, last in found) for ms in commits)
    assert all(first <= last for first, last in found)
    assert all(left[1] < right[0] for left, right in pairwise(found))
    if opened is not None:
        assert found[-1] == (opened, 10_000)
    elif len(set(commits)) <= STRETCHES_MAX:
        assert found == [(ms, ms) for ms in sorted(set(commits))]


def test_commits_that_lie_together_are_read_together() -> None:
    crowd = [base + n for base in range(0, 100_000, 10_000) for n in range(9)]
    assert len(stretches(crowd, None, 0)) == STRETCHES_MAX
    assert stretches([], None, 5) == []
