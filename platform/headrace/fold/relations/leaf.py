"""The folds of logs that relations are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.fold.changes.deltas import Port
from headrace.fold.changes.station import ByOwnKey, Ports, Route, Station, StationResult
from headrace.fold.contract import Needs, StateTable, Times
from headrace.fold.keys import distinct_hashes, with_keys
from headrace.fold.tables.decide_records import kept_records
from headrace.fold.tables.latest_rows import LatestRows


class Leaf(ABC):
    """How the records of some topics are decided and prepared before they are brought together.

    part    name of the relation
    inputs  columns of its stream and ROW_COLUMNS
    """

    part: str
    inputs: pa.Schema

    @property
    @abstractmethod
    def topics(self) -> tuple[str, ...]:
        """Whose records it takes."""

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """The columns of the rows that it gives, without `deltas.SHARED`."""

    @abstractmethod
    def decide(self, rows: pa.Table) -> pa.Table:
        """Complete FATE and REASON."""

    @abstractmethod
    def prepared(self, rows: pa.Table) -> pa.Table:
        """The rows that records give, with only the needed columns. In: rows that are kept, as `decide` gives them."""

    @property
    def port(self) -> Port:
        """The way that it begins."""
        return Port(self.part, self.columns)


@dataclass(frozen=True)
class TableLeaf(Leaf):
    """The records of a table, of each key and commit the latest.

    key   of the table
    rows  how the latest rows are found
    """

    part: str
    inputs: pa.Schema
    key: tuple[str, ...]
    rows: LatestRows

    @property
    def topics(self) -> tuple[str, ...]:
        """Those of the table."""
        return self.rows.topics

    @property
    def columns(self) -> pa.Schema:
        """Those of the table."""
        return self.rows.columns

    def decide(self, rows: pa.Table) -> pa.Table:
        """See `LatestRows.decide`."""
        return self.rows.decide(rows, self.key)

    def prepared(self, rows: pa.Table) -> pa.Table:
        """Rows after and, of keys that are deleted, rows before of which the values are not known."""
        return self.rows.puts(self.rows.reduced(with_keys(kept_records(rows, self.key), self.key)))


@dataclass
class TableStation(Station):
    """The latest rows of a table: records in, changes out.

    knows  whether it keeps what was latest before; otherwise records are the latest of their keys, and of what they
           replace nothing is told
    """

    part: str
    rows: LatestRows
    knows: bool
    threads = True

    def __post_init__(self) -> None:
        self.routes: Mapping[str, Route] = {self.part: ByOwnKey()}
        self.columns = self.rows.columns
        self.state: Mapping[str, StateTable] = {self._state: self.rows.state} if self.knows else {}

    def needs(self, ports: Ports, times: Times) -> Mapping[str, Needs]:
        """The rows of the same keys."""
        if not self.knows:
            return {}
        return {self._state: Needs(distinct_hashes(ports[self.part]))}

    def fold(self, ports: Ports, state: Ports, times: Times) -> StationResult:
        """See `LatestRows.advance`. Records of a key may come from several buckets of the step before."""
        if not self.knows:
            return StationResult(self.rows.reduced(ports[self.part]))
        known = state.get(self._state, self.state[self._state].empty())
        deltas, gained = self.rows.advance(ports[self.part], known)
        return StationResult(deltas, {self._state: gained})

    @property
    def _state(self) -> str:
        return f"{self.part}_latest"
