"""The rows of some keys of a described node, before it is built: its logs read part by part, and replayed by the oracle.

Law: they are the rows that a fold of the logs gives for these keys. Which keys they are follows from the values alone: those
with the lowest hashes, of the records that the node may take and of the table before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Never

import pyarrow as pa

from headrace.explain.keyed_evidence import KeyedEvidence
from headrace.expressions import SparkNeededError
from headrace.lifecycle.evidence.local_evidence import LocalEvidence, among, lowest
from headrace.lifecycle.rebuilds.meeting_point import meeting_point, standing
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.renamed import has_to_be_renamed
from headrace.nodes.descriptions.topics import is_read
from headrace.nodes.node_tables import frontier_ms, settled_ms, slices_of
from headrace.nodes.progress import Progress
from headrace.operators.contract import SEQUENCE
from headrace.operators.key_scope import KeyScope, reads_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake


@dataclass(frozen=True)
class DescribedRows:
    """The rows to which the logs lead by a description.

    through_ms  commit time through which the logs were read
    keys        the keys whose rows are compared, all of which these have; None: all
    """

    rows: pa.Table
    through_ms: int
    keys: pa.Table | None = None


@dataclass(frozen=True)
class DescribedEvidence(KeyedEvidence):
    """The evidence of a node that is not built. In: before  the rows of its tables, whatever description has made them."""

    before: pa.Table = field(kw_only=True)

    @cached_property
    def _stored(self) -> LocalEvidence:
        return LocalEvidence(self.spark, self.node, self.of, self.progress, self.version, {}, self.before)

    @cached_property
    def _by_spark(self) -> Never:
        raise SparkNeededError("only a fold tells them")


def stands_before(lake: Lake, node: Node) -> Mapping[str, int] | None:
    """How far the tables have read each log from which a described node goes on; None: there are none.

    A node that is to be renamed goes on from the tables of its former name.
    """
    is_renamed = has_to_be_renamed(lake, node)
    return standing(lake, replace(node, name=node.renamed_from) if is_renamed else node)


def bounds_of(lake: Lake, node: Node) -> Mapping[str, int]:
    """Commit times beyond which a described node reads nothing, by topic; of a new node there are none."""
    before_ms = stands_before(lake, node)
    return {} if before_ms is None else meeting_point(before_ms, [topic.name for topic in node.topics])


def is_replayed(spark: SparkSession, node: Node, nodes: Sequence[Node]) -> bool:
    """Whether the oracle tells the rows of some keys by the records of these keys.

    In: nodes  those that are planned; one that is read by another has to be folded whole
    """
    return not (is_read(node, nodes) or reads_all(node) or bound(spark, node).rows.computed.feeds)


def replayed_rows(
    spark: SparkSession, lake: Lake, aside: Lake, node: Node, before: pa.Table, number: int
) -> DescribedRows | None:
    """The rows of so many keys; None: only a fold tells them.

    In: lake    in which the node's tables stand; aside: with the logs of the nodes that it reads
        before  the rows of its tables; none of a new node
    """
    of = bound(spark, replace(node, sinks=()))
    upto_ms = _reached(lake, aside, node)
    evidence = DescribedEvidence(
        spark,
        node,
        of,
        Progress(upto_ms=upto_ms),
        0,
        aside,
        slices_of(aside, node, {}, upto_ms),
        (),
        before=before,
    )
    through_ms = evidence.progress.frontier_ms(node)
    scope = KeyScope(node, evidence, through_ms)
    if any(_type(before, name) != _type(of.result_schema, name) for name in scope.by):
        return None  # the table before has other keys
    assert scope.part is not None
    try:
        keys = evidence.sampled(scope.part, scope.by, number, 0)
        results = scope.results(scope.log(keys), keys)
    except SparkNeededError:
        return None
    rows = results.rows if node.has_days else scope.rows(results)
    names = [*node.columns, *([SEQUENCE] if node.has_days else [])]
    schema = pa.schema([of.result_schema.field(name) for name in names])
    return DescribedRows(pa.Table.from_pylist(rows, schema), through_ms, keys)


def shared_keys(before: pa.Table, after: pa.Table, key: Sequence[str], number: int) -> pa.Table | None:
    """So many of the keys of two tables; None: they share no column of the key."""
    names = [n for n in key or before.column_names if n[:2] != "__" and _type(before, n) == _type(after, n)]
    return (
        lowest(pa.concat_tables([rows.select(names) for rows in (before, after)]), number) if names else None
    )


def of_keys(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows that have one of some keys."""
    return rows.filter(among(rows, keys.column_names, keys))


def _type(rows: pa.Table | pa.Schema, name: str) -> pa.DataType | None:
    """The type of a column; None: there is none."""
    schema = rows.schema if isinstance(rows, pa.Table) else rows
    return schema.field(name).type if name in schema.names else None


def _reached(lake: Lake, aside: Lake, node: Node) -> Mapping[str, int]:
    """How far a fold would read each log (see `NodeRunner`)."""
    bounds = bounds_of(lake, node)
    ends = {topic.name: frontier_ms(aside, topic) for topic in node.topics}
    if node.reads_together:
        settled = min([*(settled_ms(aside, topic) for topic in node.topics), *bounds.values()])
        return dict.fromkeys(ends, settled)
    return {name: min(ms, bounds.get(name, ms)) for name, ms in ends.items()}
