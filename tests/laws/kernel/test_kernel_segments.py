"""Running values within segments are those of a loop, also where numbers lie too far apart to be put into one."""

from __future__ import annotations

import bisect
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.fold import segments
from headrace.fold.changes.ordering import order
from headrace.fold.segments import NO_TIME

pytestmark = pytest.mark.fast

EXAMPLES = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "100")), deadline=None)
NUMBERS = st.one_of(st.integers(-5, 5), st.integers(-(2**60), 2**60), st.integers(0, 2**40))
PAIRS = st.lists(st.tuples(st.integers(0, 4), NUMBERS), max_size=30)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([s for s, _ in pairs], np.int64), np.array([v for _, v in pairs], np.int64)


@EXAMPLES
@given(st.lists(st.tuples(NUMBERS, st.booleans(), st.integers(-1, 1), NUMBERS), max_size=30))
def test_rows_are_ordered_by_their_numbers_from_the_first_on(rows: list[tuple[int, bool, int, int]]) -> None:
    types = (np.int64, np.bool_, np.int8, np.int64)
    numbers: list[np.ndarray] = [np.array([row[at] for row in rows], of) for at, of in enumerate(types)]
    assert order(*numbers).tolist() == sorted(range(len(rows)), key=lambda row: rows[row])
    assert order(numbers[2], numbers[1]).tolist() == sorted(
        range(len(rows)), key=lambda row: (rows[row][2], rows[row][1])
    )


@EXAMPLES
@given(PAIRS, st.data())
def test_running_values_are_those_of_a_loop(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    pairs.sort(key=lambda pair: pair[0])
    segment, values = columns(pairs)
    unknown = np.array([data.draw(st.booleans()) for _ in pairs], bool)
    values = np.where(unknown, NO_TIME, values)
    first = segments.begins(segment)
    highest = [
        max(v for s, v in zip(segment[: n + 1], values, strict=False) if s == segment[n])
        for n in range(len(pairs))
    ]
    assert segments.running_max(first, values).tolist() == highest
    earlier = [values[n - 1] if n and segment[n - 1] == segment[n] else -7 for n in range(len(pairs))]
    assert segments.before(first, values, -7).tolist() == earlier


@EXAMPLES
@given(PAIRS, PAIRS, st.sampled_from(["left", "right"]))
def test_places_are_those_of_a_binary_search(
    pairs: list[tuple[int, int]], wanted: list[tuple[int, int]], side: segments.Side
) -> None:
    pairs.sort()
    search = bisect.bisect_left if side == "left" else bisect.bisect_right
    found = segments.places(columns(pairs), columns(wanted), side)
    assert found.tolist() == [search(pairs, pair) for pair in wanted]


@EXAMPLES
@given(PAIRS)
def test_pairs_are_ordered_by_segment_and_value(pairs: list[tuple[int, int]]) -> None:
    segment, values = columns(pairs)
    assert [*zip(*(c.tolist() for c in segments.distinct_pairs(segment, values)), strict=True)] == sorted(
        set(pairs)
    )
    order = segments.order_within(segment, values).tolist()
    assert order == sorted(range(len(pairs)), key=lambda number: pairs[number])


@EXAMPLES
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 5)), max_size=20))
def test_ranges_follow_one_another(pairs: list[tuple[int, int]]) -> None:
    starts, counts = columns(pairs)
    expected = [number for start, count in pairs for number in range(start, start + count)]
    assert segments.ranges(starts, counts).tolist() == expected
