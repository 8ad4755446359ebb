"""Terms equal what Spark was recorded to give: type, value by its bits, and null."""

from __future__ import annotations

from collections import Counter

import pyarrow.parquet as pq
import pytest

from tests.expressions.boundary_rows import boundary_rows
from tests.expressions.compared import EQUAL, UNKNOWN, Difference, compared
from tests.expressions.record import recorded

pytestmark = pytest.mark.fast


def test_terms_equal_what_spark_was_recorded_to_give() -> None:
    table, rows, outcomes, differences = (
        pq.read_table(recorded()),
        boundary_rows(),
        Counter[str](),
        list[str](),
    )
    for text, column in zip(table.column_names, table.columns, strict=True):
        try:
            outcomes[compared(text, rows, column.combine_chunks())] += 1
        except Difference as difference:
            differences.append(difference.words)
    assert differences == []
    assert outcomes[EQUAL] > 0.7 * table.num_columns, outcomes
    assert outcomes[UNKNOWN] < 0.06 * table.num_columns, outcomes
