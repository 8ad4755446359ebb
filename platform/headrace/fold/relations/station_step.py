"""A step of a relation: the stations whose inputs have come, and changes that pass through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from headrace.fold.changes.deltas import Port, pack, unpack
from headrace.fold.changes.station import Computing, Refinement, Route, Station
from headrace.fold.contract import Folded, Needs, Scope, StateTable, Step, Times


class StationStep(Step):
    """Some stations.

    arriving    the ports of the rows that come; leaving: of the rows that go on, none after the last step
    selections  for each port whose values the caller computes before the step how it does
    """

    def __init__(
        self,
        stations: Sequence[Station],
        arriving: Sequence[Port],
        leaving: Sequence[Port],
        routes: Mapping[str, Route],
    ) -> None:
        """In: routes  for each station's part how its changes go on, if they do."""
        self.stations, self.routes = tuple(stations), routes
        self.arriving, self.leaving = tuple(arriving), tuple(leaving)
        self.state: Mapping[str, StateTable] = {
            name: table for station in stations for name, table in station.state.items()
        }
        self.scope = Scope.GROUP if any(station.scoped for station in stations) else Scope.ANYWHERE
        self.threads = all(station.threads for station in stations)
        self._nothing: Folded | None = None  # what becomes of no rows
        numbers = {port.name: number for number, port in enumerate(self.arriving)}
        self.selections: Mapping[str, Computing] = {
            each.part: replace(each, port=numbers[each.part]) if isinstance(each, Refinement) else each
            for each in (station.selection for station in stations)
            if each is not None
        }

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The needs of each station for the rows that have come to it."""
        came = unpack(rows, self._taken())
        found: dict[str, Needs] = {}
        for station in self.stations:
            if station.state:
                found |= station.needs(came, times)
        return found

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """Each station in turn; one of them may take what another has given."""
        if rows.num_rows or any(station.timed for station in self.stations):
            return self._fold(rows, state, times)
        if self._nothing is None:
            self._nothing = self._fold(rows, {}, times)
        return self._nothing

    def _fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        came = unpack(rows, self._taken())
        changes: dict[str, pa.Table] = {}
        outputs: dict[str, pa.Table] = {}
        for station in self.stations:
            given = station.fold({part: came.pop(part) for part in station.routes}, state, times)
            changes |= given.changes
            outputs |= given.outputs
            if given.deltas is not None:
                came[station.part] = self.routes[station.part].of(given.deltas)
        going = pack(came, self.leaving) if self.leaving else None
        return Folded(going, outputs=outputs, changes=changes)

    def _taken(self) -> list[Port]:
        """The ports, with the columns that the caller has computed."""
        computed = {s.selection.part: s.selection.types for s in self.stations if s.selection is not None}
        return [
            Port(port.name, _union(port.columns, computed[port.name])) if port.name in computed else port
            for port in self.arriving
        ]


def _union(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    return pa.schema([*one, *(field for field in other if field.name not in one.names)])
