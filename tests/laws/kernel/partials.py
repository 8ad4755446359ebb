"""Random columns for the laws of aggregates, and partials of them that are merged along random cuts."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from headrace.fold.aggregates import Aggregates
from headrace.fold.contract import INGESTED, OFFSET, PARTITION, TOPIC

DOUBLES = st.one_of(
    st.sampled_from([0.1, 0.7, -0.0, 0.0, 5e-7, 1.5e-6, -5e-7, 2.675, 1e15 + 0.1, -1e15, 1e21, 9.5e21, 1e22]),
    st.sampled_from(
        [
            math.nan,
            math.inf,
            -math.inf,
            1e300,
            sys.float_info.max,
            5e-324,
            999999999.9999999,
            0.5,
            2.5,
            -2.5,
            1.7e9,
        ]
    ),
    st.floats(-1e6, 1e6),
    st.floats(),
    st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 13)).map(lambda pair: pair[0] / 10 ** pair[1]),
)
LONGS = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "double": (pa.float64(), DOUBLES),
    "float": (pa.float32(), st.floats(width=32)),
    "long": (pa.int64(), LONGS),
    "short": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "decimal": (
        pa.decimal128(12, 3),
        st.decimals(-999_999_999, 999_999_999, places=3),
    ),
    "wide": (
        pa.decimal128(38, 10),
        st.one_of(st.decimals(-(10**27), 10**27, places=10), st.decimals(-(10**5), 10**5, places=10)),
    ),
    "deep": (pa.decimal128(38, 30), st.decimals(-2, 2, places=30)),
}
ORDERED: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text(st.sampled_from("abü\x00"), max_size=3)),
    "date": (pa.date32(), st.dates()),
    "flag": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(12, 3), st.decimals(-999, 999, places=3)),
    "double": (pa.float64(), DOUBLES),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(-2, 2), max_size=3)),
}


def rows_of(values: list[Any], of: pa.DataType) -> pa.Table:
    """Rows in the log's order."""
    n = len(values)
    return pa.table(
        {
            INGESTED: pa.array([7 + i // 5 for i in range(n)], pa.int64()),
            TOPIC: pa.array([f"t{i // 3 % 2}" for i in range(n)], pa.string()),
            PARTITION: pa.array([1 + i % 2 for i in range(n)], pa.int32()),
            OFFSET: pa.array(range(n), pa.int64()),
            "value": pa.array(values, of, from_pandas=False),
        }
    ).sort_by([(name, "ascending") for name in (INGESTED, TOPIC, PARTITION, OFFSET)])


def folded(
    rows: pa.Table, codes: list[int], groups: int, aggregates: Aggregates, data: st.DataObject
) -> pa.Table:
    """The results, merged along a cut."""
    merged = partials_of(rows, codes, groups, aggregates, data)
    return pa.table(aggregates.finish(merged), schema=pa.schema(aggregates.results))


def partials_of(
    rows: pa.Table, codes: list[int], groups: int, aggregates: Aggregates, data: st.DataObject
) -> pa.Table:
    """Cut anywhere into partials, merge some of them, then all; in any order."""
    order = np.array(data.draw(st.permutations(range(rows.num_rows))), np.int64)
    cuts = sorted(data.draw(st.lists(st.integers(0, rows.num_rows), max_size=3)))
    tables, which = [], []
    for begin, end in zip([0, *cuts], [*cuts, rows.num_rows], strict=True):
        part = order[begin:end]
        mine, dense = np.unique(np.array(codes, np.int64)[part], return_inverse=True)
        found = aggregates.partials(rows.take(pa.array(part)), dense, len(mine))
        tables.append(pa.table(found, schema=pa.schema(aggregates.fields)))
        which.append(mine)
    if len(tables) > 2:
        both = np.concatenate(which[:2])
        mine, dense = np.unique(both, return_inverse=True)
        merged = aggregates.merge(pa.concat_tables(tables[:2]), dense, len(mine))
        tables, which = (
            [pa.table(merged, schema=pa.schema(aggregates.fields)), *tables[2:]],
            [mine, *which[2:]],
        )
    merged = aggregates.merge(pa.concat_tables(tables), np.concatenate(which), groups)
    return pa.table(merged, schema=pa.schema(aggregates.fields))
