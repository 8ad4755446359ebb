"""The sizes of rows as JSON are the lengths of their texts."""

from __future__ import annotations

import datetime as dt
import math
import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.fold.values.json_size import json_size
from headrace.fold.values.json_text import json_values

pytestmark = pytest.mark.fast

EXAMPLES = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "100")), deadline=None)
DOUBLES = st.one_of(
    st.floats(),
    st.sampled_from([0.0, 1.0, 0.001, 0.0009999, 1e7, 9999999.0, 1e23, 1e22, 5e-324, math.inf, -math.inf]),
    st.tuples(st.integers(-(10**9), 10**9), st.integers(-20, 20)).map(lambda pair: pair[0] * 10.0 ** pair[1]),
)
MOMENTS = st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2999, 1, 1), timezones=st.just(dt.UTC))
TEXTS = st.text(st.sampled_from('aü"\n'), max_size=4)
LINES = st.lists(st.none() | st.fixed_dictionaries({"n": st.none() | st.integers(0, 99)}), max_size=3)
NESTED = pa.struct(
    {"ä": pa.string(), "at": pa.timestamp("us", "UTC"), "lines": pa.list_(pa.struct({"n": pa.int64()}))}
)
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.float64(), DOUBLES),
    (pa.float32(), st.floats(width=32)),
    (pa.timestamp("us", "UTC"), MOMENTS),
    (pa.string(), TEXTS),
    (pa.int64(), st.integers(-1000, 1000)),
    (pa.binary(), st.binary(max_size=4)),
    (pa.list_(pa.float64()), st.lists(st.none() | DOUBLES, max_size=3)),
    (pa.map_(pa.string(), pa.string()), st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=3)),
    (pa.map_(pa.int64(), pa.string()), st.lists(st.tuples(st.integers(0, 9), TEXTS), max_size=2)),
    (
        NESTED,
        st.fixed_dictionaries(
            {"ä": st.none() | TEXTS, "at": st.none() | MOMENTS, "lines": st.none() | LINES}
        ),
    ),
]


@EXAMPLES
@given(st.data())
def test_sizes_are_lengths_of_texts(data: st.DataObject) -> None:
    columns, rows = {}, data.draw(st.integers(1, 6))
    for number, (of, values) in enumerate(COLUMNS):
        drawn = data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        # A slice: its values begin behind those of the array that it is cut from.
        columns[f"c{number}"] = pa.array([None, *drawn], of, from_pandas=False).slice(1)
    texts = {name: json_values(values).to_pylist() for name, values in columns.items()}
    expected = [
        "{" + ",".join(f'"{name}":{each[row]}' for name, each in texts.items() if each[row] is not None) + "}"
        for row in range(rows)
    ]
    assert json_size(columns).tolist() == [len(text.encode()) for text in expected]
    assert isinstance(json_size(columns), np.ndarray)
