"""The outputs of an operator that are tables of its node, and their columns.

A table is made before its node has any row, so its columns are those of the outputs of nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headrace.engine.folding.bucket_tasks import stored_columns
from headrace.engine.folding.fold_increment import Run
from headrace.engine.folding.operators import NodeOperator
from headrace.engine.state_files import StateSource
from headrace.fold.changes.collect import CHANGES, RESULTS
from headrace.fold.changes.station import Computing
from headrace.fold.contract import Clock, Times

STORED = (RESULTS, CHANGES)  # other outputs tell what waits, for bounds


def output_tables(operator: NodeOperator) -> dict[str, pa.Schema]:
    """The outputs that are tables of their own by name, with their columns."""
    kept = operator.kept
    return {
        name: stored_columns(schema.empty_table()).schema
        for name, schema in output_schemas(operator).items()
        if name not in kept
    }


def output_schemas(operator: NodeOperator) -> dict[str, pa.Schema]:
    """The columns of all outputs that last, by name."""
    if (schema := operator.kernel.results(operator.inputs)) is not None:
        return {RESULTS: schema}
    nothing = operator.kernel.rows({name: schema.empty_table() for name, schema in operator.inputs.items()})
    times = Times(Clock(), Clock())
    found = Run(compute=nothing_computed).increment(operator.steps, nothing, times, StateSource(""), batch=0)
    return {name: tables[0].schema for name, tables in found.outputs.items() if name in STORED}


def nothing_computed(selections: Mapping[str, Computing], rows: pa.Table) -> pa.Table:
    """The columns that SQL would compute, for a table without rows."""
    for part, selection in selections.items():
        for name in selection.values:
            rows = rows.append_column(
                f"{part}:{name}", pa.nulls(rows.num_rows, selection.types.field(name).type)
            )
    return rows
