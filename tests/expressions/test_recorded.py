"""Terms equal what Spark was recorded to give: type, value by its bits, and null."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pyarrow.parquet as pq
import pytest

from headrace.expressions import Rows, SparkNeededError
from tests.expressions.boundary_rows import boundary_rows
from tests.expressions.compared import EQUAL, UNKNOWN, Difference, compared, differing_row, term_of
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


def test_a_slice_of_rows_has_the_values_of_the_same_rows_in_the_whole() -> None:
    """Arrays, maps and structs of a slice share the buffers of the whole."""
    rows, known = boundary_rows(), set(pq.read_schema(recorded()).names)
    for text in (each for each in fixed() if each in known):
        term = term_of(text)
        if term is None or term.evaluate is None:
            continue
        with suppress(SparkNeededError):
            whole, part = term.over(Rows.of(rows)), term.over(Rows.of(rows.slice(7, 30)))
            assert differing_row(part, whole.slice(7, 30)) is None, text
