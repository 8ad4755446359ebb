"""The columns of which a table's columns are made, as Dagster's catalogue draws it.

It is known for named streams, merged branches, windows, totals, tables by key, and what is suppressed. Columns of other
nodes have no lineage here: their picture stands on the asset's page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dagster import AssetKey, TableColumnDep, TableColumnLineage

from headrace.description import (
    NodeReference,
    Select,
    WithColumn,
    is_unnamed,
    parse_expression,
    written_by,
)
from headrace.description.steps import Where
from headrace.orchestration.keys import log_key, table_key

if TYPE_CHECKING:
    from headrace.description import Branch, Node, Step, Stream, Topic

Sources = frozenset[tuple[AssetKey, str]]
NONE: Sources = frozenset()


def column_lineage(node: Node) -> TableColumnLineage | None:
    """Trace a node's columns to those that they are made of; None: nothing is known."""
    made = _of_node(node)
    known = {name: made[name] for name in node.columns if made.get(name)}
    if not known:
        return None
    return TableColumnLineage(
        {name: [TableColumnDep(key, column) for key, column in sorted(of)] for name, of in known.items()}
    )


def _of_node(node: Node) -> Mapping[str, Sources]:
    made: dict[str, Sources] = {}
    read: dict[Stream, Mapping[str, Sources]] = {}
    for name, sources in node.column_sources().items():
        for stream, _ in sources:
            if stream not in read:
                read[stream] = _of_stream(stream)
        made[name] = NONE.union(*(read[stream].get(column, NONE) for stream, column in sources))
    return made


def _of_stream(stream: Stream) -> dict[str, Sources]:
    found: dict[str, Sources] = {}
    for branch in stream.branches:
        for name, of in _of_branch(branch).items():
            found[name] = found.get(name, NONE) | of
    return found


def _of_branch(branch: Branch) -> dict[str, Sources]:
    columns = _of_topic(branch.topic)
    for step in branch.steps:
        columns = _after(columns, step)
    return columns


def _of_topic(topic: Topic) -> dict[str, Sources]:
    """A node's columns are those of its table; a topic's lie in the log as `key` and `value`."""
    if isinstance(topic, NodeReference):
        return {
            column.name: frozenset({(AssetKey([topic.node]), column.name)}) for column in topic.value_columns
        }
    node = written_by(topic)
    if node is not None:
        if is_unnamed(node.required_name):
            return dict(_of_node(node))
        return {name: frozenset({(table_key(node), name)}) for name in node.columns}
    of_value: dict[str, Sources] = {
        c.name: frozenset({(log_key(topic), "value")}) for c in topic.value_columns
    }
    return of_value | {c.name: frozenset({(log_key(topic), "key")}) for c in topic.key_columns}


def _after(columns: Mapping[str, Sources], step: Step) -> dict[str, Sources]:
    match step:
        case Where():
            return dict(columns)
        case Select(expressions):
            parsed = [parse_expression(sql, "select") for sql in expressions]
            return {each.name: _union(columns, each.columns) for each in parsed}
        case WithColumn(name, sql):
            return {**columns, name: _union(columns, parse_expression(sql, "with_column").columns)}
    every = _union(columns, columns)  # a function of the whole row
    return {column.name: every for column in step.columns or ()}


def _union(columns: Mapping[str, Sources], names: Iterable[str]) -> Sources:
    """The sources of some columns; SQL compares names without case."""
    known = {name.lower(): of for name, of in columns.items()}
    return frozenset().union(*(known.get(name.lower(), NONE) for name in names))
