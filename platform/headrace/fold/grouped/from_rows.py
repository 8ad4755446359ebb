"""The aggregates of a table that are found from the rows of a group: what a row contributed cannot be subtracted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.fold.aggregates.table import spelling
from headrace.fold.grouped.distinct_values import DistinctValues
from headrace.fold.grouped.picks import PICKED, Pick, plain_field

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.description import Aggregate

DISTINCT = "count_distinct"
FROM_ROWS = (*PICKED, DISTINCT)  # kinds of aggregates


def row_aggregates(
    aggregates: Sequence[tuple[str, Aggregate]], rows: pa.Schema
) -> tuple[Pick | DistinctValues, ...]:
    """Those of a description. In: rows  the columns of the table."""
    found: list[Pick | DistinctValues] = []
    for name, each in aggregates:
        if each.kind == DISTINCT:
            assert each.column is not None
            found.append(DistinctValues(name, plain_field(rows.field(spelling(rows, each.column)))))
        elif each.kind in PICKED:
            found.append(Pick.described(name, each, rows))
    return tuple(found)
