"""Values of a join that SQL computes: the caller evaluates it between two steps, this gives the rows their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.fold.changes.deltas import delta_schema
from headrace.fold.changes.station import ByOwnKey, Ports, Route, Selection, StatelessStation, StationResult
from headrace.fold.contract import Times


@dataclass
class ComputedValues(StatelessStation):
    """Takes rows of both sides with the values that the caller has computed, and gives those of the join.

    columns    of the join
    selection  what the caller computes
    """

    part: str
    columns: pa.Schema
    selection: Selection
    scoped: bool = False

    def __post_init__(self) -> None:
        self.routes: Mapping[str, Route] = {self.part: ByOwnKey()}

    def fold(self, ports: Ports, state: Ports, times: Times) -> StationResult:
        """The columns of the join."""
        return StationResult(ports[self.part].select(delta_schema(self.columns).names))
