"""Row-wise steps after a relation: what SQL makes of a row follows from that row, so changes stay changes.

Law: a row that passes before a change and not after it is deleted by the change; one that passes after it alone is
inserted. A change of a row that passes at neither time is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.changes.deltas import SHARED, delta_schema
from headrace.fold.changes.station import (
    MADE,
    PASSES,
    ByOwnKey,
    Ports,
    Refinement,
    Route,
    StatelessStation,
    StationResult,
)
from headrace.fold.contract import Times


@dataclass
class RefinedRows(StatelessStation):
    """The rows of a relation after row-wise steps. It keeps no state.

    source     name of the relation before the steps
    origins    by column the column of that relation that it repeats; a column that is missing is computed
    selection  what the caller computes; None: nothing
    """

    part: str
    source: str
    columns: pa.Schema
    origins: Mapping[str, str]
    selection: Refinement | None = None
    scoped: bool = False
    threads = True

    def __post_init__(self) -> None:
        self.routes: Mapping[str, Route] = {self.source: ByOwnKey()}

    def fold(self, ports: Ports, state: Ports, times: Times) -> StationResult:
        """See the module."""
        rows = ports[self.source]
        if PASSES in rows.column_names:
            rows = rows.filter(pc.fill_null(rows[PASSES], False))
        columns = {name: rows[self.origins.get(name, f"{MADE}{name}")] for name in self.columns.names}
        schema = delta_schema(self.columns)
        shared = {name: rows[name] for name in SHARED}
        return StationResult(pa.table(columns | shared).select(schema.names).cast(schema))
