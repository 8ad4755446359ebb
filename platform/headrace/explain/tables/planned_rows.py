"""`plan --rows`: the rows that a changed description adds, removes and changes, before anything is built.

Law: the new rows are folds of the lake's logs by the described nodes, as `apply` folds them, through where the tables stand.
So the answer is what `apply` reports. The lake is read alone; what is folded lies in a temporary folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace import lake as lakes
from headrace.changing.plan import NEW, ChangePlan, NodePlan, in_bytes
from headrace.changing.plan_changes import plan_changes
from headrace.description import is_unnamed, output_name, written_by
from headrace.description.calendars import DAY_MS
from headrace.engine.folding.operators import stored_results
from headrace.engine.state_files import StateSource
from headrace.engine.state_reads import read_state
from headrace.errors import TerminalError
from headrace.explain.scope_size import KEYED_BYTES
from headrace.explain.tables.compared_rows import ComparedRows, Values, compare_rows
from headrace.explain.tables.sampled_rows import (
    DescribedRows,
    bounds_of,
    is_replayed,
    of_keys,
    replayed_rows,
    shared_keys,
    stands_before,
)
from headrace.fold.changes.collect import RESULTS
from headrace.fold.contract import Needs
from headrace.lifecycle.oracle_check import LOCAL_BYTES
from headrace.nodes.balances.older_rows import since_of
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.evolution import REBUILT
from headrace.nodes.descriptions.references import resolve_all_references
from headrace.nodes.descriptions.topics import is_read, upstream_first
from headrace.nodes.rows.stored_rows import current_rows, rows_of, settled, stored_rows
from headrace.operators.contract import SEQUENCE
from headrace.spark.on_demand import on_demand
from headrace.spark.session import pipeline_session
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

FOLLOWS_LOG = "its log is written again first, so its rows are known once headrace apply has done that"
FOLLOWS_BALANCE = "its log was cut: headrace apply begins with its opening balance"
FOLLOWS_REFUSED = "the plan refuses it"


@dataclass(frozen=True)
class NodeRows:
    """The rows of one node.

    outcome  as the plan has it
    rows     the differences; None: they are not known, for a reason
    days     True if only the last days are compared; a node whose rows have no day is compared whole
    keys     those of the sample, in the order of their hashes; None: all keys are compared
    columns_added, columns_removed  columns that only one of the tables has, or has with another type
    """

    node: str
    outcome: str
    rows: ComparedRows | None
    reason: str = ""
    days: bool = False
    keys: Sequence[Values] | None = None
    columns_added: tuple[str, ...] = ()
    columns_removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedRows:
    """The rows of a plan: of each node that is new, rebuilt or refused.

    days    how many of the last are compared; sample: how many keys. None: all
    """

    plan: ChangePlan
    nodes: Sequence[NodeRows]
    days: int | None = None
    sample: int | None = None


def planned_rows(
    spark: SparkSession,
    lake: Lake,
    nodes: Sequence[Node],
    *,
    days: int | None = None,
    sample: int | None = None,
    large: bool = False,
) -> PlannedRows:
    """Fold the logs by the described nodes, and compare with the tables that there are.

    In:     nodes  all of the pipeline
            days   compare the rows of so many UTC days alone, the last of each table; None: all
            sample compare the rows of so many keys of each node alone, those with the lowest hashes; None: all
            large  whether to read logs of any size
    Raises: TerminalError when the logs are too large
    """
    plan, spark = plan_changes(lake, nodes), on_demand(spark, pipeline_session)
    described = upstream_first(resolve_all_references(lake, nodes))
    changed = {each.node: each for each in plan.nodes if each.outcome in (NEW, REBUILT)}
    by_name = {node.required_name: node for node in described}
    reasons = {name: _why_unknown(plan, each, by_name[name]) for name, each in changed.items()}
    wanted = [node for node in described if reasons.get(node.required_name) == ""]
    needed = _needed(lake, described, wanted)
    replayed = [node for node in needed if sample and is_replayed(spark, node, needed)]
    _require_small(lake, [node for node in needed if node not in replayed], LOCAL_BYTES, large=large)
    _require_small(lake, replayed, KEYED_BYTES, large=large)
    with tempfile.TemporaryDirectory(prefix="headrace-plan-") as folder:
        names = frozenset(node.required_name for node in needed)
        aside = replace(lake, nodes=f"file:{folder}", aside=names)
        known = dict[str, NodeRows]()
        for node in needed:
            of = changed[node.required_name] if node in wanted else None
            before = None if of is None else _table_before(spark, lake, node, of)
            after = None
            if before is not None and node in replayed:
                after = replayed_rows(spark, lake, aside, node, before, sample or 0)
            if after is None:
                _require_small(lake, [node], LOCAL_BYTES, large=large)
                _fold(spark, lake, aside, node, described)
            if of is not None and before is not None:
                after = after or _folded(spark, aside, node)
                if sample is not None and after.keys is None:
                    after = replace(after, keys=shared_keys(before, after.rows, node.key, sample))
                known[of.node] = _compared(lake, node, of, before, after, days)
        rows = [
            known.get(name) or NodeRows(name, changed[name].outcome, None, reason)
            for name, reason in reasons.items()
        ]
        lakes.forget(f"file:{folder}")
    return PlannedRows(plan, rows, days, sample)


def _why_unknown(plan: ChangePlan, of: NodePlan, node: Node) -> str:
    """Why the rows of a node are not known before the plan is applied; empty: they are."""
    above = {*_above(node)}
    if of.from_balance:
        return FOLLOWS_BALANCE
    if above & {each.topic for each in plan.rewritten}:
        return FOLLOWS_LOG
    cut = {each.node for each in plan.rebuilt if each.from_balance}
    return FOLLOWS_BALANCE if above & cut else FOLLOWS_REFUSED if above & {*plan.refused} else ""


def _above(node: Node) -> Iterator[str]:
    """The topics and nodes that a node reads, directly or through others."""
    for topic in node.topics:
        writer = written_by(topic)
        if writer is None:
            yield topic.name
        else:
            yield writer.required_name
            yield from _above(writer)


def _needed(lake: Lake, described: Sequence[Node], wanted: Sequence[Node]) -> list[Node]:
    """The changed nodes, and those above them whose rows the lake does not have as they are described."""
    names = {node.required_name for node in wanted}
    for node in reversed(described):
        if node.required_name in names:
            writers = [writer for topic in node.topics if (writer := written_by(topic)) is not None]
            names |= {each.required_name for each in writers if not _has_log(lake, each)}
    return [node for node in described if node.required_name in names]


def _has_log(lake: Lake, node: Node) -> bool:
    given = output_name(node)
    log = lakes.open_table(lake.log(given))
    return not is_unnamed(node.required_name) and lakes.last_commit(log, f"log/{given}") is not None


def _require_small(lake: Lake, nodes: Sequence[Node], most: int, *, large: bool) -> None:
    """Raises: TerminalError, before anything is read. In: most  bytes of logs that are read without Spark."""
    uris = {lake.log(topic.name) for node in nodes for topic in node.topics}
    size = sum(lakes.open_table(uri).snapshot().bytes for uri in uris if lakes.exists(uri))
    if size > most and not large:
        raise TerminalError(
            f"The changed nodes read logs of {in_bytes(size)}. Without Spark {in_bytes(most)} are read.",
            hint="Add --large: Spark folds the logs.",
        )


def _fold(spark: SparkSession, lake: Lake, aside: Lake, node: Node, described: Sequence[Node]) -> None:
    """Fold a node aside, as far as its tables have read."""
    alone = replace(node, sinks=())
    bounds = partial(bounds_of, lake, node)
    runner = NodeRunner(spark, alone, aside, is_read=is_read(node, described), bounds=bounds)
    while runner.advance():
        pass


def _folded(spark: SparkSession, aside: Lake, node: Node) -> DescribedRows:
    """The rows of a node that was folded aside."""
    alone = replace(node, sinks=())
    stored = stored_rows(aside, alone, bound(spark, alone))
    through_ms = stored.progress.frontier_ms(node)
    return DescribedRows(stored.judged, through_ms)


def _compared(
    lake: Lake,
    node: Node,
    plan: NodePlan,
    before: pa.Table,
    described: DescribedRows,
    days: int | None,
) -> NodeRows:
    after = described.rows
    if plan.outcome == REBUILT and node.has_days and SEQUENCE in before.column_names:
        before_ms = min((stands_before(lake, node) or {}).values(), default=0)
        reached_ms = min(before_ms, described.through_ms)
        before, after = settled(before, reached_ms), settled(after, reached_ms)
    before, after = (_since(node, rows) for rows in (before, after))
    by_day = days is not None and node.day_column in after.column_names and node.day_column is not None
    if by_day:
        before, after = _last_days(node, before, after, days or 0)
    keys = described.keys
    if keys is not None:
        before, after = of_keys(before, keys), of_keys(after, keys)
    before, after = (rows.select([n for n in rows.column_names if n[:2] != "__"]) for rows in (before, after))
    kinds = [{field.name: field.type for field in rows.schema} for rows in (before, after)]
    added, removed = (
        tuple(n for n in own if own[n] != other.get(n)) for own, other in ((kinds[1], kinds[0]), kinds)
    )
    compared = compare_rows(before, after, node.key)
    named = None if keys is None else keys.to_pylist()
    return NodeRows(plan.node, plan.outcome, compared, "", by_day, named, added, removed)


def _table_before(spark: SparkSession, lake: Lake, node: Node, plan: NodePlan) -> pa.Table:
    """The rows of a node's tables, whoever has described it; of current results with the changes since the base."""
    if plan.outcome != REBUILT:
        return bound(spark, replace(node, sinks=())).result_schema.empty_table()
    name = plan.renamed_from or plan.node
    table, state = lakes.open_table(lake.table(name)), lakes.open_table(lake.state(name))
    snapshot = table.snapshot()
    rows = rows_of((f"{table.uri}/{file}" for file in snapshot.files), table.columns)
    names = state.columns.names
    if RESULTS not in names:
        return rows
    folded = lakes.last_commit(table, f"fold/{name}", through=snapshot.version)
    source = StateSource.committed(state)
    kept = read_state(source, stored_results(state), RESULTS, Needs(), remember=False).rows
    return current_rows(rows, kept, 0 if folded is None else folded.record["batch"])


def _since(node: Node, rows: pa.Table) -> pa.Table:
    """Rows from before the day of `since` stay as they are, so they are not compared."""
    since_ms = since_of(node)
    if since_ms is None or node.day_column is None or node.day_column not in rows.column_names:
        return rows
    return rows.filter(pc.greater_equal(_ms(rows[node.day_column]), since_ms))


def _last_days(node: Node, before: pa.Table, after: pa.Table, days: int) -> tuple[pa.Table, pa.Table]:
    assert node.day_column is not None
    newest = [pc.max(_ms(rows[node.day_column])).as_py() for rows in (before, after) if rows.num_rows]
    first_ms = (max(newest, default=0) // DAY_MS - days + 1) * DAY_MS
    return tuple(
        rows.filter(pc.greater_equal(_ms(rows[node.day_column]), first_ms)) for rows in (before, after)
    )


def _ms(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return (
        times if pa.types.is_integer(times.type) else times.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    )
