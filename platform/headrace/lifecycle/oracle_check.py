"""Some keys of a node, replayed record by record through the oracle, and compared with the node's tables.

Law: the keys are those with the lowest hashes, among the log's keys and the table's keys; another seed gives other keys.
Only the user's row-wise steps are computed for the oracle. All times come from the log's rows, also from rows of other keys.
This process and Spark read the same rows, so the verdict is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace import lake as lakes
from headrace import oracle
from headrace.description import (
    FlatMapped,
    Join,
    Lookup,
    Processed,
    Refined,
    Relation,
    RunningAggregate,
    SessionWindows,
    StreamJoin,
    Suppressed,
    Table,
    TableAggregate,
    TableChanges,
    WindowedAggregate,
)
from headrace.description.feeds import LEFT, RECORDS, RESULT, RIGHT, ROWS, VERSIONS, below
from headrace.description.join import OUTER
from headrace.description.table_changes import is_sessions
from headrace.errors import TerminalError
from headrace.lifecycle.local_evidence import LocalEvidence
from headrace.lifecycle.oracle_evidence import TIMES_OF_ROWS, Rows, leftmost, relations_in
from headrace.lifecycle.spark_evidence import SparkEvidence
from headrace.nodes.bound_operator import bound
from headrace.nodes.opening import read_opening
from headrace.nodes.operator_frames import operator_of
from headrace.nodes.references import resolve_references
from headrace.oracle.log import AT_THE_END
from headrace.oracle.reader_time import Commit
from headrace.oracle.relations import rows_at
from headrace.oracle.values import Identity, identity, ordered
from headrace.spark.on_demand import on_demand
from headrace.spark.session import pipeline_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

SHOWN = 5  # how many differing rows of each side a verdict names
LOCAL_BYTES = 64 << 20  # of the files of logs and tables that this process reads by itself


@dataclass(frozen=True)
class KeysVerdict:
    """The findings of a comparison.

    keys               how many were checked
    rows_equal         rows of the table that are the oracle's
    rows_differing     rows that one side alone has
    first_differences  some of these, in words
    """

    node: str
    keys: int
    rows_equal: int
    rows_differing: int
    first_differences: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether no row differs."""
        return not self.rows_differing


def verify_keys(spark: SparkSession, lake: Lake, node: Node, keys: int, seed: int = 0) -> KeysVerdict:
    """Replay the log's rows of some keys through the oracle, and compare; change nothing.

    Raises: TerminalError when the node has never run, or rows of its logs were cut off.
    """
    return _Check(on_demand(spark, pipeline_session), lake, node).verdict(keys, seed)


