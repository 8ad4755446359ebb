"""The rows of logs that make the rows of some keys: what an oracle has to read, for each kind of node.

Law: all times come from the log's rows, also from rows of other keys. So the oracle's rows of these keys are those that it
makes of the whole logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow as pa

from headrace import oracle
from headrace.description import (
    FlatMapped,
    Join,
    Lookup,
    Processed,
    Refined,
    Relation,
    SessionWindows,
    StreamJoin,
    Suppressed,
    TableAggregate,
    TableChanges,
    WindowedAggregate,
)
from headrace.description.feeds import LEFT, RECORDS, RESULT, RIGHT, ROWS, VERSIONS, below
from headrace.description.join import OUTER
from headrace.description.table_changes import is_sessions
from headrace.oracle.log import AT_THE_END
from headrace.oracle.relations import rows_at
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.oracle.log import Pair, Row, Values
    from headrace.oracle.reader_time import Commit

Rows = list[dict[str, Any]]


class LogRows(Protocol):
    """The reader of a node's feeds (see `lifecycle.evidence.oracle_evidence.Evidence`)."""

    @property
    def feeds(self) -> Sequence[str]:
        """The names of the feeds."""

    def columns(self, feed: str) -> pa.Schema:
        """The columns of a feed that its operator reads."""

    def of_keys(
        self, feed: str, keys: pa.Table | None, *, controls: bool = False, before: bool = False
    ) -> Rows:
        """The rows of some keys; None: of all."""

    def of_partitions(self, feed: str, keys: pa.Table) -> Rows:
        """All rows of the partitions that have rows of some keys, and all control rows: limits hold in each partition."""

    def history(self) -> list[Commit]:
        """The log commits."""

    def between(self, first_us: int, end_us: int) -> Self:
        """The same, without records of keys that have other event times, if that saves reading."""

    def values_of_joins(self, join: Join, pairs: Sequence[Pair]) -> Sequence[Values]:
        """The values of a join's `select`."""

    def refined_rows(self, node: Refined, rows: Sequence[Values]) -> Sequence[Values | None]:
        """The rows that the steps after a table make of its rows."""


