"""Which changes of a topic's columns the rows of its log tell."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.changing.comparing.compare_topics import TopicChanges, compare_types, is_wider

pytestmark = pytest.mark.fast

NONE: Mapping[str, str] = {}
WHOLE: dict[str, Any] = {"byte": np.int8, "short": np.int16, "integer": np.int32, "long": np.int64}
TYPES = st.sampled_from([*WHOLE, "float", "double", "string", "decimal(5,2)", "decimal(7,2)", "decimal(7,4)"])
COLUMNS = st.dictionaries(st.sampled_from("abcd"), TYPES, min_size=1)


def compare(
    before: Mapping[str, Any], now: Mapping[str, Any], renamed: Mapping[str, str] = NONE
) -> TopicChanges:
    return compare_types({"value": before}, {"value": now}, renamed)


@given(before=COLUMNS, now=COLUMNS, renamed=st.dictionaries(st.sampled_from("abcd"), st.sampled_from("abcd")))
def test_each_column_is_told_once_and_equal_ones_are_not(
    before: dict[str, str], now: dict[str, str], renamed: dict[str, str]
) -> None:
    found = compare(before, now, renamed)
    names = found.renamed or {}
    assert not found.needs_rows or before != now
    assert (found == TopicChanges(removed={}, renamed={}, widened={})) == (before == now)
    assert {*found.gained, *names} == {*now} - {*before}
    assert {*(found.removed or {}), *names.values()} == {*before} - {*now}
    told = {*(found.widened or {}), *(line.partition(":")[0] for line in found.other)}
    sources = {name: names.get(name, name) for name in now}
    assert told == {
        name for name, source in sources.items() if source in before and before[source] != now[name]
    }


def test_a_whole_number_type_is_wider_if_it_holds_every_value() -> None:
    for one, of in WHOLE.items():
        for other, than in WHOLE.items():
            holds = np.iinfo(than).max > np.iinfo(of).max
            assert is_wider(one, other) == holds, (one, other)
    assert not is_wider("integer", "double")
    assert is_wider("float", "double")
    assert not is_wider("string", "long")
    assert not is_wider({"a": "integer"}, {"a": "long"})


@given(
    one=st.tuples(st.integers(1, 9), st.integers(0, 9)), other=st.tuples(st.integers(1, 9), st.integers(0, 9))
)
def test_a_decimal_is_wider_if_it_holds_the_largest_and_the_finest(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    (digits, scale), (digits_now, scale_now) = ((max(d, s), s) for d, s in (one, other))
    largest = Decimal(10**digits - 1).scaleb(-scale)
    limit = Decimal(10**digits_now - 1).scaleb(-scale_now)
    holds = largest <= limit and scale <= scale_now
    assert is_wider(f"decimal({digits},{scale})", f"decimal({digits_now},{scale_now})") == holds


def test_a_changed_key_is_what_no_row_tells() -> None:
    found = compare_types({"key": {"a": "integer"}, "value": {}}, {"key": {"a": "long"}, "value": {}}, {})
    assert found.other == ("key: {a INT} -> {a BIGINT}",)
    assert compare_types({"value": {}}, {"key": {"a": "long"}, "value": {}}, {}).other == (
        "key: absent -> {a BIGINT}",
    )


def test_a_value_is_of_new_columns_alone() -> None:
    found = compare_types(
        {"value": {"a": "long"}}, {"value": {"a": "long", "b": "long"}}, {}, {"a": "1", "b": "2"}
    )
    assert (found.gained, found.filled, found.needs_rows) == (("b",), {"b": "2"}, True)
    assert found.lines() == ("+ b, '2' in older records",)


def test_a_name_that_is_there_is_no_former_name() -> None:
    found = compare({"a": "long", "b": "long"}, {"a": "long", "c": "long"}, {"c": "a"})
    assert (found.renamed, found.removed, found.gained) == ({}, {"b": "BIGINT"}, ("c",))
