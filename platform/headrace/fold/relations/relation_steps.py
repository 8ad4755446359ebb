"""The chain of steps of a relation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.description.feeds import RESULT
from headrace.fold.changes.collect import CHANGES, RESULTS, appended_changes, changes_of, latest_changes
from headrace.fold.changes.deltas import Port
from headrace.fold.changes.station import ByOwnKey, Ports, Route, StatelessStation, Station, StationResult
from headrace.fold.contract import Step, Times
from headrace.fold.kernel import Feeds, Kernel
from headrace.fold.relations.decide_step import DecideStep, packed_logs
from headrace.fold.relations.leaf import Leaf
from headrace.fold.relations.station_step import StationStep


@dataclass(frozen=True)
class Branch:
    """A part of the tree: the leaves below it, its stations in the order of their steps, and its columns.

    level  the step after which its changes are there; that of the first is 0
    apart  whether the row before a change and the row after it may lie in two buckets
    """

    part: str
    columns: pa.Schema
    leaves: tuple[Leaf, ...]
    stations: tuple[tuple[int, Station], ...]
    level: int
    apart: bool = False


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
    threads = True

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


@dataclass(frozen=True)
class Relations(Kernel):
    """A join, or the groups of a table; also a table, totals or windows of a stream by themselves, with their changes."""

    way: tuple[Step, ...]
    leaves: tuple[Leaf, ...]
    appended: bool

    @property
    def steps(self) -> tuple[Step, ...]:
        """Decide, then from station to station."""
        return self.way

    @property
    def revises(self) -> bool:
        """Unless changes are the results."""
        return not self.appended

    @classmethod
    def of(cls, tree: Branch, key: tuple[str, ...], *, changes: bool, appended: bool) -> Relations:
        """The kernel of a tree. In: key  of the node; changes, appended: see `Results`."""
        results = Results(RESULT, key, tree.columns, changes, appended)
        stations = sorted([*tree.stations, (_last(tree), results)], key=_level)
        way = _Way(tree, [station for _, station in stations], [level for level, _ in stations])
        return cls(way.steps(), tree.leaves, appended)

    def rows(self, feeds: Feeds) -> pa.Table:
        """The rows of all leaves as the first step takes them (see `decide_step.packed_logs`)."""
        return packed_logs(feeds, self.leaves)

    def decided(self, feeds: Feeds) -> pa.Table:
        """ROW_COLUMNS with FATE and REASON completed, one row per record."""
        first = self.steps[0]
        assert isinstance(first, DecideStep)
        return first.decide(self.rows(feeds))


def _level(station: tuple[int, Station]) -> int:
    return station[0]


def _last(tree: Branch) -> int:
    """The step that shows the results: a row of a foreign-key join comes from two buckets, others are whole in theirs."""
    return tree.level + 1 if tree.apart else tree.level


@dataclass(frozen=True)
class _Way:
    """How changes go from station to station, in the order of steps."""

    tree: Branch
    stations: Sequence[Station]
    levels: Sequence[int]

    def steps(self) -> tuple[Step, ...]:
        """The first step, and one for each level."""
        leaves = self.tree.leaves
        topics = [topic for leaf in leaves for topic in leaf.topics]
        routes = {leaf.part: route for leaf in leaves if (route := self._route(leaf.part, 0)) is not None}
        first = DecideStep(leaves, routes, shares_topics=len(set(topics)) < len(topics))
        steps: list[Step] = [first]
        on_the_way = {port.name: port for port in first.leaving}
        for level in range(1, self.levels[-1] + 1):
            step = self._step(level, on_the_way)
            on_the_way = {port.name: port for port in step.leaving}
            steps.append(step)
        return tuple(steps)

    def _step(self, level: int, arriving: Mapping[str, Port]) -> StationStep:
        which = [number for number, of in enumerate(self.levels) if of == level]
        routes, leaving = {}, dict(arriving)
        for number in which:
            station = self.stations[number]
            for part in station.routes:
                del leaving[part]
            route = self._route(station.part, number + 1)
            if route is not None:
                routes[station.part] = route
                leaving[station.part] = Port(station.part, route.columns(station.columns))
        stations = [self.stations[number] for number in which]
        # What a station gives to another one in its step does not leave.
        return StationStep(stations, [*arriving.values()], [*leaving.values()], routes)

    def _route(self, part: str, after: int) -> Route | None:
        """How changes of a part go on after so many stations; None: it is the last that gives it."""
        return next((s.routes[part] for s in self.stations[after:] if part in s.routes), None)
