"""Values of a join that SQL computes: the caller evaluates it between two steps, this gives the rows their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.fold.changes.deltas import delta_schema
from headrace.fold.changes.station import ByOwnKey, Ports, Route, Selection, Station, StationResult
from headrace.fold.contract import Needs, StateTable, Times


@dataclass
class ComputedValues(Station):
    """Takes rows of both sides with the values that the caller has computed, and gives those of the join.

    columns    of the join
    selection  what the caller computes
    """

    part: str
    columns: pa.Schema
    selection: Selection
    scoped: bool = False
    state: Mapping[str, StateTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.routes: Mapping[str, Route] = {self.part: ByOwnKey()}

    def needs(self, ports: Ports, times: Times) -> Mapping[str, Needs]:
        """Nothing."""
        return {}

    def fold(self, ports: Ports, state: Ports, times: Times) -> StationResult:
        """The columns of the join."""
        return StationResult(ports[self.part].select(delta_schema(self.columns).names))
