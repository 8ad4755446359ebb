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
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.float64(), DOUBLES),
    (pa.float32(), st.floats(width=32)),
    (pa.timestamp("us", "UTC"), MOMENTS),
    (pa.string(), st.text(st.sampled_from('aü"\n'), max_size=4)),
    (pa.int64(), st.integers(-1000, 1000)),
]


@EXAMPLES
@given(st.data())
def test_sizes_are_lengths_of_texts(data: st.DataObject) -> None:
    columns, rows = {}, data.draw(st.integers(1, 6))
    for number, (of, values) in enumerate(COLUMNS):
        drawn = data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns[f"c{number}"] = pa.array(drawn, of, from_pandas=False)
    texts = {name: json_values(values).to_pylist() for name, values in columns.items()}
    expected = [
        "{" + ",".join(f'"{name}":{each[row]}' for name, each in texts.items() if each[row] is not None) + "}"
        for row in range(rows)
    ]
    assert json_size(columns).tolist() == [len(text.encode()) for text in expected]
    assert isinstance(json_size(columns), np.ndarray)
