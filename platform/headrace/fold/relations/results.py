"""The last station of a node: it shows what has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.fold.changes.collect import CHANGES, RESULTS, appended_changes, changes_of, latest_changes
from headrace.fold.changes.station import ByOwnKey, Ports, Route, StatelessStation, StationResult
from headrace.fold.contract import Times


@dataclass
class Results(StatelessStation):
    """Brings the rows before and after a change together (see `collect`).

    part      name of the node's relation
    key       of the node
    changes   whether each change is wanted, or the current rows alone
    appended  whether the changes are the results, and stay
    """

    part: str
    key: tuple[str, ...]
    columns: pa.Schema
    changes: bool
    appended: bool = False

    def __post_init__(self) -> None:
        self.routes: Mapping[str, Route] = {self.part: ByOwnKey()}

    def fold(self, ports: Ports, state: Ports, times: Times) -> StationResult:
        """The outputs of the node."""
        deltas = ports[self.part]
        values = [name for name in self.columns.names if name not in self.key]
        if self.appended:
            return StationResult(outputs={RESULTS: appended_changes(deltas, self.key, values)})
        outputs = {RESULTS: latest_changes(deltas, self.key, values, per_commit=self.changes)}
        if self.changes:
            outputs[CHANGES] = changes_of(deltas, self.key, values)
        return StationResult(outputs=outputs)
