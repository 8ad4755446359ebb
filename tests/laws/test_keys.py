"""The law of keys as numbers: what is found by place in an array is what a dictionary finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.columnar.places import not_before
from headrace.spark.keys import NONE, among, encoded, newest, rows_by_key

if TYPE_CHECKING:
    from collections.abc import Sequence

Key = tuple[str | None, int | None]
KEYS = st.lists(st.tuples(st.sampled_from(["a", "b", "ü", "", None]), st.sampled_from([0, 1, -7, None])))
RANKS = st.lists(st.integers(0, 2), min_size=3, max_size=3)
MANY = settings(max_examples=200)


def columns(keys: Sequence[Key]) -> list[pa.ChunkedArray]:
    """The keys as columns, cut in two."""
    half = len(keys) // 2
    return [
        pa.chunked_array([[key[place] for key in part] for part in (keys[:half], keys[half:])], type=of)
        for place, of in enumerate((pa.string(), pa.int16()))
    ]


def whole(key: Key) -> bool:
    return None not in key


@MANY
@given(one=KEYS, other=KEYS)
def test_keys_have_the_same_number_if_they_are_the_same(one: list[Key], other: list[Key]) -> None:
    (mine, theirs), count = encoded(columns(one), columns(other))
    numbers = [*zip([*one, *other], [*mine.tolist(), *theirs.tolist()], strict=True)]
    assert all((number == NONE) == (not whole(key)) for key, number in numbers)
    of = {key: number for key, number in numbers if whole(key)}
    assert sorted(of.values()) == sorted(set(of.values()))
    assert all(of[key] == number and number < count for key, number in numbers if whole(key))


@MANY
@given(one=KEYS, other=KEYS)
def test_rows_are_found_by_their_keys(one: list[Key], other: list[Key]) -> None:
    assert among(columns(one), columns(other)).tolist() == [whole(key) and key in other for key in one]
    (mine, theirs), count = encoded(columns(one), columns(other))
    last = {key: row for row, key in enumerate(other) if whole(key)}
    assert rows_by_key(theirs, count)[mine].tolist() == [last.get(key, NONE) for key in one]


@MANY
@given(rows=st.lists(st.tuples(st.integers(-1, 4), RANKS)))
def test_the_newest_ranks_highest(rows: list[tuple[int, list[int]]]) -> None:
    key = np.array([number for number, _ in rows], np.int64)
    rank = [np.array([of[place] for _, of in rows], np.int64) for place in range(3)]
    best: dict[int, tuple[list[int], int]] = {}
    for row, (number, of) in enumerate(rows):
        if number != NONE and (number not in best or of >= best[number][0]):
            best[number] = (of, row)
    assert newest(key, 5, rank).tolist() == sorted(row for _, row in best.values())


@MANY
@given(pairs=st.lists(st.tuples(RANKS, RANKS), min_size=1))
def test_places_compare_by_the_first_number_that_differs(pairs: list[tuple[list[int], list[int]]]) -> None:
    left, right = ([np.array([pair[side][place] for pair in pairs]) for place in range(3)] for side in (0, 1))
    assert not_before(left, right).tolist() == [one >= other for one, other in pairs]
