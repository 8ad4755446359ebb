"""Terms equal what Spark was recorded to give: type, value by its bits, and null."""

from __future__ import annotations

from collections import Counter

import pyarrow.parquet as pq
import pytest

from tests.expressions.boundary_rows import boundary_rows
from tests.expressions.compared import EQUAL, UNKNOWN, Difference, compared
from tests.expressions.generated_wide import fixed
from tests.expressions.record import recorded

pytestmark = pytest.mark.fast


def test_terms_equal_what_spark_was_recorded_to_give() -> None:
    table, rows, outcomes, differences = (
        pq.read_table(recorded()),
        boundary_rows(),
        Counter[str](),
        list[str](),
    )
    by_chance, listed = (
        Counter[str](),
        set(fixed()),
    )  # those that are listed are mostly of functions that Spark computes
    for text, column in zip(table.column_names, table.columns, strict=True):
        try:
            outcome = compared(text, rows, column.combine_chunks())
            outcomes[outcome] += 1
            by_chance[outcome] += text not in listed
        except Difference as difference:
            differences.append(difference.words)
    assert differences == []
    assert by_chance[EQUAL] > 0.75 * by_chance.total(), by_chance
    assert outcomes[UNKNOWN] < 0.045 * table.num_columns, outcomes
