"""Some keys of a node, replayed record by record through the oracle, and compared with the node's tables.

Law: the keys are those with the lowest hashes, among the log's keys and the table's keys; another seed gives other keys.
Only the user's row-wise steps are computed for the oracle. All times come from the log's rows, also from rows of other keys.
This process and Spark read the same rows, so the verdict is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lifecycle.evidence.local_evidence import LocalEvidence
from headrace.lifecycle.evidence.oracle_evidence import TIMES_OF_ROWS, Evidence, Rows
from headrace.lifecycle.evidence.spark_evidence import SparkEvidence
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.references import resolve_references
from headrace.operators.key_scope import KeyScope
from headrace.oracle.values import Identity, ordered
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
        self.evidence = read_evidence(spark, lake, node)
        self.scope = KeyScope(node, self.evidence, self.evidence.progress.frontier_ms(node))

    def verdict(self, number: int, seed: int) -> KeysVerdict:
        """Compare so many keys."""
        part = self.scope.part
        keys = None if part is None else self.evidence.sampled(part, self.by, number, seed)
        wanted, stored = self._replayed(keys), self.evidence.table(self.by, keys)
        if keys is None:  # only all rows tell which keys there are
            chosen = _lowest({self.scope.key_of(row) for row in (*wanted, *stored)}, number, seed)
            wanted, stored = (
                [row for row in rows if self.scope.key_of(row) in chosen] for rows in (wanted, stored)
            )
            return self._compared(len(chosen), wanted, stored)
        return self._compared(keys.num_rows, wanted, stored)

    @property
    def by(self) -> tuple[str, ...]:
        """The columns of a key."""
        return self.scope.by

    def _replayed(self, keys: pa.Table | None) -> Rows:
        """The rows that the oracle makes of these keys."""
        return self.scope.rows(self.scope.results(self.scope.log(keys), keys))

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


def read_evidence(spark: SparkSession, lake: Lake, node: Node) -> Evidence:
    """The evidence of a node, which this process reads by itself if it is small, else Spark."""
    reading = LocalEvidence if bytes_of(lake, node) <= LOCAL_BYTES else SparkEvidence
    return reading.read(spark, lake, node, bound(spark, node))


def bytes_of(lake: Lake, node: Node) -> int:
    """The size of the files of a node's logs and tables."""
    name = node.required_name
    uris = [lake.table(name), lake.state(name), *(lake.log(topic.name) for topic in node.topics)]
    return sum(lakes.open_table(uri).snapshot().bytes for uri in {*uris})


def _lowest(keys: set[Identity], number: int, seed: int) -> set[Identity]:
    """Some keys by the order of their hashes."""

    def hashed(key: Identity) -> bytes:
        return blake2b(repr((seed, key)).encode(), digest_size=8).digest()

    return {*sorted(keys, key=hashed)[:number]}


def _values(row: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(ordered(row.get(name)) for name in names)


def _in_words(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name}={row.get(name)}" for name in names)
