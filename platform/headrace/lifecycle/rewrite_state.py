"""A node's tables, computed anew from its logs as they are now: after an erasure, or a repair of a log.

Nothing may write meanwhile. Results that differ are swapped, then what is remembered of records that the node could not
use becomes what the log leads to, then the state is written anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.engine.state_layout import TABLE
from headrace.errors import TransientError
from headrace.lifecycle.rebuilds.meeting_point import is_behind
from headrace.nodes.balances.opening import copy_state
from headrace.nodes.bound_operator import bound
from headrace.nodes.node_tables import read_progress, settled_ms
from headrace.nodes.standing.state_commits import state_record, writings_read
from headrace.nodes.unusable_table import UnusableTable
from headrace.writing.fold_aside import stand
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.writing.fold_aside import Standing


def settled(spark: SparkSession, lake: Lake, node: Node) -> bool:
    """Bring a node to rest: complete what a crash had interrupted, fold what is not folded. False when it has never run."""
    if not lakes.exists(lake.table(node.required_name)):
        return False
    runner = NodeRunner(spark, node, lake)
    runner.finish()
    if runner.unfolded:
        runner.maintain()
    return bool(runner.progress.batch)


@dataclass(frozen=True)
class RewrittenState:
    """A state that was written anew.

    before    how many rows it had; after: has now
    unusable  how many records are forgotten that the node could not use
    """

    before: int
    after: int
    unusable: int


def rewrite_state(
    spark: SparkSession, lake: Lake, node: Node, standing: Standing | None = None
) -> RewrittenState:
    """Write the state as a fold of the whole log leaves it; current results are all in the base already.

    It reaches as far as before, and not beyond the end of a log. The state is fenced before its progress is read: a process
    that was paused, and has lost its leases, does not take a node back.

    In:     standing  what the log leads to as far as that, if the caller has folded it; None: it is folded here
    Raises: TransientError or FencedError when another process has written the state since; nothing is written then
    """
    name = node.required_name
    table = lakes.open_table(lake.state(name))
    writer = lakes.TableWriter(table, lakes.APPENDER, carries=[f"node/{name}"], mends=True)
    known = read_progress(lake, node)
    upto_ms = {
        topic.name: min(known.upto_ms.get(topic.name, 0), settled_ms(lake, topic)) for topic in node.topics
    }
    if standing is not None and is_behind(upto_ms, standing.progress.upto_ms, upto_ms):
        raise TransientError(
            f"Node '{name}': another process has written its state meanwhile.",
            hint="Its state stays as it is. Run it again: it does what is missing.",
        )
    now = standing or stand(spark, lake, node, upto_ms)
    progress = replace(now.progress, batch=max(known.batch, now.progress.batch))
    kept = bound(spark, node).operator.kept
    files = {
        path: file
        for path, file in now.source.files.items()
        if not any(file.may_have(TABLE, table, table) for table in kept)
    }
    before = table.snapshot()
    added = copy_state(replace(now.source, files=files), table.uri)
    forgotten = UnusableTable(spark, lake, node).hold(now.unusable)
    writer.replace(
        before.files, added, state_record(node, progress, writings_read(lake, node)), changes_data=True
    )
    now.release()
    return RewrittenState(before.rows, table.snapshot().rows, forgotten)
