"""From a node's description to the kernel's operator, and to the rows that it takes.

Law: no type of a column, no option and no size leads to another operator; the description alone does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.description import (
    Batches,
    FlatMapped,
    Join,
    Lookup,
    NamedStream,
    Node,
    Processed,
    Refined,
    RunningAggregate,
    SessionWindows,
    SlidingWindows,
    StreamJoin,
    Suppressed,
    Table,
    TableAggregate,
    TableChanges,
    TimeWindows,
    WindowedAggregate,
)
from headrace.description.feeds import LEFT, RECORDS, RESULT, RIGHT, VERSIONS, Feed, feeds_of
from headrace.description.lookup import EVENT as AS_OF_EVENT
from headrace.engine.state_layout import StateLayout
from headrace.fold import sliding
from headrace.fold.batches import BatchedSink
from headrace.fold.changes.collect import RESULTS
from headrace.fold.columns import int64
from headrace.fold.contract import BATCH, CAUSE, HASH, KEY, ROW_COLUMNS, StateTable, Step
from headrace.fold.keys import group
from headrace.fold.lookups import LookupInLog, LookupInTime
from headrace.fold.processors import Processors
from headrace.fold.records import CHAIN, FlatMaps, Records
from headrace.fold.relations import Relations
from headrace.fold.sessions import SessionChanges, Sessions
from headrace.fold.stream_joins import StreamJoins
from headrace.fold.tables import Tables
from headrace.fold.tables.decide_records import PASSES
from headrace.fold.time_limits import TimeLimit
from headrace.fold.totals import Totals
from headrace.fold.windows import Windows
from headrace.sequence.parse.types import fields_of


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
    kernel: Any

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps of its fold."""
        return tuple(self.kernel.steps)

    @cached_property
    def layout(self) -> StateLayout:
        """Its state tables; where its results are revised, these among them."""
        return StateLayout({**StateLayout.of(self.steps).tables, **self.kept})

    @cached_property
    def kept(self) -> Mapping[str, StateTable]:
        """The outputs that the state keeps, so that one commit changes both."""
        from headrace.engine.output_tables import output_schemas

        return {RESULTS: current_results(output_schemas(self)[RESULTS])} if self.revises else {}

    @property
    def revises(self) -> bool:
        """True if a later row of a key replaces the earlier one in its results; False: results are final."""
        return isinstance(self.kernel, Totals | Tables | Relations) and not isinstance(
            self.node, TableChanges
        )

    def rows(self, feeds: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of all feeds as the first step takes them."""
        return rows_for(self.kernel, feeds)


def rows_for(kernel: Any, feeds: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of all feeds as the first step of a kernel takes them."""
    match kernel:
        case Relations() | Processors():
            return kernel.packed(feeds)
        case LookupInLog() | LookupInTime():
            return kernel.decide(feeds[RECORDS], feeds[VERSIONS])
        case StreamJoins():
            return kernel.decide(feeds[LEFT], feeds[RIGHT])
    return feeds[RESULT]


def current_results(schema: pa.Schema) -> StateTable:
    """Results that are revised, as a table of the state: of each key the newest row counts. In: schema  of the output."""
    return StateTable(schema, (HASH,), newest_of_keys)


def newest_of_keys(rows: pa.Table) -> pa.Table:
    """For each KEY, the row with the highest BATCH."""
    if not rows.num_rows:
        return rows
    rows = rows.combine_chunks()
    codes = group(rows[KEY]).codes
    order = np.lexsort((int64(rows[BATCH]), codes))
    last = np.append(codes[order][1:] != codes[order][:-1], True)
    return rows.take(pa.array(order[last]))


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
    kernel = _kernel(node, inputs, changes, computed)
    return NodeOperator(node, feeds, inputs, kernel)


def _kernel(
    node: Node, inputs: Mapping[str, pa.Schema], changes: bool, computed: Mapping[str, pa.Schema] | None
) -> Any:
    match node:
        case Join() | TableAggregate() | Refined():
            return Relations.of(node, inputs, changes=changes, computed=computed)
        case TableChanges(changed=WindowedAggregate(window=SessionWindows()) as sessions):
            return SessionChanges.of(sessions, inputs[RESULT])
        case TableChanges(changed=WindowedAggregate(window=SlidingWindows()) as windows):
            return sliding.SlidingChanges.of(windows, inputs[RESULT])
        case TableChanges():
            return Relations.of(node.changed, inputs, computed=computed, appended=True)
        case WindowedAggregate(window=TimeWindows(), suppression=None) if changes:
            return Relations.of(node, inputs)
        case Table():
            return Tables.of(node, inputs[RESULT], changes=changes)
        case RunningAggregate():
            return Totals.of(node, inputs[RESULT], changes=changes)
        case WindowedAggregate(window=TimeWindows()):
            return Windows.of(node, inputs[RESULT])
        case WindowedAggregate(window=SlidingWindows()):
            return sliding.SlidingWindows.of(node, inputs[RESULT])
        case WindowedAggregate(window=SessionWindows()):
            return Sessions.of(node, inputs[RESULT])
        case Suppressed():
            return TimeLimit.of(node, inputs[RESULT])
        case Batches():
            return BatchedSink.of(node, inputs[RESULT])
        case Lookup(as_of=as_of):
            lookup = LookupInTime if as_of == AS_OF_EVENT else LookupInLog
            return lookup.of(node, inputs[RECORDS], inputs[VERSIONS])
        case StreamJoin():
            return StreamJoins.of(node, inputs[LEFT], inputs[RIGHT])
        case NamedStream():
            return Records.of(node)
        case Processed():
            return Processors.of(node, inputs, fields_of)
        case FlatMapped():
            return FlatMaps.of(node, inputs[RESULT])
    raise AssertionError(f"a node of another kind: {type(node)}")
