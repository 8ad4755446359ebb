"""Stations fold a relation: each takes the changes of other relations and gives the changes of its own relation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.fold.aggregates.kind import whole
from headrace.fold.contract import BATCH, DELETED, INGESTED, Clock, Needs, StateTable, Times
from headrace.fold.keys import newest

if TYPE_CHECKING:
    from headrace.description.refined import RowStep

MADE = "__made:"  # before the name of a column that steps have made
PASSES = f"{MADE}passes"  # whether a row passes each `where`
Ports = Mapping[str, pa.Table]


@dataclass(frozen=True)
class StationResult:
    """The result of a station for the rows of one bucket.

    deltas   changes of its relation (see `deltas`), with KEY and HASH of its own key; None: it is the last station
    changes  new rows of its state, by table
    outputs  rows of the node's outputs, by name
    """

    deltas: pa.Table | None = None
    changes: Ports = field(default_factory=dict)
    outputs: Ports = field(default_factory=dict)


class Route(ABC):
    """How the changes of a relation are brought together for the station that takes them."""

    @abstractmethod
    def columns(self, relation: pa.Schema) -> pa.Schema:
        """The columns of what travels, beside `deltas.SHARED`. In: those of the relation."""

    @abstractmethod
    def of(self, deltas: pa.Table) -> pa.Table:
        """The changes that the station takes, with the KEY and HASH by which it takes them."""


@dataclass(frozen=True)
class ByOwnKey(Route):
    """By the key of the relation, which is set already."""

    def columns(self, relation: pa.Schema) -> pa.Schema:
        """The same."""
        return relation

    def of(self, deltas: pa.Table) -> pa.Table:
        """The same."""
        return deltas


@dataclass(frozen=True)
class Selection:
    """Values of a relation that the caller computes row by row, before a step takes its rows.

    part         of the rows: columns are named `part:column`
    left, right  columns of the sides of a join, by the names under which the rows carry them
    matched      column that says whether there is a right row
    values       by name the SQL over both sides
    types        the columns of the join, these values among them
    key          of a full outer join the columns of its key, which are those of a side that may not be there
    """

    part: str
    left: Mapping[str, str]
    right: Mapping[str, str]
    matched: str
    values: Mapping[str, str]
    types: pa.Schema
    key: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refinement:
    """Row-wise steps after a relation, which the caller computes before a step takes its rows.

    part    of the rows: columns are named `part:column`
    source  columns of the relation, by the names under which the rows carry them
    key     those that tell a row of it
    steps   of the description
    made    the columns that are computed by the names that rows have afterwards, MADE before each
    types   of these, and PASSES if there is a `where` among the steps
    port    the number of its rows among those of other relations; None: they come alone
    """

    part: str
    source: Mapping[str, str]
    key: Sequence[str]
    steps: Sequence[RowStep]
    made: Sequence[str]
    types: pa.Schema
    port: int | None = None

    @property
    def values(self) -> Mapping[str, str]:
        """The columns that are added to the rows, and the SQL that makes them, all of it together."""
        sql = "; ".join(text for step in self.steps for text in step.texts)
        return dict.fromkeys(self.types.names, sql)


Computing = Selection | Refinement


class Station(ABC):
    """A fold of changes. It holds plain values and Arrow schemas.

    part     name of the relation whose changes it gives
    routes   for each relation whose changes it takes how they come
    columns  of its relation
    state    the tables that it keeps
    scoped   whether rows of a KEY have to come together for it
    selection  values that the caller computes before its step; None: none
    timed    whether time alone can change its rows
    threads  see `Step.threads`
    """

    part: str
    routes: Mapping[str, Route]
    columns: pa.Schema
    state: Mapping[str, StateTable]
    scoped: bool = True
    selection: Computing | None = None
    timed: bool = False
    threads: bool = False

    @abstractmethod
    def needs(self, ports: Ports, times: Times) -> Mapping[str, Needs]:
        """See `Step.needs`. In: ports  for each relation its changes, routed."""

    @abstractmethod
    def fold(self, ports: Ports, state: Ports, times: Times) -> StationResult:
        """See `Step.fold`."""


class StatelessStation(Station):
    """A station that keeps nothing: what becomes of a row follows from that row, or from its changes of one commit."""

    state: Mapping[str, StateTable] = MappingProxyType({})

    def needs(self, ports: Ports, times: Times) -> Mapping[str, Needs]:
        """Nothing."""
        return {}


def newest_of(*identity: str) -> Callable[[pa.Table], pa.Table]:
    """The merge of rows that replace one another: of each identity the row of the last micro-batch and commit stays."""
    return partial(newest, of=identity, age=(BATCH, INGESTED))


def of_deleted(rows: pa.Table, after: Clock) -> pa.Array:
    """Rows that are gone: no fold reads them (see `StateTable.expired`)."""
    return whole(rows[DELETED])
