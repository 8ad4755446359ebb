"""From a node's description to the kernel's operator, and to the rows that it takes.

Law: no type of a column, no option and no size leads to another operator; the description alone does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.description import Node
from headrace.description.feeds import Feed, feeds_of
from headrace.engine.state_layout import StateLayout
from headrace.fold.changes.collect import RESULTS
from headrace.fold.contract import CAUSE, HASH, ROW_COLUMNS, StateTable, Step
from headrace.fold.kernel import Kernel
from headrace.fold.keys import newest
from headrace.fold.records import CHAIN
from headrace.fold.tables.decide_records import PASSES
from headrace.operators.contract import Bindings
from headrace.operators.registry import operator_for
from headrace.sequence.parse.types import fields_of

if TYPE_CHECKING:
    from headrace.lake import LakeTable


@dataclass(frozen=True)
class NodeOperator:
    """A node's operator.

    feeds    the rows that it takes, by name
    inputs   the schema of each feed
    kernel   of the package `fold`
    """

    node: Node
    feeds: Mapping[str, Feed]
    inputs: Mapping[str, pa.Schema]
    kernel: Kernel

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps of its fold."""
        return self.kernel.steps

    @cached_property
    def layout(self) -> StateLayout:
        """Its state tables; where its results are revised, these among them."""
        return StateLayout({**StateLayout.of(self.steps).tables, **self.kept})

    @cached_property
    def kept(self) -> Mapping[str, StateTable]:
        """The outputs that the state keeps, so that one commit changes both."""
        from headrace.engine.folding.output_tables import output_schemas

        return {RESULTS: current_results(output_schemas(self)[RESULTS])} if self.revises else {}

    @property
    def revises(self) -> bool:
        """See `Kernel.revises`."""
        return self.kernel.revises


def current_results(schema: pa.Schema) -> StateTable:
    """Results that are revised, as a table of the state: of each key the newest row counts. In: schema  of the output."""
    return StateTable(schema, (HASH,), newest)


def stored_results(state: LakeTable) -> StateLayout:
    """The results that a state keeps, by the state's own columns. In: state  with RESULTS among its columns."""
    columns = state.columns.field(RESULTS).type
    return StateLayout({RESULTS: current_results(pa.schema([*columns, (HASH, pa.int64())]))})


def feed_schema(feed: Feed, columns: pa.Schema) -> pa.Schema:
    """The schema of the rows of a feed. In: columns  of its stream."""
    passes = [pa.field(PASSES, pa.bool_())] if feed.conditions else []
    chains = [pa.field(CHAIN, pa.string())] if feed.chained else []
    causes = [pa.field(CAUSE, pa.binary())] if feed.reads_causes else []
    return pa.schema([*columns, *ROW_COLUMNS, *passes, *chains, *causes])


def operator_of(
    node: Node,
    columns: Mapping[str, pa.Schema],
    *,
    changes: bool = False,
    computed: Mapping[str, pa.Schema] | None = None,
) -> NodeOperator:
    """The operator of a node.

    In:     columns   for each feed (see `feeds_of`) the columns of its stream after its steps
            changes   whether each change of a table is wanted, or its current rows alone
            computed  for each join whose select computes values, by its part, the columns of the join
    Raises: DescriptionError when the type of a foreign key is not that of the key
    """
    feeds = feeds_of(node)
    inputs = {name: feed_schema(feed, columns[name]) for name, feed in feeds.items()}
    kernel = operator_for(node).kernel(Bindings(inputs, changes, computed or {}, fields_of))
    return NodeOperator(node, feeds, inputs, kernel)