@dataclass(frozen=True)
class KeyScope:
    """Some keys of a node, and the rows of its logs that make their rows.

    through_ms  commit time through which the logs are read
    """

    node: Node
    evidence: LogRows
    through_ms: int

    @cached_property
    def part(self) -> str | None:
        """The feed whose rows have the keys; None: keys are in the node's rows, of all of which there have to be."""
        match self.node:
            case Lookup():
                return RECORDS
            case FlatMapped():
                return RESULT if self.node.distinguishing_columns else None
            case Relation() | TableChanges():
                part, leaf = leftmost(self.node.relation)
                needs_all = any(
                    isinstance(each, Join) and each.how == OUTER for _, each in relations_in(self.node)
                )
                return None if needs_all or isinstance(leaf, TableAggregate) else part
            case Processed():  # a row says nothing certain of its group
                return None
        return next(iter(self.node.sides), RESULT)

    @cached_property
    def by(self) -> tuple[str, ...]:
        """The columns of a key."""
        match self.node:
            case FlatMapped():
                return self.node.distinguishing_columns or self.node.comparable_columns
            case Processed():
                return self.node.key or self.node.comparable_columns
            case Relation() | TableChanges():
                return leftmost(self.node.relation)[1].group
        by: tuple[str, ...] = getattr(self.node, "by", self.node.key)
        return by or getattr(self.node, "comparable_columns", ())

    def key_of(self, row: Mapping[str, Any]) -> Identity:
        """The key of a row."""
        return identity(row[name] for name in self.by)

    def of_windows(self, start_us: int) -> KeyScope:
        """The rows that make windows of one start; of windows that records make, all rows. In: start_us  since 1970."""
        match self.node:
            case WindowedAggregate(window=window) if not window.by_records:
                of_time = self.evidence.between(start_us, start_us + window.wait_ms * 1_000)
                return replace(self, evidence=of_time)
        return self

    def keys_of(self, feed: str, record: Row) -> pa.Table | None:
        """The key whose rows a record of a feed may change, as a table; None: rows of all keys have to be read."""
        if feed == self.part:
            names = self.by
        elif isinstance(self.node, StreamJoin):
            names = self.node.right_on
        else:
            return None
        of = self.evidence.columns(feed)
        schema = pa.schema([of.field(name) for name in names])
        keys = pa.Table.from_pylist([{name: record.values[name] for name in names}], schema)
        return keys.rename_columns([*self.by])

    def table_of(self, feed: str) -> Node:
        """The table whose records a feed has, for one that has them of a table; else the node itself."""
        if isinstance(self.node, Lookup) and feed == VERSIONS:
            return self.node.right
        return next((each for part, each in relations_in(self.node) if part == feed), self.node)

    def results(self, log: oracle.Log, keys: pa.Table | None) -> oracle.Results:
        """The oracle's results. A suppression by a time limit gives the rows of these keys alone."""
        if keys is None or not isinstance(self.node, Suppressed):
            return oracle.results(self.node, log)
        asked = {self.key_of(row) for row in keys.to_pylist()}
        return oracle.results(self.node, replace(log, wanted=asked.__contains__))

    def rows(self, results: oracle.Results) -> Rows:
        """The rows of the node's table among the results."""
        return [*results.rows, *results.open] if self.node.shows_open else results.rows

    def log(self, keys: pa.Table | None) -> oracle.Log:
        """The facts that the oracle needs for some keys; None: for all."""
        node, feeds = self.node, self.evidence
        plain: dict[str, Rows] = {}
        match node:
            case Lookup():
                plain[RECORDS] = feeds.of_keys(RECORDS, keys)
                refers = [tuple(row[name] for name in node.on) for row in plain[RECORDS]]
                sought = self._references(VERSIONS, node.right.key, refers)
                plain[VERSIONS] = feeds.of_keys(VERSIONS, sought, controls=node.complete_first)
            case StreamJoin():
                plain[LEFT] = feeds.of_keys(LEFT, keys)
                plain[RIGHT] = feeds.of_keys(
                    RIGHT, None if keys is None else keys.rename_columns([*node.right_on])
                )
            case Suppressed():
                assert keys is not None
                plain[RESULT] = feeds.of_partitions(RESULT, keys)
            case WindowedAggregate(window=SessionWindows()):
                plain[RESULT] = feeds.of_keys(RESULT, keys, before=True)
            case Relation() | TableChanges():
                self._gather(node.relation, RESULT, keys, plain)
            case Processed():
                plain = {name: feeds.of_keys(name, None) for name in feeds.feeds}
            case _:
                plain |= {name: feeds.of_keys(name, keys, controls=True) for name in feeds.feeds}
        schemas = {RESULT: feeds.columns(RESULT)} if isinstance(node, Processed) else None
        log = oracle.Log(
            plain, self._history, self.through_ms, feeds.values_of_joins, feeds.refined_rows, schemas
        )
        return oracle.read_by(node, log)

    def _gather(self, node: Relation, part: str, keys: pa.Table | None, plain: dict[str, Rows]) -> None:
        """The rows of a relation's leaves that make its rows of some keys; None: of all keys."""
        match node:
            case Join():
                self._gather(node.left, below(part, LEFT), keys, plain)
                left = rows_at(node.left, self._so_far(plain), AT_THE_END, below(part, LEFT))
                refers = [tuple(each.value[name] for name in node.on) for each in left.values()]
                self._gather(node.right, below(part, RIGHT), self._right_keys(node, part, refers), plain)
            case TableAggregate():
                self._gather(node.table, below(part, ROWS), None, plain)
            case Refined():
                self._gather(node.table, below(part, ROWS), keys, plain)
            case _:
                plain[part] = self.evidence.of_keys(part, keys, before=is_sessions(node))

    def _right_keys(self, node: Join, part: str, refers: Sequence[tuple[Any, ...]]) -> pa.Table | None:
        """The right keys that left rows refer to; None: all.

        Groups, and rows that stand in the result by themselves, need all; so do changes, of left rows that are gone.
        """
        feed, leaf = leftmost(node.right, below(part, RIGHT))
        if node.how == OUTER or self.node.tells_changes or isinstance(leaf, TableAggregate):
            return None
        names, of = leaf.group, node.right.key
        own = [tuple(key[of.index(name)] for name in names) for key in refers]
        return self._references(feed, names, own)

    def _references(self, feed: str, names: Sequence[str], keys: Sequence[tuple[Any, ...]]) -> pa.Table:
        """Keys of a feed as a table."""
        schema = pa.schema([self.evidence.columns(feed).field(name) for name in names])
        known = {identity(key): key for key in keys if None not in key}
        return pa.Table.from_pylist([dict(zip(names, key, strict=True)) for key in known.values()], schema)

    def _so_far(self, plain: Mapping[str, Rows]) -> oracle.Log:
        feeds = self.evidence
        log = oracle.Log(plain, self._history, compute=feeds.values_of_joins, refine=feeds.refined_rows)
        return oracle.read_by(self.node, log)

    @cached_property
    def _history(self) -> Sequence[Commit]:
        """The log commits, told by all their rows; a node of one topic in which no row waits does not ask for them."""
        asks = self.node.longest_wait_ms or isinstance(self.node, Processed) or len(self.node.topics) > 1
        return self.evidence.history() if asks else []


def reads_all(node: Node) -> bool:
    """Whether an oracle needs all rows of a feed, or of a partition, for the rows of some keys."""
    relations = [each for _, each in relations_in(node)]
    joins = [each for each in relations if isinstance(each, Join)]
    return (
        isinstance(node, Suppressed | Processed)
        or (isinstance(node, FlatMapped) and not node.distinguishing_columns)
        or (isinstance(node, WindowedAggregate) and isinstance(node.window, SessionWindows))
        or any(isinstance(each, TableAggregate) or is_sessions(each) for each in relations)
        or any(each.how == OUTER or isinstance(node, TableChanges) for each in joins)
    )


def relations_in(node: Node, part: str = RESULT) -> Iterator[tuple[str, Relation]]:
    """A relation, or the one whose changes a node tells, and those below it, by their parts."""
    if node.relation is not None:
        yield part, node.relation
        for side, table in node.relation.parts.items():
            yield from relations_in(table, below(part, side))


def leftmost(node: Relation, part: str = RESULT) -> tuple[str, Relation]:
    """The table that a chain of joins and steps begins with."""
    match node:
        case Join():
            return leftmost(node.left, below(part, LEFT))
        case Refined():
            return leftmost(node.table, below(part, ROWS))
    return part, node
