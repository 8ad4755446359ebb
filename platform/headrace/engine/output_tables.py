"""The outputs of an operator that are tables of its node, and their columns.

A table is made before its node has any row, so its columns are those of the outputs of nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.description.feeds import RESULT
from headrace.engine.bucket_tasks import stored_columns
from headrace.engine.fold_increment import fold_increment
from headrace.engine.operators import NodeOperator
from headrace.engine.state_files import StateSource
from headrace.fold.changes.collect import CHANGES, RESULTS
from headrace.fold.changes.station import Computing
from headrace.fold.contract import Clock, Times
from headrace.fold.keys import with_keys
from headrace.fold.sessions import Sessions
from headrace.fold.sessions.shape import SEQUENCE
from headrace.fold.time_limits import TimeLimit
from headrace.fold.time_limits.entries import entry_table
from headrace.fold.time_limits.settle_waits import Ends, Waits, settle_waits

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
    match operator.kernel:
        case Sessions():
            return {RESULTS: _of_sessions(operator)}
        case TimeLimit():
            return {RESULTS: _of_time_limit(operator)}
    nothing = operator.rows({name: schema.empty_table() for name, schema in operator.inputs.items()})
    times = Times(Clock(), Clock())
    found = fold_increment(operator.steps, nothing, times, StateSource(""), batch=0, compute=nothing_computed)
    return {name: tables[0].schema for name, tables in found.outputs.items() if name in STORED}


def nothing_computed(selections: Mapping[str, Computing], rows: pa.Table) -> pa.Table:
    """The columns that SQL would compute, for a table without rows."""
    for part, selection in selections.items():
        for name in selection.values:
            rows = rows.append_column(
                f"{part}:{name}", pa.nulls(rows.num_rows, selection.types.field(name).type)
            )
    return rows


def _of_sessions(operator: NodeOperator) -> pa.Schema:
    (state,) = operator.layout.tables.values()
    sessions = cast("Sessions", operator.kernel).open_sessions(state.empty(), Clock())
    return sessions.schema.append(pa.field(SEQUENCE, pa.int64()))


def _of_time_limit(operator: NodeOperator) -> pa.Schema:
    kernel = cast("TimeLimit", operator.kernel)
    updates, none, no = kernel.shape.updates, np.zeros(0, np.int64), np.zeros(0, bool)
    rows = with_keys(kernel.decide(operator.inputs[RESULT].empty_table()), updates.by.names)
    waits = Waits(
        rows=updates.exploded(rows),
        wait=none,
        known=entry_table(kernel.shape).empty(),
        held=none,
        was_open=no,
        entry=none,
        opened_ms=none,
        opened_offset=none,
        ends=Ends(no, no, *[none] * 5),
        due_ms=none,
    )
    return settle_waits(waits, kernel.shape).outputs[RESULTS].schema