class _Check:
    """One node, as of its last micro-batch."""

    def __init__(self, spark: SparkSession, lake: Lake, node: Node) -> None:
        node = resolve_references(lake, node)
        self.node, name = node, node.required_name
        if not lakes.exists(lake.table(name)):
            raise TerminalError(
                f"Node '{name}' has not run yet: there is nothing to compare.",
                hint="Start its stream; it reads its log from the beginning.",
            )
        if not read_opening(lake, node).is_at_the_beginning:
            raise TerminalError(
                f"Node '{name}': rows of its logs were cut off, and an oracle begins with the first.",
                hint=f"Run `headrace verify {name}`: it begins with the opening balance.",
            )
        reading = LocalEvidence if _bytes(lake, node) <= LOCAL_BYTES else SparkEvidence
        self.evidence = reading.read(spark, lake, node, bound(spark, node))

    def verdict(self, number: int, seed: int) -> KeysVerdict:
        """Compare so many keys."""
        keys = None if self.part is None else self.evidence.sampled(self.part, self.by, number, seed)
        wanted, stored = self._replayed(keys), self.evidence.table(self.by, keys)
        if keys is None:  # only all rows tell which keys there are
            chosen = _lowest({self._key(row) for row in (*wanted, *stored)}, number, seed)
            wanted, stored = ([row for row in rows if self._key(row) in chosen] for rows in (wanted, stored))
            return self._compared(len(chosen), wanted, stored)
        return self._compared(keys.num_rows, wanted, stored)

    @cached_property
    def part(self) -> str | None:
        """The feed whose rows have the keys; None: keys are found in the node's rows, of all of which there have to be."""
        match self.node:
            case Lookup():
                return RECORDS
            case FlatMapped():
                return RESULT if self.node.distinguishing_columns else None
            case Relation() | TableChanges():
                part, leaf = leftmost(_relation(self.node))
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
                return _group_of(leftmost(_relation(self.node))[1])
        by: tuple[str, ...] = getattr(self.node, "by", self.node.key)
        return by or getattr(self.node, "comparable_columns", ())

    def _replayed(self, keys: pa.Table | None) -> Rows:
        """The rows that the oracle makes of these keys."""
        node, log = self.node, self._log(keys)
        if keys is None or not isinstance(node, Suppressed):
            found = oracle.results(node, log)
        else:
            asked = {self._key(row) for row in keys.to_pylist()}
            found = oracle.results(node, log, wanted=asked.__contains__)
        return [*found.rows, *found.open] if node.shows_open else found.rows

    def _log(self, keys: pa.Table | None) -> oracle.Log:
        """The facts that the oracle has to be told."""
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
                self._gather(_relation(node), RESULT, keys, plain)
            case Processed():
                plain = {name: feeds.of_keys(name, None) for name in feeds.feeds}
            case _:
                plain |= {name: feeds.of_keys(name, keys, controls=True) for name in feeds.feeds}
        through_ms = operator_of(node).frontier_ms(self.evidence.progress)
        schemas = {RESULT: feeds.columns(RESULT)} if isinstance(node, Processed) else None
        log = oracle.Log(plain, self._history, through_ms, feeds.values_of_joins, feeds.refined_rows, schemas)
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
        names, of = _group_of(leaf), node.right.key
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

    def _key(self, row: Mapping[str, Any]) -> Identity:
        return identity(row[name] for name in self.by)

    def _compared(self, keys: int, wanted: Rows, stored: Rows) -> KeysVerdict:
        both = [n for n in self.node.columns if all(n in row for row in wanted)]
        both += [
            n for n in TIMES_OF_ROWS if n in self.evidence.table_columns and any(n in row for row in wanted)
        ]
        mine, theirs = (Counter(_values(row, both) for row in rows) for rows in (wanted, stored))
        shown = {_values(row, both): row for row in (*wanted, *stored)}
        words = []
        for side, rows in (("oracle", mine - theirs), ("table", theirs - mine)):
            some = sorted((values[: len(self.by)], side, _in_words(shown[values], both)) for values in rows)
            words += some[:SHOWN]
        return KeysVerdict(
            self.node.required_name,
            keys,
            (mine & theirs).total(),
            (mine - theirs).total() + (theirs - mine).total(),
            tuple(f"{side}: {row}" for _, side, row in sorted(words)),
        )


def _bytes(lake: Lake, node: Node) -> int:
    """The size of the files of a node's logs and tables."""
    name = node.required_name
    uris = [lake.table(name), lake.state(name), *(lake.log(topic.name) for topic in node.topics)]
    return sum(lakes.open_table(uri).snapshot().bytes for uri in {*uris})


def _relation(node: Relation | TableChanges) -> Relation:
    """The node itself, or the table whose changes it tells."""
    return node.changed if isinstance(node, TableChanges) else node


def _group_of(leaf: Relation) -> tuple[str, ...]:
    """The columns of a leaf's rows by which its records are brought together; a window is not among them."""
    match leaf:
        case Table():
            return leaf.key
        case RunningAggregate() | WindowedAggregate() | TableAggregate():
            return leaf.by
    raise AssertionError(f"a relation of another kind: {type(leaf)}")


def _lowest(keys: set[Identity], number: int, seed: int) -> set[Identity]:
    """Some keys by the order of their hashes."""

    def hashed(key: Identity) -> bytes:
        return blake2b(repr((seed, key)).encode(), digest_size=8).digest()

    return {*sorted(keys, key=hashed)[:number]}


def _values(row: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(ordered(row.get(name)) for name in names)


def _in_words(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name}={row.get(name)}" for name in names)
